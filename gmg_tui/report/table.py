"""A report as a table for the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gmg_tui import tables, units
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.report import combined, gpus
from gmg_tui.report.data import Order, ReportData, choose_order, failed, ordered, totals
from gmg_tui.report.rows import Row, rows_of
from gmg_tui.results.summary import Cell, cells, columns
from gmg_tui.text import clean

MAX_ROWS = 40
_BEST = 30
_FAILED = 10
"""How many of the best and of the failed jobs are shown where there are more than `MAX_ROWS`."""
_CELL = 24
_NAME = 28
_ARGS = 40
"""The greatest width of a cell, of a job's name and of its arguments."""
_ORDER = 95
"""The priority of the column by which the rows are ordered."""
_BOLD = 1
_STYLES = {WorkerState.FINISHED: 32, WorkerState.FAILED: 31, WorkerState.STOPPED: 33, WorkerState.WAITING: 2}
_LIVE = 36
"""Select Graphic Rendition parameters (ECMA-48): green, red, yellow, dim; cyan for a job that runs."""
_TITLES = {
    "fps_settled": "FPS",
    "fps_last": "FPS last",
    "n_envs": "envs",
    "elapsed_s": "time",
    "memory_peak_mib": "VRAM peak",
    "gpu_util_mean_pct": "GPU %",
    "energy_j": "energy",
    "attempts": "tries",
    "gpu": "slot",
    "slots": "slot",
}
"""What the table calls columns of the CSV."""


class _Column(NamedTuple):
    title: str
    cells: list[str]
    priority: int
    """When the terminal is too narrow, the column with the lowest is left out first."""
    left: bool = False

    @property
    def width(self) -> int:
        return tables.width((self.title, *self.cells))


def render(data: ReportData, best: str | None, *, width: int | None = None, colour: bool | None = None) -> str:
    """The table with its totals; many lines, the last without a line end.

    It is ordered by the column `best`, as in `SweepSpec.best`; the text mentions it when no job has that column. Width
    (80 where there is no terminal) and colour are by default what standard output has.
    """
    there = output()
    width = there[0] if width is None else width
    colour = there[1] if colour is None else colour
    try:
        order = choose_order(data.jobs, best)
    except GmgError as error:
        order = Order(None, smallest_first=False, text=f"{choose_order([], None).text} ({error})")
    rows = {(row.record.number, row.record.attempts): row for row in rows_of(data)}
    what, shown = _choose(ordered([row.record for row in rows.values()], order), len(data.jobs))
    drawn: list[str] = []
    left_out: list[str] = []
    if shown:
        chosen = [rows[job.number, job.attempts] for job in shown]
        fitting, left_out = _fit(_columns(data, chosen, order), width)
        drawn = _table(shown, fitting, colour=colour)
    drawn += combined.table(data.jobs, order, width)
    return "\n".join([*drawn, *(clean(line.encode(errors="replace")) for line in _lines(data, what, order, left_out))])


def output() -> tuple[int, bool]:
    """The width of standard output, 80 where it is no terminal, and whether it takes colours."""
    colour = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return shutil.get_terminal_size((80, 24)).columns, colour


def _choose(jobs: list[JobRecord], all_jobs: int) -> tuple[str, list[JobRecord]]:
    """Which to show of the rows in their order, in words and as records; `all_jobs` is how many jobs they are of."""
    noun = "job" if len(jobs) == all_jobs else "attempt"
    if len(jobs) <= MAX_ROWS:
        what = units.count(all_jobs, "job")
        return what if noun == "job" else f"{units.count(len(jobs), noun)} of {what}", jobs
    head = jobs[:_BEST]
    numbers = {(job.number, job.attempts) for job in head}
    bad = failed(jobs)
    more = [job for job in bad if (job.number, job.attempts) not in numbers][:_FAILED]
    text = f"the first {len(head)} of {len(jobs):,} {noun}s"
    return f"{text}, and {len(more)} of {len(bad):,} that failed" if more else text, [*head, *more]


