"""The pane below the workers: the log of the selected worker and all else about it in tabs, and the session's events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from msgspec import structs
from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget

from gmg_tui.model import Attempt, Curve, Details, GpuProcess, JobRecord, Occurrence, Series, Settings, units
from gmg_tui.model.errors import GmgError
from gmg_tui.results.column import Column
from gmg_tui.session import LOGS
from gmg_tui.session.client import Source
from gmg_tui.ui import worker_text
from gmg_tui.ui.drawing import SIGNS, Piece, Row
from gmg_tui.ui.facts import Fact, Facts
from gmg_tui.ui.log.view import LogView
from gmg_tui.ui.pane import processes
from gmg_tui.ui.pane import worker_facts as facts
from gmg_tui.ui.pane.charts_tab import ChartsTab
from gmg_tui.ui.pane.metrics_tab import HISTORY_POINTS, MetricsTab, Named
from gmg_tui.ui.pane.tab_bar import TabBar
from gmg_tui.ui.pane.table_tab import TableTab
from gmg_tui.ui.rows import Rows, is_seen
from gmg_tui.ui.table import Table
from gmg_tui.ui.view import Tab, View, job_on

_ASKED: Final = frozenset(Tab) - {Tab.LOG}
"""Tabs that show more than snapshots have."""
_MAX_NOTES: Final = 4
_EVENT_COLUMNS: Final = (
    Column[Occurrence]("time", lambda event: time.strftime("%H:%M:%S", time.localtime(event.time)), left=True),
    Column[Occurrence]("slot", lambda event: event.slot or None, left=True),
    Column[Occurrence]("event", lambda event: event.kind.value, left=True),
    Column[Occurrence]("text", lambda event: event.text, left=True, limit=300),
)


class WorkerTitle(Rows):
    """The selected worker and what is wrong with it, while the pane hides the workers."""

    DEFAULT_CSS = "WorkerTitle { height: auto; }"

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def fit(self) -> None:
        """Takes as many rows as are needed, and redraws them."""
        self.styles.height = len(self.make_rows(self.app.size.width, 0))
        self.update_rows()

    def make_rows(self, width: int, height: int) -> Sequence[Row]:
        """Returns the title and the notes."""
        view = self._view
        if not view.selected:
            return [Row(width).add(view.why_empty, "warn")]
        if view.selected not in view.slots:
            return [Row(width).add(f" {view.selected} is not in use any more", "warn")]
        entry = view.of(view.selected)
        worker, row = entry.worker, Row(width)
        row.end(f"{view.slots.index(view.selected) + 1} of {len(view.slots)} ", "dim")
        row.add(f" {entry.slot.name}", "title").add(f" {SIGNS.dot} {worker_text.gpu_name(entry.slot)}  ")
        state = f"{worker_text.state_of(worker)} {units.span(worker_text.state_s(entry))}"
        row.add(f"{worker_text.sign_of(entry)} {state}", worker_text.style_of(entry))
        row.add(f"  attempt {worker.attempt}" if worker.attempt else "", "dim")
        row.add(f"  PID {worker.pid}" if worker.pid else "", "dim")
        row.add(f"  job {worker_text.job_of(worker)}" if worker.job is not None else "")
        notes = worker_text.notes(entry)[:_MAX_NOTES]
        return [row, *(Row(width).add(f" {SIGNS.pointer} {note.text}", note.style) for note in notes)]


class Pane(Vertical):
    """The tabs. Those but the log are made when they are first shown, and ask the engine only while they are."""

    DEFAULT_CSS = """
    Pane {
        height: 1fr;
        & > Facts { height: 1fr; padding: 0 1; }
        & > TableTab > Facts { padding: 0 1; }
    }
    """
    PERIOD_S: ClassVar[float] = 3.0
    """Seconds from an answer of the engine to the next query."""

    def __init__(self, view: View, engine: Source) -> None:
        super().__init__()
        self._view, self._engine = view, engine
        self.log_view = LogView()
        self._title, self._bar = WorkerTitle(view), TabBar(view, self._status)
        self._tabs: dict[Tab, Widget] = {Tab.LOG: self.log_view}
        self._slot = view.selected
        self._failure = ""
        self._details: Details | None = None
        self._series: Series | None = None
        self._curves: dict[str, Curve] | None = None
        self._job: JobRecord | None = None
        self._events: tuple[Occurrence, ...] = ()

    def compose(self) -> ComposeResult:
        """Yields title, tabs and log."""
        self._title.display = False
        yield from (self._title, self._bar, self.log_view)

    # Tabs

    async def show(self, tab: Tab) -> None:
        """Shows a tab."""
        if tab not in self._tabs:
            self._tabs[tab] = self._make(tab)
            await self.mount(self._tabs[tab])
        if tab is not self._view.tab:
            self._view.tab, self._curves = tab, None
        for each, widget in self._tabs.items():
            widget.display = each is tab
        self._failure = ""
        self.update()
        self._poll()

    def _make(self, tab: Tab) -> Widget:
        match tab:
            case Tab.CHARTS:
                return ChartsTab()
            case Tab.METRICS:
                return MetricsTab()
            case Tab.PROCESSES:
                table: Table[GpuProcess] = Table(processes.COLUMNS, key=lambda process: str(process.pid))
                return TableTab(table, lambda process: [Fact("command", processes.command(process))])
            case Tab.ATTEMPTS:
                attempts = Table(
                    facts.attempt_columns(lambda: self._view.snapshot.time),
                    key=lambda attempt: str(attempt.number),
                    style=lambda attempt: worker_text.STATE_STYLES[attempt.state],
                )
                return TableTab(attempts, facts.attempt_facts)
            case Tab.EVENTS:
                events = Table(_EVENT_COLUMNS, key=lambda event: str(event.number))
                return TableTab(events, lambda event: [Fact(event.kind.value, event.text)])
            case _:
                return Facts(block_width=70)

    def go(self, direction: str) -> None:
        """Scrolls what is shown, or moves the cursor of its table."""
        shown = self._tabs[self._view.tab]
        if isinstance(shown, LogView | Facts | TableTab | MetricsTab):
            shown.go(direction)

    @property
    def settings(self) -> Settings | None:
        """The settings of the selected attempt; None where no attempts are shown."""
        attempt = self._selected_row
        return Settings(attempt.given, attempt.env) if isinstance(attempt, Attempt) else None

    @property
    def _selected_row(self) -> object:
        tab = self._tabs[self._view.tab]
        return tab.table.selected if isinstance(tab, TableTab | MetricsTab) else None

    # Metrics

    @property
    def metrics(self) -> MetricsTab | None:
        """The tab with the metrics if it is shown."""
        tab = self._tabs[self._view.tab]
        return tab if isinstance(tab, MetricsTab) else None

    def toggle_chart(self) -> bool:
        """Shows the chart of the selected metric, or the table again. Returns False if there is none."""
        tab, row = self.metrics, self._selected_row
        if tab is None or not (tab.chart or isinstance(row, Named)):
            return False
        self._view.metric = row.name if isinstance(row, Named) and not tab.chart else self._view.metric
        tab.open_chart("" if tab.chart else self._view.metric)
        self._poll()
        return True

    def on_table_chosen(self) -> None:
        """Shows the chart of the metric that was clicked again."""
        self.toggle_chart()

    @property
    def can_go_back(self) -> bool:
        """True if a chart or a filter of metrics can be closed."""
        return (tab := self.metrics) is not None and bool(tab.chart or tab.words)

    def go_back(self) -> None:
        """Closes the chart of a metric, or else the filter."""
        if (tab := self.metrics) is not None:
            if tab.chart:
                self.toggle_chart()
            else:
                tab.filter("")

    # The selected worker

    def update(self) -> None:
        """Shows the selected worker as it is now."""
        view = self._view
        self._title.display = view.maximized
        if view.maximized:
            self._title.fit()
        worker = view.worker_on(view.selected)
        is_new_job = self._job is not None and worker is not None and worker.job not in {None, self._job.number}
        if view.selected != self._slot or is_new_job:
            self._slot, self._failure = view.selected, ""
            self._details = self._series = self._job = self._curves = None
            self._poll()
        self._fill(self._tabs[view.tab])
        self._bar.update_rows()

    def _fill(self, tab: Widget) -> None:
        """Shows in a tab what is known now."""
        match self._view.tab, tab:
            case Tab.CHARTS, ChartsTab():
                chosen = (self._curves or {}).get(self._view.metric)
                tab.show(self._view.of(self._slot) if self._slot else None, self._series, self._view.metric, chosen)
            case Tab.METRICS, MetricsTab():
                empty = self._waiting if self._curves is None else "The script has reported no metric."
                tab.show(self._curves or {}, self._facts(), empty)
            case Tab.SETUP, Facts():
                tab.show(self._setup())
            case Tab.PROCESSES, TableTab():
                tab.show((self._details and self._details.processes) or (), self._why_no_processes())
            case Tab.ATTEMPTS, TableTab():
                tab.show(self._attempts(), "No attempt has started yet." if self._details else self._waiting)
            case Tab.EVENTS, TableTab():
                tab.show(self._events[::-1], "Nothing has happened yet.")
            case _, LogView():
                tab.update_rows()

    @property
    def _waiting(self) -> str:
        return self._failure or "Waiting for the engine"

    def on_log_view_changed(self) -> None:
        """Says how much of the log is shown."""
        self._bar.update_rows()

    def _facts(self) -> Iterable[Fact]:
        if not self._slot:
            return
        entry = self._view.of(self._slot)
        yield from facts.worker_facts(entry)
        if (gpu := entry.slot.gpu) is not None:
            yield from facts.gpu_facts(gpu, entry.sample, entry.worker, over=self._view.over)
            yield from facts.identity_facts(gpu)
            if entry.sample is not None and entry.sample.health is not None:
                yield from facts.health_facts(entry.sample.health)

    def _setup(self) -> Iterable[Fact]:
        if self._details is None:
            yield Fact("", self._waiting, "dim")
            return
        view, job = self._view, self._job
        command = f"gmg-tui logs {view.session.spec.name} {self._slot if job is None else job.number}"
        log = f"{LOGS}/{self._slot}.log" if view.queue is None else job.log if job is not None else None
        path = f"{view.session.spec.folder}/{log}" if log is not None else None
        yield from facts.setup_facts(self._details, path, command)
        if job is not None:
            yield Fact("Job")
            yield Fact(f"#{job.number}", f"{job.name}  {worker_text.values_of(job)}".rstrip())

    def _why_no_processes(self) -> str:
        slot = self._view.slot(self._slot)
        if slot is not None and slot.gpu is None:
            return f"{self._slot} is a share of the CPU and has no GPU."
        if self._details is None:
            return self._waiting
        missing = self._details.processes is None
        return "The driver does not report this GPU's processes." if missing else "No process uses memory on this GPU."

    def _attempts(self) -> Sequence[Attempt]:
        worker = self._view.worker_on(self._slot)
        if self._details is None or worker is None:
            return ()
        newest = structs.replace(worker.newest, state=worker.state)  # its own is that of its end
        return [newest if newest.number == each.number else each for each in self._details.attempts][::-1]

    def _status(self) -> Sequence[Piece]:
        """Returns the texts at the right end of the tabs, the most important first."""
        if self._failure:
            return [(f"{SIGNS.warn} {self._failure}", "warn")]
        return self.log_view.status() if self._view.tab is Tab.LOG else [(self._slot, "title")]

    # What snapshots do not have

    @work(exclusive=True, group="poll")
    async def _poll(self) -> None:
        """Asks now and then, while a tab is in sight that needs it."""
        while self._view.tab in _ASKED:
            if is_seen(self):
                try:
                    await self._ask(self._slot, self._view.tab)
                    self._failure = ""
                except GmgError as error:
                    self._failure = str(error)
                self.update()
            await asyncio.sleep(self.PERIOD_S)

    async def _ask(self, slot: str, tab: Tab) -> None:
        """Asks for what a tab shows. Raises `GmgError` if the engine does not answer."""
        if tab is Tab.EVENTS:
            self._events = await self._engine.happened()
        elif slot and tab is Tab.CHARTS:
            metric = self._view.metric
            self._series = await self._engine.series(slot)
            self._curves = await self._engine.curves(slot, metric) if metric else {}
        elif slot and (metrics := self.metrics) is not None:
            chart = metrics.chart
            curves = await self._engine.curves(slot, chart, 0 if chart else HISTORY_POINTS)
            self._curves = (self._curves or {}) | curves
        elif slot:
            details = await self._engine.details(slot)
            job = await job_on(self._engine, self._view, slot) if tab is Tab.SETUP else None
            self._details, self._job = details, job
