"""The pane below the workers: tabs with the selected worker's log and details, and the session's events."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from msgspec import structs
from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical

from gmg_tui.model import Attempt, Curve, Details, JobRecord, Series, units
from gmg_tui.model.errors import GmgError
from gmg_tui.session import LOGS
from gmg_tui.session.client import Source
from gmg_tui.ui import worker_text
from gmg_tui.ui.drawing import Piece, Row, cut
from gmg_tui.ui.facts import Fact, Facts
from gmg_tui.ui.log.view import LogView
from gmg_tui.ui.pane import worker_facts as facts
from gmg_tui.ui.pane.metrics_tab import HISTORY_POINTS, MetricsTab
from gmg_tui.ui.pane.why_tab import SPEED_POLL_INTERVAL_S, WhyTab
from gmg_tui.ui.pane.worker_charts import chart_rows
from gmg_tui.ui.rows import Lines, is_seen
from gmg_tui.ui.slots import job_of
from gmg_tui.ui.table import DescribedTable, Table
from gmg_tui.ui.view import Tab, View, job_on

_MAX_NOTES: Final = 4
_MIN_STATUS_CELLS: Final = 22
"""Minimum free cells beside the tabs for wide gaps between them."""
_URGENT_STYLES: Final = frozenset({"warn", "strong"})
"""Styles of the status texts that take precedence over tabs if there is no room for both."""

TabWidget: TypeAlias = LogView | Lines | Facts | DescribedTable[Any] | MetricsTab


class PaneTab(NamedTuple):
    """The widget of a tab, and the functions that fill it."""

    widget: TabWidget
    show: Callable[[Any], object]
    """A function that shows the newest snapshot and the engine's last answer (None if it has not answered yet)."""
    query: Callable[[str], Awaitable[object]] | None = None
    """A function that queries the engine for more data about a slot than snapshots have. Raises `GmgError`."""


