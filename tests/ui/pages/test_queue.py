"""The queue: what it shows, what it asks the engine for, and what its keys do."""

import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from msgspec import structs
from textual.geometry import Region
from textual.pilot import Pilot

from gmg_tui.model import Attempt, Fps, JobRecord, QueueAction, Snapshot, WorkerState
from gmg_tui.model.jobs import SKIPPED
from gmg_tui.ui.pages.queue import JOBS_PER_QUERY, QueuePage
from tests.ui import play, sessions, sweeps
from tests.ui.fake_engine import FakeEngine
from tests.ui.pages import tables
from tests.ui.play import FakedApp, asked, click, press
from tests.workers import changed

SMALL = (80, 24)


class Queue(NamedTuple):
    pilot: Pilot[Any]
    engine: FakeEngine

    @property
    def app(self) -> FakedApp:
        return cast("FakedApp", self.pilot.app)

    @property
    def selected(self) -> str:
        return " ".join(tables.selected(self.app).split()[:2])

    def row(self, number: int) -> str:
        return next(row for row in tables.rows(self.app) if row.startswith(f"{number} "))

    @property
    def actions(self) -> list[tuple[object, ...]]:
        """Requests that change something."""
        return asked(self.engine)

    @property
    def queries(self) -> list[tuple[object, ...]]:
        """The requested parts of the queue."""
        return [request for request in self.engine.asked if request[0] == "queue"]

    async def change(self, jobs: list[JobRecord], version: int = 2, **changes: Any) -> None:
        """Send a snapshot of another queue, and wait until the page has asked for its jobs."""
        self.engine.jobs, before = jobs, len(self.queries)
        self.engine.push(structs.replace(sweeps.snapshot(jobs, version=version), **changes))
        await play.until(self.pilot, lambda: len(self.queries) >= before + -(-len(jobs) // JOBS_PER_QUERY))
        for _ in range(4):
            await self.pilot.pause()

    async def send(self, snapshot: Snapshot) -> None:
        self.engine.push(snapshot)
        for _ in range(4):
            await self.pilot.pause()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the page ask soon for what has changed."""
    monkeypatch.setattr(QueuePage, "POLL_INTERVAL_S", 0.3)


@asynccontextmanager
async def opened(engine: FakeEngine | None = None, size: tuple[int, int] = SMALL) -> AsyncIterator[Queue]:
    engine = engine or sweeps.engine()
    async with sweeps.app(engine).run_test(size=size) as pilot:
        await press(pilot, "Q")
        await play.until(pilot, lambda: tables.table(pilot.app).row_count == len(engine.jobs), "all jobs")
        yield Queue(pilot, engine)


async def test_the_queue_opens_at_the_first_running_job() -> None:
    async with opened() as queue:
        await play.sees(
            queue.pilot,
            " sweep-1  ██",
            "12/30 jobs",
            "00:04:12 left",
            "#13 method=ode-b8",
            "branch_counts=8  quick=false",
        )
        assert tables.selected(queue.app).startswith("13 method=ode-b8 running 24,013,029 6:12 gpu0 ode 8 false 1")
        assert queue.row(10).startswith("10 method=sde-b1 finished 14,000,000 3:33 gpu0 sde 1 true 1")
        assert sweeps.OUT_OF_MEMORY in queue.row(5)
        await press(queue.pilot, "escape")
        assert queue.app.screen is queue.app.main


async def test_the_running_job_is_followed_until_the_cursor_is_moved_and_again_with_f() -> None:
    async with opened() as queue:
        await queue.change(sweeps.jobs(30, 15))
        assert queue.selected.startswith("16 ")
        await press(queue.pilot, "down")
        await queue.change(sweeps.jobs(30, 20), version=3)
        assert queue.selected.startswith("17 ")
        await press(queue.pilot, "f")
        assert queue.selected.startswith("21 ")


async def test_a_long_queue_is_requested_only_when_it_changes() -> None:
    async with opened(sweeps.engine(sweeps.jobs(4 * JOBS_PER_QUERY, 1000))) as queue:
        assert queue.selected.startswith("1001 ")
        assert len(queue.queries) == 4
        for second in range(1, 6):
            await queue.send(sweeps.snapshot(queue.engine.jobs, second=float(second)))
        assert len(queue.queries) == 4  # nothing but figures has changed
        await queue.change(sweeps.jobs(4 * JOBS_PER_QUERY, 1001))
        assert queue.row(1001).split()[2] == "finished"
        assert queue.selected.startswith("1002 ")
        await press(queue.pilot, "end")
        assert queue.selected.startswith(f"{4 * JOBS_PER_QUERY} ")
        await press(queue.pilot, "home", "r")
        assert queue.actions == [(QueueAction.RETRY, 1)]


async def test_a_skipped_job_is_labelled_so_and_one_that_runs_again_has_no_rate_yet() -> None:
    ran = Attempt(1, state=WorkerState.FINISHED, fps=Fps(9.0, 7500.0, 9.0, 3, settled=9.0))
    jobs = [
        JobRecord(1, "skipped", state=WorkerState.STOPPED, reason=SKIPPED, last=ran),
        JobRecord(2, "again", state=WorkerState.FINISHED, last=ran, slot="gpu0"),
    ]
    async with opened(sweeps.engine(jobs)) as queue:
        assert queue.row(1).startswith("1 skipped skipped")
        building = changed(sessions.running(0), state=WorkerState.BUILDING, fps=None, job=2, attempt=2)
        again = structs.replace(jobs[1], state=WorkerState.BUILDING, last=Attempt(2))
        await queue.change([jobs[0], again], workers=(building,))
        assert queue.row(2).startswith("2 again building – 0.0 s gpu0")


async def test_results_are_columns_with_that_of_the_sweep_first_and_its_best_job_above() -> None:
    losses = [1.00041, 1.00039, 1.00012, math.nan]
    jobs = [
        JobRecord(n, f"job-{n}", state=WorkerState.FINISHED, slot="gpu0", last=Attempt(1, metrics={"loss": loss}))
        for n, loss in enumerate(losses, 1)
    ]
    jobs.append(JobRecord(5, "job-5", state=WorkerState.RUNNING, slot="gpu1", last=Attempt(1)))
    engine = sweeps.engine(jobs)
    spec = engine.welcome.session.spec
    assert spec.sweep is not None
    session = changed(engine.welcome.session, spec=changed(spec, sweep=changed(spec.sweep, best="-loss")))
    engine.welcome = structs.replace(engine.welcome, session=session)
    async with opened(engine, (160, 24)) as queue:
        assert tables.headings(queue.app).startswith("# name loss state")
        assert tables.column(queue.app, "loss") == ["1.00041", "1.00039", "1.00012", "nan", "–"]
        await play.sees(queue.pilot, "best: #3 job-3, loss 1.00012")
        tables.table(queue.app).action_sort_by("loss")
        assert tables.column(queue.app, "loss") == ["1.00041", "1.00039", "1.00012", "nan", "–"]
        tables.table(queue.app).action_sort_by("loss")
        assert tables.column(queue.app, "loss") == ["1.00012", "1.00039", "1.00041", "nan", "–"]
        live = changed(sessions.running(1), job=5, metrics={"loss": 0.5, "reward": 2.0})
        await queue.send(structs.replace(engine.snapshot, workers=(live,)))
        assert tables.column(queue.app, "loss")[0] == "0.5"
        assert tables.column(queue.app, "reward") == ["2", "–", "–", "–", "–"]


# Keys that act


async def test_x_skips_a_waiting_job_at_once_and_stops_a_running_one_after_a_confirmation() -> None:
    async with opened() as queue:
        await press(queue.pilot, "x")
        await play.sees(queue.pilot, "Stop job 13 (method=ode-b8), which is running?")
        await press(queue.pilot, "enter")
        assert queue.actions == []
        await press(queue.pilot, "x", "y")
        assert queue.actions == [(QueueAction.STOP, 13)]
        await press(queue.pilot, *["down"] * 5, "x")
        assert queue.actions[1:] == [(QueueAction.SKIP, 18)]
        jobs = sweeps.jobs()
        await queue.change([*jobs[20:], *jobs[:20]])
        await press(queue.pilot, "x")
        assert queue.actions[2:] == [(QueueAction.SKIP, 18)], "wherever its row is now"


async def test_a_job_that_is_building_is_not_stopped_without_a_confirmation() -> None:
    async with opened() as queue:
        await press(queue.pilot, *["down"] * 3)
        assert queue.selected.startswith("16 ")
        building = changed(sessions.running(0), state=WorkerState.BUILDING, job=16)
        await queue.send(structs.replace(queue.engine.snapshot, workers=(building,)))
        await press(queue.pilot, "x")
        await play.sees(queue.pilot, "Stop job 16 (method=sde-b2), which is running?")
        assert queue.actions == []


async def test_a_job_that_runs_again_is_not_skipped_while_its_record_is_outdated() -> None:
    jobs = sweeps.jobs()
    jobs[12] = changed(jobs[12], state=WorkerState.STOPPED)
    engine = sweeps.engine(jobs)
    engine.snapshot = structs.replace(engine.snapshot, workers=sweeps.workers(sweeps.jobs()))
    engine.welcome = structs.replace(engine.welcome, snapshot=engine.snapshot)
    async with opened(engine) as queue:
        assert queue.selected.startswith("13 ")
        await press(queue.pilot, "x")
        await play.sees(queue.pilot, "Stop job 13 (method=ode-b8), which is running?")


async def test_two_keys_in_one_burst_open_one_screen() -> None:
    async with opened() as queue:
        before = len(queue.app.screen_stack)
        play.burst(queue.pilot, "x", "x")
        await play.until(queue.pilot, lambda: len(queue.app.screen_stack) > before)
        for _ in range(4):
            await queue.pilot.pause()
        assert len(queue.app.screen_stack) == before + 1
        await press(queue.pilot, "escape")
        play.burst(queue.pilot, "enter", "enter")
        await play.sees(queue.pilot, "job #13")
        assert queue.actions == []


async def test_all_failed_jobs_run_again_from_the_palette() -> None:
    failed = tuple(range(3, 600, 7))
    async with opened(sweeps.engine(sweeps.jobs(700, 600, failed=failed))) as queue:
        await press(queue.pilot, "ctrl+p", *"failed")
        await play.sees(queue.pilot, "Retry failed jobs")
        await press(queue.pilot, "enter")
        await queue.pilot.pause()
        assert queue.actions == [(QueueAction.RETRY, *reversed(failed))]  # the first of them becomes the next
        queue.engine.jobs = sweeps.jobs(700, 600, failed=())
        await queue.change(queue.engine.jobs)
        await press(queue.pilot, "do:screen.retry_failed")
        await play.sees(queue.pilot, "No job has failed.")


async def test_the_queue_is_requested_again_after_an_error() -> None:
    engine = sweeps.engine()
    async with sweeps.app(engine).run_test(size=SMALL) as pilot:
        engine.refuse = "the engine is busy"
        await press(pilot, "Q")
        await play.sees(pilot, "the engine is busy")
        await press(pilot, "x", "r", "enter")
        assert {request[0] for request in engine.asked} <= {"watch", "queue"}
        engine.refuse = ""
        await play.sees(pilot, "#13 method=ode-b8")
        assert "the engine is busy" not in play.shown(pilot.app)


async def test_details_open_for_the_slot_of_the_job_also_when_a_filter_hides_it() -> None:
    engine = sweeps.engine()
    app = sweeps.app(engine)
    async with app.run_test(size=SMALL) as pilot:
        app.view.show_only("gpu0")
        await play.sees(pilot, "Q Queue")
        await press(pilot, "Q", "down", "enter")
        await play.sees(pilot, "job #14")
        assert app.view.selected == "gpu1"
        await press(pilot, "Q", "up", "up", "enter")
        await play.sees(pilot, "The job has no log")
        await press(pilot, "escape", "escape")
        await play.sees(pilot, "gpu1 log")


async def test_keys_of_the_footer_can_be_clicked() -> None:
    async with opened(size=(120, 30)) as queue:
        await click(queue.pilot, "Retry")
        assert queue.actions == [(QueueAction.RETRY, 13)]
        await click(queue.pilot, "Details")
        await play.sees(queue.pilot, "job #13")


async def test_only_jobs_with_workers_are_drawn_again_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    records = sweeps.jobs()
    engine = sweeps.engine(records)
    app = sweeps.app(engine)
    replaced: list[set[int]] = []
    async with app.run_test(size=(160, 48)) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "24,127,240")
        page = app.screen
        assert isinstance(page, QueuePage)
        replace = page.table.replace

        def record(rows: Iterable[JobRecord]) -> None:
            replaced.append({row.number for row in rows})
            replace(rows)

        monkeypatch.setattr(page.table, "replace", record)
        monkeypatch.setattr(page.table, "show", lambda rows: pytest.fail("all jobs were shown again"))
        engine.push(sweeps.snapshot(records, second=1.0))
        await play.until(pilot, lambda: bool(replaced))
    assert replaced[0] == {13, 14, 15}


async def test_enter_on_a_job_that_has_left_its_slot_shows_its_log_which_can_be_searched(tmp_path: Path) -> None:
    app = sweeps.app()
    spec = changed(app.view.session.spec, folder=str(tmp_path))
    app.view.session = changed(app.view.session, spec=spec)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "0005-a.rank1.log").write_text("of rank 1\n")
    (tmp_path / "logs" / "0005-a.log").write_text("needle\n" + "hay\n" * 2000 + "needle\nthe end\n")
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "#13 ")
        await press(pilot, *["up"] * 8, "enter")
        await play.sees(pilot, "job 5 (method=ode-b1) log", "the end")
        await press(pilot, "slash", *"needle", "enter")
        await play.sees(pilot, "needle", "match 2 of 2")
        await press(pilot, "N")
        await play.sees(pilot, "needle", "match 1 of 2")
        await press(pilot, "pagedown", "escape")
        await play.sees(pilot, "the end")
        await press(pilot, "escape")
        await play.sees(pilot, "#5 ")
        await press(pilot, "down", "down", "enter")
        await play.sees(pilot, "The job has no log")


async def test_a_queue_that_changed_while_another_page_covered_it_is_drawn_whole_again() -> None:
    """Rows that were drawn again first counted as drawn; the others kept their old state for good."""
    app = sweeps.app()
    async with app.run_test(size=SMALL) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "#13 ")
        await press(pilot, "a")
        jobs = [structs.replace(job, name=f"new-{job.number}") for job in app.engine.jobs]
        app.engine.jobs = jobs
        app.engine.push(sweeps.snapshot(jobs, version=2))
        page = next(each for each in app.screen_stack if isinstance(each, QueuePage))
        await play.until(pilot, lambda: "new-13" in page.table.text)
        page.table.refresh(Region(0, 3, 9, 1))
        await press(pilot, "escape")
        await play.sees(pilot, "new-9", "new-13")
        assert "method=" not in "\n".join(play.screen(app)[2:20])
