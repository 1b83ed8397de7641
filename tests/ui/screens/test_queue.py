"""The queue's screen: what it shows, what it asks the engine for, and what its keys tell it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, cast

import msgspec
import pytest
from textual.pilot import Pilot

from gmg_tui.model import JobRecord, Lane, QueueAction, Snapshot, WorkerState
from gmg_tui.ui import Outcome, keys
from gmg_tui.ui.screens.queue.gpus import GpusScreen, devices_of
from tests.ui import play, sessions, sweeps
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp
from tests.ui.screens.stage import click, press

SMALL = (80, 24)


class Looking(NamedTuple):
    """The queue, open."""

    pilot: Pilot[Outcome]
    engine: FakeEngine

    @property
    def app(self) -> FakedApp:
        return cast("FakedApp", self.pilot.app)

    @property
    def chosen(self) -> str:
        """Number and name of the chosen job."""
        row = next(row for row in play.screen(self.app) if row.startswith("▸"))
        return " ".join(row.split()[1:3])

    @property
    def told(self) -> list[tuple[object, ...]]:
        """What the engine was told to do."""
        looks = {"follow", "queue", "details", "series"}
        return [request for request in self.engine.asked if request[0] not in looks]

    @property
    def questions(self) -> list[tuple[object, ...]]:
        """Which parts of the queue were asked for."""
        return [request for request in self.engine.asked if request[0] == "queue"]

    async def change(self, jobs: list[JobRecord], version: int = 2) -> None:
        """Show a snapshot of another queue."""
        self.engine.jobs = jobs
        await self.show(sweeps.snapshot(jobs, version=version))

    async def show(self, snapshot: Snapshot) -> None:
        """Have the engine send a snapshot."""
        self.engine.push(snapshot)
        for _ in range(4):
            await self.pilot.pause()


@asynccontextmanager
async def looking(engine: FakeEngine | None = None, size: tuple[int, int] = SMALL) -> AsyncIterator[Looking]:
    engine = engine or sweeps.engine()
    async with sweeps.app(engine).run_test(size=size) as pilot:
        await press(pilot, "Q")
        await play.sees(pilot, "elapsed", "▸")
        yield Looking(pilot, engine)


async def test_it_stands_on_the_first_job_that_runs_under_the_slots() -> None:
    async with looking() as screen:
        assert screen.chosen == "13 method=ode-b8"
        rows = play.screen(screen.app)
        assert "12/30 jobs" in rows[0]
        assert "00:04:12 left" in rows[0]
        assert rows[1].split()[:5] == ["gpu0", "used", "#13", "method=ode-b8", "●"]
        assert "24,013,029" in rows[1]
        assert "gpu3 used      … waits for 8.0 GiB of free VRAM" in rows[4]
        row = next(row for row in rows if row.startswith("▸"))
        assert row.split()[3:] == ["●", "running", "gpu0", "1", "6:12", "24,013,029"]
        finished = next(row for row in rows if row.startswith("  10 "))
        assert finished.split()[2:] == ["✓", "finished", "gpu0", "1", "3:33", "14,057,310"]
        await play.sees(screen.pilot, "#13 method=ode-b8  method=ode  branch_counts=8  quick=false")
        await press(screen.pilot, "escape")
        assert screen.app.screen is screen.app.main


@pytest.mark.parametrize("size", [(60, 12), SMALL, (120, 36), (160, 48)])
async def test_it_fits_whatever_the_size_and_a_wide_one_has_reasons_and_values(size: tuple[int, int]) -> None:
    async with looking(size=size) as screen:
        await press(screen.pilot, "home")
        await play.sees(screen.pilot, "▸  1 method=ode-b2", "esc back", "c GPUs")
        assert len(play.screen(screen.app)) == size[1]
        assert ("CUDA out of memory: 61.4 GiB" in play.shown(screen.app)) is (size[0] >= 120)
        await press(screen.pilot, "down", "j", "j", "j", "j", "k")
        assert screen.chosen.startswith("5 ")
        await play.sees(screen.pilot, "CUDA out of")


async def test_what_runs_is_followed_until_a_job_is_chosen_and_again_with_f() -> None:
    async with looking() as screen:
        await screen.change(sweeps.jobs(30, 15))
        assert screen.chosen.startswith("16 ")
        await press(screen.pilot, "down")
        await screen.change(sweeps.jobs(30, 20), version=3)
        assert screen.chosen.startswith("17 ")
        await press(screen.pilot, "f")
        assert screen.chosen.startswith("21 ")


async def test_ten_thousand_jobs_are_asked_for_in_parts_and_only_when_needed() -> None:
    async with looking(sweeps.engine(sweeps.jobs(10_000, 4000))) as screen:
        assert screen.chosen.startswith("4001 ")
        assert len(screen.questions) == 1
        for second in range(1, 6):
            await screen.show(sweeps.snapshot(screen.engine.jobs, second=float(second)))
        assert len(screen.questions) == 1  # nothing but figures has changed
        play.burst(screen.pilot, *["down"] * 10)
        await play.sees(screen.pilot, "4,011 of 10,000")
        assert len(screen.questions) == 1
        await press(screen.pilot, "end")
        assert screen.chosen.startswith("10000 ")
        await press(screen.pilot, "home")
        assert screen.chosen.startswith("1 ")
        assert len(screen.questions) == 3
        await press(screen.pilot, *["pagedown"] * 20)
        assert len(screen.questions) <= 3 + 20
        before = len(screen.questions)
        for version in range(2, 7):
            await screen.change(screen.engine.jobs, version)
        assert len(screen.questions) == before + 5  # once a snapshot
        assert max(int(str(count)) for _, _, count in screen.questions) < 100


async def test_many_slots_leave_room_for_the_jobs() -> None:
    engine = sweeps.engine(slots=64, used=64)
    async with looking(engine) as screen:
        await play.sees(screen.pilot, "more slots", "▸ 13 ")
        rows = play.screen(screen.app)
        assert sum(row.startswith("  gpu") for row in rows) >= 3
        assert sum(" waiting" in row or " running" in row or " finished" in row for row in rows) >= 10


# Keys that act


@pytest.mark.parametrize(
    ("key", "action"),
    [
        ("u", QueueAction.UP),
        ("K", QueueAction.UP),
        ("J", QueueAction.DOWN),
        ("shift+up", QueueAction.UP),
        ("n", QueueAction.DOWN),
        ("shift+down", QueueAction.DOWN),
        ("U", QueueAction.TOP),
        ("r", QueueAction.RETRY),
    ],
)
async def test_a_key_acts_on_the_chosen_job(key: str, action: QueueAction) -> None:
    async with looking() as screen:
        await press(screen.pilot, *["down"] * 5, key)
        assert screen.told == [(action, 18)]


async def test_a_job_that_goes_to_the_top_stays_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sweeps.engine(sweeps.jobs(10_000, 4000))
    act = engine.act_on_jobs

    async def to_top(action: QueueAction, *numbers: int) -> None:
        await act(action, *numbers)
        engine.jobs.insert(4003, engine.jobs.pop(numbers[0] - 1))

    monkeypatch.setattr(engine, "act_on_jobs", to_top)
    async with looking(engine) as screen:
        await press(screen.pilot, "end", "U")
        assert screen.told == [(QueueAction.TOP, 10_000)]
        await screen.change(engine.jobs)
        assert screen.chosen.startswith("10000 ")
        await play.sees(screen.pilot, "4,004 of 10,000")


async def test_a_job_that_waits_is_skipped_at_once_and_the_next_is_chosen() -> None:
    async with looking() as screen:
        await press(screen.pilot, *["down"] * 5, "s")
        assert screen.told == [(QueueAction.SKIP, 18)]
        await play.sees(screen.pilot, "Job 18 (method=sde-b8) is skipped; r on it runs it again.")
        assert screen.chosen.startswith("19 ")
        await press(screen.pilot, "s")
        assert screen.told[1:] == [(QueueAction.SKIP, 19)]


async def test_a_job_that_runs_is_stopped_after_a_question() -> None:
    async with looking() as screen:
        await press(screen.pilot, "s")
        await play.sees(screen.pilot, "Stop job 13 (method=ode-b8), which is running?")
        await press(screen.pilot, "enter")
        assert screen.told == []
        await press(screen.pilot, "s", "y")
        assert screen.told == [(QueueAction.SKIP, 13)]
        await play.sees(screen.pilot, "is being stopped")


@pytest.mark.parametrize("key", ["s", "enter"])
async def test_two_keys_in_one_burst_open_one_screen(key: str) -> None:
    async with looking() as screen:
        before = len(screen.app.screen_stack)
        play.burst(screen.pilot, key, key)
        await play.until(screen.pilot, lambda: len(screen.app.screen_stack) > before, key)
        for _ in range(4):
            await screen.pilot.pause()
        assert len(screen.app.screen_stack) == before + 1
        assert screen.told == []


async def test_all_that_failed_are_retried_however_many_they_are() -> None:
    failed = tuple(range(3, 4000, 7))
    async with looking(sweeps.engine(sweeps.jobs(10_000, 4000, failed=failed))) as screen:
        before = len(screen.questions)
        await press(screen.pilot, "R")
        await play.sees(screen.pilot, f"Queued {len(failed)} failed jobs again.")
        assert screen.told == [(QueueAction.RETRY, *reversed(failed))]  # the first of them becomes the next
        assert len(screen.questions) - before <= 4000 / 400


async def test_retrying_failed_ones_says_when_there_are_none() -> None:
    async with looking(sweeps.engine(sweeps.jobs(30, 12, failed=()))) as screen:
        await press(screen.pilot, "R")
        await play.sees(screen.pilot, "R: no job has failed.")
        assert screen.told == []


@pytest.mark.parametrize("keys", ["u", "n", "U", "r", "R", "s y", "down down down s"])
async def test_what_the_engine_refuses_is_shown_until_the_next_key(keys: str) -> None:
    async with looking() as screen:
        screen.engine.refuse = "job 13 [bold]runs[/bold]; it does not wait"
        await press(screen.pilot, *keys.split())
        await play.sees(screen.pilot, "job 13 [bold]runs[/bold]; it does not wait")
        screen.engine.refuse = ""
        await press(screen.pilot, "down")
        assert "does not wait" not in play.shown(screen.app)


async def test_an_engine_that_gives_no_queue_is_told_and_asked_again() -> None:
    engine = sweeps.engine()
    async with sweeps.app(engine).run_test(size=SMALL) as pilot:
        engine.refuse = "the engine is busy"
        await press(pilot, "Q")
        await play.sees(pilot, "the engine is busy", "waiting for the engine")
        await press(pilot, "u", "s", "r", "enter")
        assert {request[0] for request in engine.asked} <= {"follow", "queue"}
        engine.refuse = ""
        engine.push(sweeps.snapshot(engine.jobs, second=1.0))
        await play.sees(pilot, "▸ 13 method=ode-b8")
        assert "the engine is busy" not in play.shown(pilot.app)


async def test_details_are_those_of_the_jobs_slot_and_a_job_without_one_says_so() -> None:
    async with looking() as screen:
        await press(screen.pilot, "down", "enter")
        await play.sees(screen.pilot, "job #14 method=sde-b16", "[1 charts]")
        assert screen.app.state.chosen == "gpu1"
        await press(screen.pilot, "escape")
        await play.sees(screen.pilot, "▸ 14 ")
        await press(screen.pilot, "up", "up", "enter")
        await play.sees(screen.pilot, "Job 12 (method=sde-b4) has no slot now. Log: logs/0012-method=sde-b4.log")


async def test_keys_of_the_main_screen_do_not_act_on_a_worker_that_cannot_be_seen() -> None:
    async with looking() as screen:
        await press(screen.pilot, "x", "X", "e", "p", "t", "slash")
        assert screen.told == []
        assert screen.engine.asked[-1][0] in {"queue", "follow"}
        await press(screen.pilot, "question_mark")
        await play.sees(screen.pilot, "Help")
        await press(screen.pilot, "escape", "q")
        await play.sees(screen.pilot, "Quit sweep-1")
        await press(screen.pilot, "escape", "Q")
        assert screen.app.screen is screen.app.main


async def test_every_key_of_the_footer_is_there_and_can_be_clicked() -> None:
    async with looking(size=(160, 48)) as screen:
        foot = play.screen(screen.app)[-1]
        assert all(f"{key.shown} {key.label}" in foot for key in keys.QUEUE if key.footer)
        await click(screen.pilot, "U top")
        assert screen.told == [(QueueAction.TOP, 13)]
        await click(screen.pilot, "c GPUs")
        await play.sees(screen.pilot, "GPUs of the sweep")
        await click(screen.pilot, "esc back")
        await click(screen.pilot, " 16 method")
        assert screen.chosen.startswith("16 ")


def test_each_key_has_one_action() -> None:
    for table in (keys.QUEUE, keys.GPUS):
        pressed = [key for entry in table for key in entry.keys.split(",")]
        assert len(pressed) == len(set(pressed))


# GPUs


async def test_a_gpu_is_disabled_and_enabled_again() -> None:
    async with looking(sweeps.engine(used=3)) as screen:
        await press(screen.pilot, "c")
        await play.sees(screen.pilot, "[x] gpu0 · H100 80GB HBM3  1 job running", "[ ] gpu3 · H100")
        await press(screen.pilot, "down", "space")
        assert screen.told == [("use_slot", "gpu1", False)]
        await play.sees(screen.pilot, "▸ [ ] gpu1")
        await press(screen.pilot, "j", "j", "j", "enter", "k", "k")
        assert screen.told[1:] == [("use_slot", "gpu3", True)]
        await play.sees(screen.pilot, "[x] gpu3", "▸ [ ] gpu1")
        await press(screen.pilot, "escape")
        await screen.change(screen.engine.jobs)
        await play.sees(screen.pilot, "gpu1 not used  #14")  # the job there goes on


async def test_a_gpu_that_cannot_be_used_says_why() -> None:
    async with looking() as screen:
        await press(screen.pilot, "c")
        await play.sees(screen.pilot, "[x] gpu0")
        screen.engine.refuse = "no slot [gpu0]; there are none"
        await press(screen.pilot, "space")
        await play.sees(screen.pilot, "no slot [gpu0]; there are none", "[x] gpu0")


async def test_an_answer_that_comes_when_the_gpus_are_being_closed_breaks_nothing() -> None:
    async with looking() as screen:
        await press(screen.pilot, "c")
        await play.sees(screen.pilot, "[x] gpu0")
        dialog = screen.app.screen
        assert isinstance(dialog, GpusScreen)
        await dialog.remove_children()  # as the first step of taking it away
        await dialog._ask()
        screen.engine.refuse = "there is no queue any more"
        await dialog._ask()


async def test_more_gpus_than_rows_scroll_with_the_choice() -> None:
    engine = sweeps.engine(slots=40, used=40)
    async with looking(engine) as screen:
        await press(screen.pilot, "c")
        await play.sees(screen.pilot, "▸ [x] gpu0")
        play.burst(screen.pilot, *["down"] * 45)
        await play.sees(screen.pilot, "▸ [x] gpu39")


async def test_the_slots_of_a_gpu_go_together() -> None:
    one, two, *_ = sessions.session(2).slots
    slots = tuple(msgspec.structs.replace(slot, name=f"{slot.name}-{share}") for slot in (one, two) for share in (1, 2))
    assert [device.name for device in devices_of(slots)] == ["gpu0", "gpu1"]
    engine = sweeps.engine(slots=2, used=2)
    session = msgspec.structs.replace(engine.welcome.session, slots=slots)
    engine.welcome = msgspec.structs.replace(engine.welcome, session=session)
    engine.lanes = [Lane(slot.name, job=13 if slot.name == "gpu0-2" else None) for slot in slots]
    async with looking(engine) as screen:
        await press(screen.pilot, "c")
        await play.sees(screen.pilot, "[x] gpu0 · H100 80GB HBM3  2 slots, 1 job running", "[x] gpu1")
        await press(screen.pilot, "space")
        assert screen.told == [("use_slot", "gpu0-1", False)]


async def test_the_row_below_the_jobs_does_not_repeat_what_the_name_says() -> None:
    engine = sweeps.engine()
    engine.jobs = [msgspec.structs.replace(job, name=f"method=sde,branch_counts={job.number}") for job in engine.jobs]
    engine.jobs = [
        msgspec.structs.replace(job, values=job.values | {"method": "sde", "branch_counts": job.number})
        for job in engine.jobs
    ]
    async with looking(engine, (160, 48)) as screen:
        await play.sees(screen.pilot, "#13 method=sde,branch_counts=13  quick=false  logs/")


async def test_hostile_names_and_reasons_are_text() -> None:
    evil = "\x1b]0;owned\x07[/] [red]\u202e"
    jobs = sweeps.jobs()
    jobs[12] = msgspec.structs.replace(jobs[12], name=evil, reason=evil, state=WorkerState.FAILED)
    async with looking(sweeps.engine(jobs), size=(120, 36)) as screen:
        await press(screen.pilot, "up")
        await play.sees(screen.pilot, "[/] [red]")
        assert "\x1b" not in play.shown(screen.app)