class Pane(Vertical):
    """The tabs. All but the log are created when first shown, and query the engine only while they are shown."""

    DEFAULT_CSS = """
    Pane {
        height: 1fr;
        & > Facts { height: 1fr; padding: 0 1; }
        & > DescribedTable > Facts { padding: 0 1; }
        & > Lines { height: auto; }
        & > #tabs { height: 1; }
        & > #charts { height: 1fr; padding: 0 1; }
    }
    """
    POLL_INTERVAL_S: ClassVar[float] = 3.0
    """Seconds from an answer of the engine to the next query."""

    def __init__(self, view: View, engine: Source) -> None:
        super().__init__()
        self._view, self._engine = view, engine
        self.log_view = LogView()
        self._title, self._tab_row = Lines(partial(title_rows, view)), Lines(self._tab_rows, id="tabs")
        self._tabs: dict[Tab, PaneTab] = {Tab.LOG: PaneTab(self.log_view, self._show_log)}
        self._subject = view.subject
        self._failure = ""
        self._answers: dict[Tab, Any] = {}

    def compose(self) -> ComposeResult:
        """Yields the title, the row of tabs and the log."""
        self._title.display = False
        yield from (self._title, self._tab_row, self.log_view)

    @property
    def _slot(self) -> str:
        """The slot that the tabs are about; empty if there is none."""
        return self._subject[0]

    # Tabs

    async def show(self, tab: Tab) -> None:
        """Shows a tab, and starts querying the engine for it."""
        if tab not in self._tabs:
            self._tabs[tab] = self._make_tab(tab)
            await self.mount(self._tabs[tab].widget)
        self._view.tab = tab
        for other, pane_tab in self._tabs.items():
            pane_tab.widget.display = other is tab
        self._failure = ""
        self.update()
        self._poll()

    def _make_tab(self, tab: Tab) -> PaneTab:
        engine = self._engine
        match tab:
            case Tab.CHARTS:
                charts = Lines(self._chart_rows, id="charts")
                return PaneTab(charts, lambda answer: charts.show((self._charted_values, answer)), engine.series)
            case Tab.PROCESSES:
                return self._table_tab(
                    Table(facts.PROCESS_COLUMNS, key=lambda process: str(process.pid)),
                    lambda process: [Fact("command", facts.process_command(process))],
                    lambda details: (details and details.processes) or (),
                    self._no_processes_text,
                    engine.details,
                )
            case Tab.ATTEMPTS:
                columns = facts.attempt_columns(lambda: self._view.snapshot.time)
                style = worker_text.STATE_STYLES
                return self._table_tab(
                    Table(columns, key=lambda row: str(row.number), style=lambda row: style[row.state]),
                    facts.attempt_facts,
                    self._attempts,
                    lambda _: self._waiting_text or "No attempt has started yet.",
                    engine.details,
                )
            case Tab.EVENTS:
                return self._table_tab(
                    Table(facts.EVENT_COLUMNS, key=lambda event: str(event.number)),
                    lambda event: [Fact(event.kind.value, event.text)],
                    lambda events: (events or ())[::-1],
                    lambda _: self._waiting_text or "Nothing has happened yet.",
                    lambda _: engine.occurrences(),
                )
            case Tab.SETUP:
                setup = Facts(block_width=70)
                return PaneTab(setup, lambda answer: setup.show(self._setup_facts(answer)), self._query_setup)
            case Tab.WHY:
                why = WhyTab(self._view, engine)
                return PaneTab(why, why.show_verdict, engine.speed)
            case _:
                metrics = MetricsTab()
                return PaneTab(
                    metrics,
                    lambda curves: metrics.show(
                        curves or {},
                        self._facts(),
                        self._waiting_text or "No metric has been reported; see `gmg-tui guide other-scripts`.",
                    ),
                    partial(self._query_metrics, metrics),
                )

    @staticmethod
    def _table_tab(
        table: Table[Any],
        describe: Callable[[Any], Iterable[Fact]],
        get_rows: Callable[[Any], Sequence[object]],
        get_empty_text: Callable[[Any], str],
        query: Callable[[str], Awaitable[object]],
    ) -> PaneTab:
        """Returns a tab with a table; `get_rows` and `get_empty_text` derive its contents from the engine's answer."""
        table.can_focus = False  # the main screen's keys move the cursor
        described = DescribedTable(table, describe)
        return PaneTab(described, lambda answer: described.show(get_rows(answer), get_empty_text(answer)), query)

    @property
    def tab_widget(self) -> TabWidget:
        """The widget of the shown tab."""
        return self._tabs[self._view.tab].widget

    @property
    def attempt(self) -> Attempt | None:
        """The selected attempt; None if the tab does not list attempts."""
        row = self.tab_widget.table.selected if isinstance(self.tab_widget, DescribedTable) else None
        return row if isinstance(row, Attempt) else None

    async def toggle_chart(self) -> None:
        """Shows the chart of the selected metric, or the table again."""
        if isinstance(self.tab_widget, MetricsTab):
            self.tab_widget.toggle_chart()
            await self.show(self._view.tab)

    async def on_table_chosen(self) -> None:
        """Shows the chart of the chosen metric, or the log of the chosen attempt."""
        if self.attempt is not None:
            self.app.call_later(self.screen.run_action, "attempt_log")
        else:
            await self.toggle_chart()

    async def _query_metrics(self, tab: MetricsTab, slot: str) -> dict[str, Curve]:
        """Returns the curves of all metrics; while a chart is shown, queries only its metric, with all points."""
        curves = await self._engine.curves(slot, tab.chart, 0 if tab.chart else HISTORY_POINTS)
        previous: dict[str, Curve] = self._answers.get(Tab.METRICS, {})
        return previous | curves

    # The selected worker

    def update(self) -> None:
        """Shows the current state of the selected worker."""
        view = self._view
        self._title.display = view.maximized
        if view.maximized:
            self._title.fit()
        if view.subject != self._subject:
            self._subject, self._failure = view.subject, ""
            self._answers.clear()
            self._poll()
        self._tabs[view.tab].show(self._answers.get(view.tab))
        self._tab_row.update_rows()

    @property
    def _waiting_text(self) -> str:
        """The text to show until the engine has answered; empty from then on."""
        return "" if self._view.tab in self._answers else self._failure or "Waiting for the engine"

    def on_log_view_changed(self) -> None:
        """Updates the row of tabs with the log's status."""
        self._tab_row.update_rows()

    @work(exclusive=True, group="poll")
    async def _poll(self) -> None:
        """Queries the engine at intervals for the shown tab, if it has a query, while the pane is visible."""
        tab = self._view.tab
        while (query := self._tabs[tab].query) is not None and (self._slot or tab is Tab.EVENTS):
            if is_seen(self):
                try:
                    self._answers[tab] = await query(self._slot)
                    self._failure = ""
                except GmgError as error:
                    self._failure = str(error)
                self.update()
            await asyncio.sleep(SPEED_POLL_INTERVAL_S if tab is Tab.WHY else self.POLL_INTERVAL_S)

    # Contents of tabs

    def _show_log(self, _: object) -> None:
        worker = self._view.worker_on(self._slot)
        line_count = worker.log_lines if worker is not None else 0
        empty_text = f"{self._slot} has printed nothing yet. Setup shows its command line."
        self.log_view.empty_text = empty_text if worker is not None and not line_count else ""
        self.log_view.show_newest(line_count)

    @property
    def _charted_values(self) -> object:
        """The values that the charts show besides the engine's answer; None without a slot."""
        entry = self._view.slot_view(self._slot) if self._slot else None
        return entry and (entry.slot, entry.worker.rate, entry.worker.current_fps, entry.sample)

    def _chart_rows(self, width: int, height: int) -> Sequence[Row]:
        series: Series | None = self._answers.get(Tab.CHARTS)
        if series is None or not self._slot:
            return [Row(width).add(self._waiting_text, "dim")]
        return chart_rows(self._view.slot_view(self._slot), series, width, height)

    def _facts(self) -> Iterable[Fact]:
        if not self._slot:
            return
        entry = self._view.slot_view(self._slot)
        yield from facts.worker_facts(entry)
        if (gpu := entry.slot.gpu) is not None:
            yield from facts.gpu_facts(gpu, entry.sample, entry.worker, at_end=self._view.already_ended)

    async def _query_setup(self, slot: str) -> tuple[Details, JobRecord | None]:
        return await self._engine.details(slot), await job_on(self._engine, self._view, slot)

    def _setup_facts(self, answer: tuple[Details, JobRecord | None] | None) -> Iterable[Fact]:
        if answer is None:
            yield Fact("", self._waiting_text, "dim")
            return
        view, (details, job) = self._view, answer
        command = f"gmg-tui logs {view.session.spec.name} {self._slot if job is None else job.number}"
        log = f"{LOGS}/{self._slot}.log" if view.queue is None else job.log if job is not None else None
        path = f"{view.session.spec.folder}/{log}" if log is not None else None
        yield from facts.setup_facts(details, path, command)
        if job is not None:
            yield Fact("Job")
            yield Fact(f"#{job.number}", f"{job.name}  {worker_text.values_of(job)}".rstrip())

    def _no_processes_text(self, details: Details | None) -> str:
        if self._view.already_ended:
            return "The session has ended, and its processes with it."
        if self._slot and self._view.slot_view(self._slot).slot.gpu is None:
            return f"{self._slot} is a share of the CPU and has no GPU. Metrics shows what its processes use."
        if details is None:
            return self._waiting_text
        if details.processes is None:
            return "The driver does not report this GPU's processes."
        return "No process is using memory on this GPU."

    def _attempts(self, details: Details | None) -> Sequence[Attempt]:
        worker = self._view.worker_on(self._slot)
        if details is None or worker is None:
            return ()
        newest = structs.replace(worker.newest, state=worker.state)  # an attempt's state is set only at its end
        return [newest if newest.number == attempt.number else attempt for attempt in details.attempts][::-1]

    # The row of tabs

    def _status(self) -> Sequence[Piece]:
        """Returns the texts to the right of the tabs, most important first."""
        if self._failure:
            return [(f"⚠ {self._failure}", "warn")]
        if self._view.tab is not Tab.LOG:
            return [(self._slot, "title")]
        status = self.log_view.status()
        return [piece for piece in status if piece[0] != "following"] if self._view.already_ended else status

    def _tab_rows(self, width: int, height: int) -> Sequence[Row]:
        row, status, names = Row(width, "─", "border"), self._status(), {tab: tab.value for tab in Tab}
        if events := self._view.snapshot.events:
            names[Tab.EVENTS] += f" {events:,}"
        urgent_cells = sum(len(text) + 2 for text, style in status if style in _URGENT_STYLES)
        is_wide = sum(len(name) + 3 for name in names.values()) + max(_MIN_STATUS_CELLS, urgent_cells) <= width
        gap, room = " ─ " if is_wide else " ", width - 1 - urgent_cells
        tabs, active = list(Tab), list(Tab).index(self._view.tab)
        if sum(len(gap + name) for name in names.values()) > room:
            room -= len(" …")
        for tab in (*tabs[:active:-1], *tabs[:active]):  # never drop the active tab
            if sum(len(gap + name) for name in names.values()) > room:
                del names[tab]
        for tab, name in names.items():
            style = "tab" if tab is self._view.tab else "dim"
            row.add(gap, "border").add(name, style, click=("screen.show_tab", tab.value))
        row.add("" if len(names) == len(tabs) else " …", "dim").add(" ")
        for text, style in status:
            text = cut(text, row.room - 2) if style in _URGENT_STYLES else text
            row.end(f" {text} " if text else "", style)
        return [row]