def _slots(job: JobRecord) -> str | None:
    """Where a job ran: the first of its slots, and how many others."""
    return f"{job.slot} +{len(job.slots) - 1}" if job.slots else job.slot


def _columns(data: ReportData, listed: list[Row], order: Order) -> list[_Column]:
    """All columns that hold anything, in the order in which they stand."""
    jobs = [row.record for row in listed]

    def column(
        title: str, cell: Callable[[JobRecord], str | None], priority: int, *, left: bool = False, limit: int = _CELL
    ) -> _Column:
        found = [cell(job) for job in jobs]
        texts = [units.NOT_KNOWN if text is None else _cut(text, limit) for text in found]
        return _Column(title, texts if any(text is not None for text in found) else [], priority, left)

    wanted = columns(data.jobs)
    rows = {id(job): dict(zip(wanted.header, cells(job, wanted), strict=True)) for job in jobs}
    args = {id(row.record): row.args for row in listed}

    def further(name: str, priority: int, title: str | None = None) -> _Column:
        return column(_cut(title or name, _CELL), lambda job: _written(rows[id(job)][name]), priority)

    values = [further(name, 50 - place, title) for place, (name, title) in enumerate(wanted.values.items())]
    several = any(job.attempts > 1 for job in jobs)
    dated = len({time.localtime(job.started)[:3] for job in jobs if job.started}) > 1
    # Where one job was tried with other arguments, these are what its rows differ in.
    searched = len({job.number for job in jobs}) < len(jobs)
    args_at, start_at = (78, 44) if searched else (16, 18)
    fps_last_at = 14 if any(job.fps and job.fps.settled is not None for job in jobs) else 80
    found = [
        column("job", lambda job: str(job.number), 20),
        column("name", lambda job: job.name, 100, left=True, limit=_NAME),
        *values,
        column("state", lambda job: job.state.value, 90, left=True),
        column("slot", _slots, 75, left=True),
        column("rank", lambda job: None if job.rank is None else f"{job.rank} of {job.world_size}", 46),
        column("tries", lambda job: str(job.attempts) if several else None, 45),
        column(
            "args",
            lambda job: shlex.join(args[id(job)] or ()) or None if searched or not values else None,
            args_at,
            left=True,
            limit=_ARGS,
        ),
        column("start", lambda job: _started(job.started, dated=dated), start_at),
        column("time", lambda job: _known(job.elapsed_s, units.duration), 85),
        column("FPS", lambda job: _known(job.fps.settled if job.fps else None, units.fps), 80),
        column("FPS last", lambda job: units.fps(job.fps.last) if job.fps else None, fps_last_at),
        column("envs", lambda job: None if job.n_envs is None else f"{job.n_envs:,}", 35),
        column("VRAM peak", lambda job: _known(job.memory_peak_mib, units.mib), 40),
        column("GPU %", lambda job: _known(job.gpu_util_mean_pct, units.whole), 30),
        column("energy", lambda job: _known(job.energy_j, units.energy), 12),
        *(further(title, 70 - place) for place, title in enumerate(wanted.results)),
    ]
    # What a script prints of its environments is mostly what it was given.
    given = [[cell.replace(",", "") for cell in one.cells] for one in values]
    found = [one for one in found if one.title != "envs" or [c.replace(",", "") for c in one.cells] not in given]
    found = [one for one in found if one.cells]
    if order.column is None:
        return found
    by = _TITLES.get(order.column, order.column)
    if all(one.title != by for one in found) and (ordering := further(order.column, _ORDER)).cells:
        found.append(ordering)
    return [one._replace(priority=_ORDER) if one.title == by else one for one in found]


def _fit(found: Sequence[_Column], width: int) -> tuple[list[_Column], list[str]]:
    """The columns that fit, and the titles of the others."""
    kept = list(found)
    left_out: list[str] = []
    while len(kept) > 1 and sum(one.width + tables.GAP for one in kept) - tables.GAP > width:
        least = min(kept, key=lambda one: one.priority)
        kept.remove(least)
        left_out.append(least.title)
    return kept, left_out


