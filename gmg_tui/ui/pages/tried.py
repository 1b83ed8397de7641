"""All that was tried in the session: each set of arguments with what it reached."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content

from gmg_tui.jobs.argument_placeholders import fill_some
from gmg_tui.model import Settings, Tried, units
from gmg_tui.model.secrets import mask
from gmg_tui.model.tried import fastest
from gmg_tui.results.column import Column
from gmg_tui.session.client import Source
from gmg_tui.ui import words
from gmg_tui.ui.drawing import safe
from gmg_tui.ui.pages.page import TablePage
from gmg_tui.ui.pages.table import RowTable


class Row(NamedTuple):
    """One set of arguments."""

    tried: Tried
    best: bool
    """Whether no other is faster; in a tuning whether it has the recommended value."""


def _arguments(tried: Tried) -> str:
    """The arguments, after the variables that were given with them, as a shell takes them."""
    variables = [words.join_args((f"{name}={value}",)) for name, value in mask(tried.env).items()]
    return " ".join([*variables, words.join_args(tried.args) or "no arguments"])


def _state(row: Row) -> str:
    """What stands out: that it runs, that it never ran, or that it is the best."""
    if row.tried.failed == row.tried.attempts:
        return "failed"
    notable = [*(["best"] if row.best else []), *(["running"] if row.tried.running else [])]
    return " ".join(notable)


def _slots(row: Row) -> str:
    slots = row.tried.slots
    return slots[0] if len(slots) == 1 else f"{len(slots)} slots"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


_COLUMNS: Final = (
    Column[Row]("state", _state, left=True),
    Column[Row]("n_envs", lambda row: row.tried.n_envs, "envs"),
    Column[Row]("rate", lambda row: row.tried.rate, "FPS", write=units.fps),
    Column[Row]("memory_peak_mib", lambda row: row.tried.memory_peak_mib, "VRAM", "GiB", units.gib),
    Column[Row]("fps_per_watt", lambda row: row.tried.fps_per_watt, "FPS/W", write=units.short),
    Column[Row]("gpu_util_pct", lambda row: row.tried.gpu_util_pct, "GPU", "%", units.whole),
    Column[Row]("power_w", lambda row: row.tried.power_w, "W", write=units.whole),
    Column[Row]("slots", _slots, left=True),
    Column[Row]("arguments", lambda row: _arguments(row.tried), left=True, limit=200),
    Column[Row]("elapsed_s", lambda row: row.tried.elapsed_s, "time", write=units.span),
    Column[Row]("attempts", lambda row: row.tried.attempts),
    Column[Row]("started", lambda row: row.tried.started, "last start", write=_clock),
)
_RATED: Final = 3
"""Columns before those of the script's metrics."""


def _metric(name: str) -> Column[Row]:
    """The column of a number that the script names."""
    return Column(f"metric_{name}", lambda row: row.tried.metrics.get(name), name)


def _style(row: Row) -> str:
    return "error" if row.tried.failed == row.tried.attempts else "ok"


class TriedPage(TablePage[Row]):
    """What each set of arguments has reached, the fastest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "use", "Edit with these", id="details", tooltip="Edit, beginning with these arguments.")
    ]
    OPENED_BY = "tried"
    ENTER = "use"

    def __init__(self, engine: Source) -> None:
        super().__init__(RowTable(_COLUMNS, key=lambda row: _arguments(row.tried), style=_style, sort_by="rate"))
        self._engine = engine

    def on_mount(self) -> None:
        """Begin to ask."""
        self.poll()

    async def ask(self) -> None:
        """Ask what was tried."""
        rows = await self._engine.tried()
        best = self._best(rows)
        names = dict.fromkeys(name for tried in rows for name in tried.metrics)
        self.table.use([*_COLUMNS[:_RATED], *map(_metric, names), *_COLUMNS[_RATED:]])
        self.show_rows([Row(tried, tried is best) for tried in rows], "Nothing has been tried yet.")

    def _best(self, rows: Sequence[Tried]) -> Tried | None:
        """The fastest; in a tuning, which measures more carefully, what it recommends."""
        view = self.app.view
        tuning, spec = view.snapshot.tuning, view.session.spec
        if tuning is None:
            return fastest(rows)
        values = {tuning.spec.variable: tuning.answer.recommended.value} if tuning.answer.recommended else {}
        args = tuple(fill_some(arg, values) for arg in spec.args)
        env = {name: fill_some(text, values) for name, text in spec.env.items()}
        return next((row for row in rows if values and (row.args, row.env) == (args, env)), None)

    def title_text(self) -> Content:
        """How many sets of arguments there are."""
        count = f"{units.count(self.table.row_count, 'set')} of arguments" if not self.failure else ""
        return Content.assemble(("Tried", "bold $primary"), (f"  {count}", "$text-muted"))

    def selected_text(self, row: Row) -> Content:
        """The arguments in full, why an attempt failed, and the attempts."""
        tried = row.tried
        counts = (
            f"{tried.running:,} running" if tried.running else "",
            f"{tried.failed:,} failed" if tried.failed else "",
            f"FPS of {tried.measured:,}" if tried.measured and tried.measured != tried.attempts else "",
        )
        counted = ", ".join(filter(None, counts))
        slots = sorted(tried.slots, key=lambda name: (len(name), name))  # gpu10 after gpu9
        attempts = f"{units.count(tried.attempts, 'attempt')}{f' ({counted})' if counted else ''}"
        lines = [
            Content.styled(safe(_arguments(tried)), "bold $foreground"),
            Content.styled(safe(tried.reason or ""), "$error"),
            Content(safe(f"{attempts} on {', '.join(slots)}")),
        ]
        return Content("\n").join(line for line in lines if line)

    async def action_use(self) -> None:
        """Open the edit dialog with the selected arguments."""
        row = self.table.selected
        if row is not None:
            await self.app.control.edit(Settings(row.tried.args, row.tried.env))
