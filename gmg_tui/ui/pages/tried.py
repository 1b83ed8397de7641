"""The arguments tried in the session, with their results."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType

from gmg_tui.jobs.argument_placeholders import fill_some, join_args
from gmg_tui.model import ArgumentResults, Settings, units
from gmg_tui.model.secrets import mask
from gmg_tui.model.tried import fastest
from gmg_tui.results import column
from gmg_tui.results.column import Column
from gmg_tui.ui.drawing import Piece
from gmg_tui.ui.facts import Fact
from gmg_tui.ui.pages.page import TablePage
from gmg_tui.ui.table import Table


class TriedRow(NamedTuple):
    """A row of the table of tried arguments."""

    tried: ArgumentResults
    mark: str = ""
    """`fastest` or, in a tuning run, `recommended`, on at most one row; empty on the others."""

    @property
    def key(self) -> str:
        """The row's identity: arguments and variables unmasked, as several rows may look equal when masked."""
        return repr((self.tried.args, sorted(self.tried.env.items())))


def columns(rows: Iterable[ArgumentResults]) -> list[Column[TriedRow]]:
    """Returns the columns for these arguments, with one for each metric."""
    metrics = dict.fromkeys(name for tried in rows for name in tried.metrics)
    return [
        Column("state", _state_text, align_left=True),
        Column("n_envs", lambda row: row.tried.n_envs, *column.ENVS),
        Column("rate", lambda row: row.tried.rate, *column.FPS),
        *(
            Column[TriedRow](f"metric_{name}", partial(lambda name, row: row.tried.metrics.get(name), name), name)
            for name in metrics
        ),
        Column("memory_peak_mib", lambda row: row.tried.memory_peak_mib, *column.VRAM),
        Column("fps_per_watt", lambda row: row.tried.fps_per_watt, *column.FPS_PER_WATT),
        Column("gpu_util_pct", lambda row: row.tried.gpu_util_pct, *column.GPU),
        Column("power_w", lambda row: row.tried.power_w, *column.POWER),
        Column("slots", _slots_text, align_left=True),
        Column("arguments", lambda row: arguments_text(row.tried), align_left=True, max_width=200),
        Column("elapsed_s", lambda row: row.tried.elapsed_s, "total time", *column.TIME[1:]),
        Column("attempts", lambda row: row.tried.attempts),
        Column("started", lambda row: row.tried.started, "last start", write=units.time_of_day),
    ]


def arguments_text(tried: ArgumentResults) -> str:
    """Returns the variables, with secrets masked, and the arguments in shell syntax."""
    variables = [join_args((f"{name}={value}",)) for name, value in mask(tried.env).items()]
    return " ".join([*variables, join_args(tried.args) or "no arguments"])


def _state_text(row: TriedRow) -> str:
    """Returns `failed` if all attempts failed, else the mark and `running`, each if it applies."""
    if row.tried.failed == row.tried.attempts:
        return "failed"
    return " ".join(filter(None, (row.mark, "running" if row.tried.running else "")))


def _slots_text(row: TriedRow) -> str:
    slots = row.tried.slots
    return slots[0] if len(slots) == 1 else f"{len(slots)} slots"


def _style(row: TriedRow) -> str:
    return "error" if row.tried.failed == row.tried.attempts else "ok"


class TriedPage(TablePage[TriedRow]):
    """The results of each set of arguments, the fastest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "use", "Edit with these", id="details", tooltip="Edit the worker's settings, starting from these."
        )
    ]
    OPENED_BY = "tried"
    ENTER = "use"

    def __init__(self) -> None:
        super().__init__(Table(columns(()), key=lambda row: row.key, style=_style, sort_by="rate"))

    def on_mount(self) -> None:
        """Starts polling."""
        self.poll()

    async def fetch(self) -> None:
        """Queries the tried arguments."""
        rows = await self.app.engine.tried()
        best, mark = self._best(rows), "fastest" if self.app.view.snapshot.tuning is None else "recommended"
        self.table.set_columns(columns(rows))
        self.listing.show([TriedRow(row, mark if row is best else "") for row in rows], "Nothing has been tried yet.")

    def _best(self, rows: Sequence[ArgumentResults]) -> ArgumentResults | None:
        """Returns the fastest arguments, or those that a tuning run recommends; None if there are none."""
        view = self.app.view
        tuning, spec = view.snapshot.tuning, view.session.spec
        if tuning is None:
            return fastest(rows)
        values = {tuning.spec.variable: tuning.answer.recommended.value} if tuning.answer.recommended else {}
        args = tuple(fill_some(arg, values) for arg in spec.args)
        env = {name: fill_some(text, values) for name, text in spec.env.items()}
        return next((row for row in rows if values and (row.args, row.env) == (args, env)), None)

    def title_pieces(self) -> Iterable[Piece]:
        """Returns the title, with the number of sets of arguments."""
        count = f"{units.count(self.table.row_count, 'set')} of arguments" if not self.failure else ""
        return ("Tried", "title"), (f"  {count}", "dim")

    def facts(self, row: TriedRow) -> Iterator[Fact]:
        """Yields the arguments in full, the reason for a failure, and the number of attempts."""
        tried = row.tried
        counts = (
            f"{tried.running:,} running" if tried.running else "",
            f"{tried.failed:,} failed" if tried.failed else "",
            f"{tried.measured:,} measured" if tried.measured and tried.measured != tried.attempts else "",
        )
        details = ", ".join(filter(None, counts))
        slots = sorted(tried.slots, key=lambda name: (len(name), name))  # gpu10 after gpu9
        attempts = f"{units.count(tried.attempts, 'attempt')}{f' ({details})' if details else ''}"
        yield Fact("", arguments_text(tried), "strong")
        if tried.reason:
            yield Fact("", tried.reason, "error")
        yield Fact("", f"{attempts} on {', '.join(slots)}", "dim")

    async def action_use(self) -> None:
        """Opens the edit dialog with the selected arguments."""
        row = self.table.selected
        if row is not None:
            await self.app.action_edit(Settings(row.tried.args, row.tried.env))