def _table(jobs: Sequence[JobRecord], found: Sequence[_Column], *, colour: bool) -> list[str]:
    def style(row: int, column: int, cell: str) -> str:
        if row == 0:
            return f"\x1b[{_BOLD}m{cell}\x1b[0m"
        is_state = found[column].title == "state"
        return f"\x1b[{_STYLES.get(jobs[row - 1].state, _LIVE)}m{cell}\x1b[0m" if is_state else cell

    rows = [[one.title for one in found], *zip(*(one.cells for one in found), strict=True)]
    align = "".join("l" if one.left else "r" for one in found)
    return tables.lines(rows, align, style=style) if colour else tables.lines(rows, align)


def _lines(data: ReportData, what: str, order: Order, left_out: Sequence[str]) -> list[str]:
    """What is printed under the table."""
    shown = f"{what}, {order.text}" if data.jobs else "no jobs"
    lines = [shown]
    if left_out:
        lines.append(f"not enough room for: {', '.join(left_out)} (--csv has all columns)")
    bad = failed(data.jobs)
    lines.extend(f"{job.name} failed: {job.reason or 'no reason known'}" for job in bad[:_FAILED])
    if len(bad) > _FAILED:
        lines.append(f"and {len(bad) - _FAILED:,} more failed")
    if data.interrupted:
        lines.append(f"{units.count(len(data.interrupted), 'job')} running when the engine died")
    lines.extend(gpus.lines(data, order))
    lines.append(_summary(data))
    if data.session is not None:
        spec = data.session.spec
        further = [spec.sweep.results] if spec.sweep is not None and spec.sweep.results else []
        lines.extend(f"results: {folder}/" for folder in (*further, spec.folder))
    return lines


def _summary(data: ReportData) -> str:
    """The totals of all jobs, in one line."""
    whole = totals(data)
    order = ["finished", "failed", "stopped"]
    states = sorted(whole.states.items(), key=lambda pair: order.index(pair[0]) if pair[0] in order else len(order))
    parts = [", ".join(f"{number:,} {state}" for state, number in states) or "no jobs"]
    if data.session is not None and data.session.spec.simulate is not None:
        parts.insert(0, "simulated")
    if whole.total_s is not None:
        parts.append(f"total time {units.clock(whole.total_s)}")
    if whole.jobs_s is not None:
        parts.append(f"total job time {units.clock(whole.jobs_s)}")
    if whole.speed_up is not None:
        parts.append(f"{whole.speed_up:.1f}× speed-up")
    if whole.energy_j is not None:
        parts.append(units.energy(whole.energy_j))
    return "  ".join(parts)


def heading(data: ReportData, state: str) -> str:
    """The session, in one line."""
    if data.session is None:
        return f"{data.name}  {state}"
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(data.session.started))
    script = data.session.spec.script or data.name
    simulated = "simulated  " if data.session.spec.simulate is not None else ""
    return f"{data.name}  {state}  {simulated}{clean(script.encode(errors='replace'))}  since {started}"


def _started(moment: float | None, *, dated: bool) -> str | None:
    """The time of day of a start, with its day where rows differ in that."""
    return time.strftime("%m-%d %H:%M:%S" if dated else "%H:%M:%S", time.localtime(moment)) if moment else None


def _known(value: float | None, write: Callable[[float | None], str]) -> str | None:
    return None if value is None else write(value)


def _written(cell: Cell) -> str | None:
    if cell is None:
        return None
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return f"{cell:.6g}" if abs(cell) < 1e6 else f"{cell:,.0f}"
    return str(cell)


def _cut(text: str, limit: int) -> str:
    """`text` in at most `limit` columns, safe for a terminal."""
    return tables.cut(clean(text.encode(errors="replace")), limit)
