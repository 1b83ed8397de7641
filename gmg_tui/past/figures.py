"""A session's metrics over time, as series for graphs and charts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gmg_tui.model import Series

if TYPE_CHECKING:
    from sqlite3 import Connection

RECENT_S: Final = 900
"""How far the small graphs reach back, seconds."""
_POINTS: Final = 720
"""At most so many in a chart."""
_STEP_S: Final = 1.0
"""At which the engine records."""
_COLUMNS: Final = "coalesce(fps_settled, fps), gpu_util_pct, memory_used_mib, power_w, sm_pct"
_RECENT: Final = f"SELECT slot, CAST(time AS INTEGER), {_COLUMNS} FROM figures WHERE rowid >= ? AND time <= ?"  # noqa: S608 - names from this file
_LIFE: Final = "SELECT min(time), max(time) FROM figures WHERE slot = ?"
_MEANS: Final = """
SELECT CAST((time - :start) / :step_s AS INTEGER), avg(coalesce(fps_settled, fps)), avg(gpu_util_pct),
    avg(memory_used_mib), avg(power_w), avg(sm_pct)
FROM figures WHERE slot = :slot AND time >= :start GROUP BY 1
"""

_Row = tuple[float | None, ...]


def recent(db: Connection, slots: Iterable[str], until: float) -> tuple[Series, ...]:
    """The minutes before `until` (Unix seconds) of each slot, second by second."""
    found: dict[str, dict[int, _Row]] = {slot: {} for slot in slots}
    end = int(until)
    for slot, second, *figures in db.execute(_RECENT, (_first_row(db, until - RECENT_S), until)):
        if slot in found and second > end - RECENT_S:
            found[slot][second] = tuple(figures)
    return tuple(
        _series(slot, float(end), _STEP_S, rows, end - RECENT_S + 1, end) for slot, rows in found.items() if rows
    )


def whole(db: Connection, slot: str, start: float | None = None) -> Series:
    """A slot's whole life, or that from `start` (Unix seconds) on, in at most some hundred steps."""
    first, last = db.execute(_LIFE, (slot,)).fetchone()
    if first is None:
        return Series(slot, 0.0, _STEP_S)
    begin = first if start is None else min(max(first, start), last)
    step_s = max(_STEP_S, (last - begin) / (_POINTS - 1))
    means = db.execute(_MEANS, {"slot": slot, "start": begin, "step_s": step_s})
    rows = {step: tuple(figures) for step, *figures in means}
    count = int((last - begin) / step_s)
    return _series(slot, begin + count * step_s, step_s, rows, 0, count)


def _series(slot: str, end: float, step_s: float, rows: dict[int, _Row], first: int, last: int) -> Series:
    """The rows of the steps from `first` to `last`; nothing is known of those that have none."""
    missing: _Row = (None,) * 5
    columns = tuple(zip(*(rows.get(step, missing) for step in range(first, last + 1)), strict=True))
    fps, util_pct, memory_mib, power_w, sm_pct = columns
    known = any(value is not None for value in sm_pct)
    return Series(slot, end, step_s, fps, util_pct, memory_mib, power_w, sm_pct if known else ())


class _Times:
    """The times of the rows, by their number less one: they are written in order, so what is looked for is bisected."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        (self._count,) = db.execute("SELECT coalesce(max(rowid), 0) FROM figures").fetchone()

    def __len__(self) -> int:
        return int(self._count)

    def __getitem__(self, at: int) -> float:
        row = self._db.execute("SELECT time FROM figures WHERE rowid >= ? ORDER BY rowid LIMIT 1", (at + 1,)).fetchone()
        return float(row[0])


def _first_row(db: Connection, time: float) -> int:
    """The number of the first row that is not before `time`, Unix seconds."""
    return bisect_left(_Times(db), time) + 1
