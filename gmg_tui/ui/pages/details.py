"""Everything about one worker: charts, metrics, attempts, and how it is started."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ItemGrid
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import DataTable, Static, TabbedContent, TabPane, Tabs

from gmg_tui.model import Attempt, Details, GpuSample, JobRecord, Series, Settings, Slot, Worker, units
from gmg_tui.session import LOGS
from gmg_tui.session.client import Source
from gmg_tui.ui import keys, worker_text
from gmg_tui.ui.charts import Track, least_height, stack
from gmg_tui.ui.drawing import STYLES, plain
from gmg_tui.ui.pages import worker_facts as facts
from gmg_tui.ui.pages.page import Drawing, Facts, Page, Scroll, waiting
from gmg_tui.ui.pages.table import RowTable
from gmg_tui.ui.view import View, job_on

_LEAST_WIDTH: Final = 32
"""Cells that charts need."""


class DetailsPage(Page):
    """Shows one worker, which is also the one selected on the main screen, so that its keys act on it here too."""

    DEFAULT_CSS = """
    DetailsPage {
        #notes { height: auto; max-height: 4; padding: 0 1; overflow-y: auto; scrollbar-size-vertical: 1; }
        TabbedContent, ContentSwitcher, TabPane { height: 1fr; }
        TabPane { padding: 0 1; }
        ItemGrid { height: auto; grid-gutter: 1 2; }
        RowTable { height: 1fr; scrollbar-size: 0 1; background: $background; }
        #attempt { height: auto; max-height: 6; }
    }
    """
    AUTO_FOCUS: ClassVar[str | None] = ""  # Textual's would focus, and show, the first hidden section that scrolls
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "neighbour(-1)", "Previous worker", id="left", priority=True, show=False),
        Binding("right,l", "neighbour(1)", "Next worker", id="right", priority=True, show=False),
        Binding("tab", "section(1)", "Next section", id="section", tooltip="Show the next section."),
        Binding("shift+tab", "section(-1)", "Previous section", show=False),
        Binding("enter", "use_again", "Edit with these", id="details", tooltip="Edit, beginning with its settings."),
        *keys.WORKER,
    ]

    def __init__(self, view: View, engine: Source, slot: str) -> None:
        super().__init__()
        self._view = view
        self._engine = engine
        self._slot = slot
        self._details: Details | None = None
        self._series: Series | None = None
        self._job: JobRecord | None = None
        # Kept, as answers of the engine may still come when the page is being taken away with all that is on it.
        self._notes = Static(id="notes")
        self._sections = TabbedContent()
        self._charts = Drawing()
        self._facts = {name: Facts(id=name) for name in ("worker", "gpu", "identity", "attempt", "start")}
        self._attempts: RowTable[Attempt] = RowTable(
            facts.attempt_columns(lambda: view.snapshot.time),
            key=lambda attempt: str(attempt.number),
            style=lambda attempt: worker_text.STATE_STYLES[attempt.state],
        )

    def body(self) -> ComposeResult:
        """What is wrong, and the sections."""
        yield self._notes
        with self._sections:
            with TabPane("Charts", id="charts"):
                yield self._charts
            with TabPane("Metrics", id="metrics"), Scroll(), ItemGrid(min_column_width=44, regular=False):
                yield self._facts["worker"]
                yield self._facts["gpu"]
                yield self._facts["identity"]
            with TabPane("Attempts", id="attempts"):
                yield self._attempts
                yield self._facts["attempt"]
            with TabPane("Setup", id="setup"), Scroll():
                yield self._facts["start"]

    def on_mount(self) -> None:
        """Follow the snapshots, and ask for the rest."""
        self.query_one(Tabs).can_focus = False  # the arrows select another worker
        self.watch(self.app, "snapshot", self.update_snapshot)
        self.poll()

    async def ask(self) -> None:
        """Ask for details, time series and job."""
        slot = self._slot
        details, series = await self._engine.details(slot), await self._engine.series(slot)
        job = await job_on(self._engine, self._view, slot)
        if slot == self._slot:
            self._details, self._series, self._job = details, series, job
            self.update_snapshot()

    # What is shown

    @property
    def _worker(self) -> Worker | None:
        """The worker on the slot; None once the slot is not in use."""
        return self._view.worker_on(self._slot) if self._slot in self._view.slots else None

    @property
    def shows_worker(self) -> bool:  # type: ignore[override]
        """Whether there is one: where its slot is not in use any more, no key acts on another one instead."""
        return self._worker is not None

    @property
    def _known_job(self) -> JobRecord | None:
        """The worker's job; None where it has none, or the engine has not been asked for it yet."""
        worker, job = self._worker, self._job
        return job if job is not None and worker is not None and worker.job == job.number else None

    def update_snapshot(self) -> None:
        """Show the worker as it is now."""
        slot, worker = self._view.slot(self._slot), self._worker
        self.show_title()
        self._sections.display = worker is not None
        if slot is None or worker is None:
            self.refresh_bindings()
            return
        if worker.job is not None and self._job is not None and self._known_job is None:
            self._job = None  # the slot has another job
            self.poll()
        self._show(slot, worker, self._view.sample(self._slot))

    def _show(self, slot: Slot, worker: Worker, sample: GpuSample | None) -> None:
        attempts = self._details.attempts if self._details is not None else ()
        if self._series is not None:
            shown = list(tracks(slot, worker, sample, self._series)), self._series
            self._charts.show(shown, lambda size: lines(*shown, size))
        health = facts.health_facts(sample.health) if sample is not None and sample.health is not None else ()
        self._facts["worker"].show(facts.worker_facts(self._view.of(self._slot)))
        if slot.gpu is not None:
            self._facts["gpu"].show(facts.gpu_facts(slot.gpu, sample, worker, over=self._view.over))
            self._facts["identity"].show([*facts.identity_facts(slot.gpu), *health])
        if self._details is not None:
            newest, job = worker.newest, self._known_job
            rows = [newest if newest.number == each.number else each for each in attempts]
            self._attempts.show(rows[::-1])
            self._show_attempt()
            command = f"gmg-tui logs {self._view.session.spec.name} {self._slot if job is None else job.number}"
            log = f"{LOGS}/{self._slot}.log" if self._view.queue is None else job.log if job is not None else None
            path = f"{self._view.session.spec.folder}/{log}" if log is not None else None
            self._facts["start"].show(facts.setup_facts(self._details, path, command))

    def title_text(self) -> Content:
        """The slot, its state and its job."""
        slot, worker = self._view.slot(self._slot), self._worker
        if slot is None or worker is None:
            return plain(f"{self._slot} is not in use any more").stylize("$warning")
        state = f"{worker_text.state_of(worker)} {units.span(worker_text.state_s(self._view.of(self._slot)))}"
        pid = f"  PID {worker.pid}" if worker.pid else ""
        at = f"  {self._view.slots.index(self._slot) + 1} of {len(self._view.slots)}"
        job = f"  job {worker_text.job_of(worker)}" if worker.job is not None else ""
        values = f"  {worker_text.values_of(self._known_job)}" if self._known_job is not None else ""
        return Content.assemble(
            plain(self._slot).stylize("bold $primary"),
            plain(f" · {worker_text.gpu_name(slot)}  "),
            (state, f"${STYLES[worker_text.style_of(self._view.of(self._slot))]}"),
            (f"  attempt {worker.attempt}" * bool(worker.attempt) + pid + at, "$text-muted"),
            plain(f"{job}{values}"),
        )

    def show_title(self) -> None:
        """Show the title, and below it what is wrong with the worker."""
        super().show_title()
        trouble = worker_text.notes(self._view.of(self._slot)) if self._worker is not None else ()
        notes = [plain(f"▸ {note.text}").stylize(f"${STYLES[note.style]}") for note in trouble]
        self._notes.update(Content("\n").join(notes))

    # Keys

    def action_neighbour(self, step: int) -> None:
        """Show and select the worker `step` slots on."""
        slots = self._view.slots
        if self._slot not in slots or not 0 <= slots.index(self._slot) + step < len(slots):
            return
        self._slot = slots[slots.index(self._slot) + step]
        self._details = self._series = self._job = None
        self._charts.show(None, waiting)
        self._attempts.show([])
        self.failure = ""
        self.app.select(self._slot)
        self.update_snapshot()
        self.poll()

    def action_section(self, step: int) -> None:
        """Show the next section, or the previous one."""
        names = [pane.id or "" for pane in self.query(TabPane)]
        self._sections.active = names[(names.index(self._sections.active) + step) % len(names)]

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """Have the keys scroll what is shown now."""
        self.set_focus(next((each for each in event.pane.query(Widget) if each.can_focus and each.display), None))
        self.refresh_bindings()

    def on_data_table_row_highlighted(self) -> None:
        """Show all about the selected attempt."""
        self._show_attempt()

    def _show_attempt(self) -> None:
        attempt = self._attempts.selected
        self._facts["attempt"].show(facts.attempt_facts(attempt) if attempt is not None else ())

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Do what `enter` does."""
        await self.action_use_again()

    async def action_use_again(self) -> None:
        """Edit, beginning with the settings of the selected attempt."""
        if (attempt := self._attempts.selected) is not None:
            await self.app.control.edit(Settings(attempt.given, attempt.env))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether the action is available: settings are used again where the attempts are shown."""
        if action == "use_again" and self.is_mounted and self._sections.active != "attempts":
            return False
        return super().check_action(action, parameters)


