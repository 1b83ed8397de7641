"""The account of a session as a table for the terminal."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.report.account import Account, Order, choose_order, failed, job_s, ordered, totals
from gmg_tui.results.summary import Cell, cells, columns
from gmg_tui.text import clean

MAX_ROWS = 40
_BEST = 30
_FAILED = 10
"""How many rows the best and the failed jobs have where there are more than `MAX_ROWS`."""
_CELL = 24
_NAME = 28
"""The most signs of a cell and of a job's name."""
_GAP = 2
_ORDER = 95
"""How long the column stays by which the rows are ordered."""
_STYLES = {
    WorkerState.FINISHED: "green",
    WorkerState.FAILED: "red",
    WorkerState.STOPPED: "yellow",
    WorkerState.WAITING: "dim",
}
_LIVE = "cyan"


_TITLES = {
    "fps_last": "FPS",
    "n_envs": "envs",
    "elapsed_s": "time",
    "memory_peak_mib": "VRAM peak",
    "gpu_util_mean_pct": "GPU %",
    "energy_j": "energy",
    "attempts": "tries",
    "gpu": "slot",
}
"""What the table calls columns of the CSV."""


class _Column(NamedTuple):
    title: str
    cells: list[str]
    keep: int
    """The greater, the longer it stays when room is short."""
    left: bool = False

    @property
    def width(self) -> int:
        return max(map(len, (self.title, *self.cells)))


def render(told: Account, best: str | None, *, width: int | None = None, colour: bool | None = None) -> str:
    """The table with its totals; many lines without a last end.

    Args:
        told: The session's account.
        best: The column by which to order, as in `SweepSpec.best`; one that no job has is said, and not kept to.
        width: In columns; None for the terminal's, or 80 where there is none.
        colour: Whether to use colours; None for whether standard output is a terminal.
    """
    if width is None:
        width = shutil.get_terminal_size((80, 24)).columns
    colour = sys.stdout.isatty() if colour is None else colour
    try:
        order = choose_order(told.jobs, best)
    except GmgError as error:
        plain = choose_order([], None)
        order = Order(None, smallest_first=False, text=f"{plain.text} ({error})")
    shown, what = _choose(ordered(told.jobs, order))
    output = io.StringIO()
    console = Console(file=output, width=width, force_terminal=colour, highlight=False, soft_wrap=True, emoji=False)
    left_out: list[str] = []
    if shown:
        fitting, left_out = _fit(_columns(told, shown, order), width)
        console.print(_table(shown, fitting))
    for line in _lines(told, what, order, left_out):
        console.print(Text(clean(line.encode(errors="replace"))))
    return "\n".join(line.rstrip() for line in output.getvalue().rstrip("\n").splitlines())


def _choose(jobs: list[JobRecord]) -> tuple[list[JobRecord], str]:
    """The jobs to show of all in their order, and which these are."""
    if len(jobs) <= MAX_ROWS:
        return jobs, units.count(len(jobs), "job")
    head = jobs[:_BEST]
    numbers = {job.number for job in head}
    bad = failed(jobs)
    more = [job for job in bad if job.number not in numbers][:_FAILED]
    text = f"the first {len(head)} of {len(jobs):,} jobs"
    return [*head, *more], f"{text}, and {len(more)} of {len(bad):,} that failed" if more else text


def _columns(told: Account, jobs: list[JobRecord], order: Order) -> list[_Column]:
    """All columns that hold anything, in the order in which they stand."""

    def column(
        title: str, cell: Callable[[JobRecord], str | None], keep: int, *, left: bool = False, limit: int = _CELL
    ) -> _Column:
        found = [cell(job) for job in jobs]
        texts = [units.NOT_KNOWN if text is None else _cut(text, limit) for text in found]
        return _Column(title, texts if any(text is not None for text in found) else [], keep, left)

    wanted = columns(told.jobs)
    rows = {job.number: dict(zip(wanted.header, cells(job, wanted), strict=True)) for job in jobs}

    def further(name: str, keep: int, title: str | None = None) -> _Column:
        return column(_cut(title or name, _CELL), lambda job: _written(rows[job.number][name]), keep)

    values = [further(name, 50 - place, title) for place, (name, title) in enumerate(wanted.values.items())]
    several = any(job.attempts > 1 for job in jobs)
    listed = [
        column("job", lambda job: str(job.number), 20),
        column("name", lambda job: job.name, 100, left=True, limit=_NAME),
        *values,
        column("state", lambda job: job.state.value, 90, left=True),
        column("slot", lambda job: job.slot, 75, left=True),
        column("tries", lambda job: str(job.attempts) if several else None, 25),
        column("time", lambda job: None if (s := job_s(told, job)) is None else _duration(s), 85),
        column("FPS", lambda job: units.fps(job.fps.last) if job.fps else None, 80),
        column("envs", lambda job: None if job.n_envs is None else f"{job.n_envs:,}", 35),
        column("VRAM peak", lambda job: _known(job.memory_peak_mib, units.mib), 40),
        column("GPU %", lambda job: _known(job.gpu_util_mean_pct, units.whole), 30),
        column("energy", lambda job: _known(job.energy_j, units.energy), 33),
        *(further(title, 70 - place) for place, title in enumerate(wanted.results)),
    ]
    # What a script prints of its environments is mostly what it was given.
    given = [[cell.replace(",", "") for cell in one.cells] for one in values]
    listed = [one for one in listed if one.title != "envs" or [c.replace(",", "") for c in one.cells] not in given]
    found = [one for one in listed if one.cells]
    if order.column is None:
        return found
    by = _TITLES.get(order.column, order.column)
    if all(one.title != by for one in found):
        found.append(further(order.column, _ORDER))
    return [one._replace(keep=_ORDER) if one.title == by else one for one in found]