def title_rows(view: View, width: int, height: int) -> Sequence[Row]:
    """Returns the rows for the selected worker and its problems, to show while the pane hides the grid."""
    if not view.selected:
        return [Row(width).add(view.empty_text, "warn")]
    if view.selected not in view.slots:
        return [Row(width).add(f" {view.selected} is no longer in use", "warn")]
    entry = view.slot_view(view.selected)
    worker, row = entry.worker, Row(width)
    row.end(f"{view.slots.index(view.selected) + 1} of {len(view.slots)} ", "dim")
    row.add(f" {entry.slot.name}", "title").add(f" · {worker_text.gpu_name(entry.slot)}  ")
    after = " after" if worker.state.ended else ""
    state = f"{worker_text.state_of(worker)}{after} {units.span(worker_text.state_s(entry))}"
    row.add(f"{worker_text.symbol_of(entry)} {state}", worker_text.style_of(entry))
    row.add(f"  attempt {worker.attempt}" if worker.attempt else "", "dim")
    row.add(f"  PID {worker.pid}" if worker.pid else "", "dim")
    row.add(f"  job {job_of(worker)}" if worker.job is not None else "")
    notes = worker_text.notes(entry)[:_MAX_NOTES]
    return [row, *(Row(width).add(f" ▸ {text}", style) for text, style in notes)]