def lines(tracks: list[Track], series: Series, size: Size) -> list[Content]:
    """The charts on one time axis, as many as there is room for."""
    count = min(len(tracks), next(number for number in range(9, -1, -1) if least_height(number) <= max(2, size.height)))
    if not count or size.width < _LEAST_WIDTH:
        return [Content.styled("The terminal is too small for charts.", "$text-muted")]
    return stack(tracks[:count], width=size.width, height=size.height, end=series.end, step_s=series.step_s)


def tracks(slot: Slot, worker: Worker, sample: GpuSample | None, series: Series) -> Iterator[Track]:
    """The charts, the most important first."""
    rate = units.fps(worker.rate if worker.state.ended else worker.current_fps)
    yield Track("FPS", rate, series.fps, None, "", "$accent", fmean, "no rate yet")
    gpu = slot.gpu
    if gpu is None:
        return
    missing = "no sample yet"
    if sample is not None:
        missing = plain(sample.error).plain if sample.error else "n/a: not reported by the GPU"
    now = sample or GpuSample(gpu.uuid)
    full_mib = now.memory_total_mib or gpu.memory_total_mib
    vram = [None if value is None else value / 1024 for value in series.memory_used_mib]
    full_gib = full_mib / 1024 if full_mib else None
    limit_w = now.power_limit_w or gpu.power_limit_w
    util, power = f"{units.whole(now.gpu_util_pct)} %", f"{units.whole(now.power_w)} of {units.whole(limit_w)} W"
    memory = f"{units.gib(now.memory_used_mib)} of {units.gib(full_mib)} GiB"
    yield Track("GPU", util, series.gpu_util_pct, 100.0, "%", "$success", fmean, missing)
    if series.sm_pct:
        busy = f"{units.whole(now.sm_pct)} % busy"
        yield Track("SMs", busy, series.sm_pct, 100.0, "%", "$success", fmean, missing)
    yield Track("VRAM", memory, vram, full_gib, "GiB", "$secondary", max, missing)
    yield Track("power", power, series.power_w, limit_w, "W", "$warning", fmean, missing)