def _fit(found: Sequence[_Column], width: int) -> tuple[list[_Column], list[str]]:
    """The columns that there is room for, and the titles of the others."""
    kept = list(found)
    left_out: list[str] = []
    while len(kept) > 1 and sum(one.width + _GAP for one in kept) - _GAP > width:
        least = min(kept, key=lambda one: one.keep)
        kept.remove(least)
        left_out.append(least.title)
    return kept, left_out


def _table(jobs: Sequence[JobRecord], found: Sequence[_Column]) -> Table:
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for one in found:
        table.add_column(Text(one.title), justify="left" if one.left else "right", no_wrap=True)
    for place, job in enumerate(jobs):
        style = _STYLES.get(job.state, _LIVE)
        row = [Text(one.cells[place], style if one.title == "state" else "") for one in found]
        table.add_row(*row)
    return table


def _lines(told: Account, what: str, order: Order, left_out: Sequence[str]) -> list[str]:
    """What stands under the table."""
    shown = f"{what}, {order.text}" if told.jobs else "no jobs"
    lines = [shown]
    if left_out:
        lines.append(f"left out for want of room: {', '.join(left_out)} (all are in --csv)")
    bad = failed(told.jobs)
    lines.extend(f"{job.name} failed: {job.reason or 'no reason is known'}" for job in bad[:_FAILED])
    if len(bad) > _FAILED:
        lines.append(f"and {len(bad) - _FAILED:,} more failed")
    if told.interrupted:
        lines.append(f"{units.count(len(told.interrupted), 'job')} ran when the engine died")
    lines.append(_summary(told))
    if told.session is not None:
        spec = told.session.spec
        further = [spec.sweep.results] if spec.sweep is not None and spec.sweep.results else []
        lines.extend(f"results: {folder}/" for folder in (*further, spec.folder))
    return lines


def _summary(told: Account) -> str:
    """What all jobs came to, in one line."""
    whole = totals(told)
    order = ["finished", "failed", "stopped"]
    states = sorted(whole.states.items(), key=lambda pair: order.index(pair[0]) if pair[0] in order else len(order))
    parts = [", ".join(f"{number:,} {state}" for state, number in states) or "no jobs"]
    if whole.total_s is not None:
        parts.append(f"total time {units.clock(whole.total_s)}")
    if whole.jobs_s is not None:
        parts.append(f"the jobs' times together {units.clock(whole.jobs_s)}")
    if whole.speed_up is not None:
        parts.append(f"{whole.speed_up:.1f} × one {told.place}")
    if whole.energy_j is not None:
        parts.append(units.energy(whole.energy_j))
    return "  ".join(parts)


def heading(told: Account, state: str) -> str:
    """Which session it is, in one line."""
    if told.session is None:
        return f"{told.name}  {state}"
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(told.session.started))
    script = told.session.spec.script or told.name
    return f"{told.name}  {state}  {clean(script.encode(errors='replace'))}  since {started}"


def _duration(seconds: float) -> str:
    """A job's time; short ones with a decimal."""
    return f"{seconds:.1f} s" if seconds < 60 else units.span(seconds)


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
    """Text that is safe on a terminal, of at most `limit` signs."""
    safe = clean(text.encode(errors="replace"))
    return safe if len(safe) <= limit else f"{safe[: limit - 1]}…"
