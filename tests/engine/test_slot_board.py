"""Slots on which no job can start: their pauses, benches, and jobs that may be the cause."""

import time
from unittest.mock import MagicMock

import pytest

from gmg_tui.engine.attempts.attempt import Outcome
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.jobs.job_queue import JobQueue
from gmg_tui.model import (
    JobRecord,
    Slot,
    WorkerState,
)

FINISHED, STOPPED = WorkerState.FINISHED, WorkerState.STOPPED


def test_a_slot_that_is_not_ready_twice_stays_closed_after_the_first_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    board = SlotBoard({"cpu0": EngineSlot(Slot("cpu0"), 0, 1)}, JobQueue([JobRecord(1, "job-1")]))
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    board.pause("cpu0", "no answer")
    now += 4
    board.pause("cpu0", "no answer")  # another job, which had started before the pause
    assert [*board.ready_slots()] == []
    now += 1
    assert [slot.slot.name for slot in board.ready_slots()] == ["cpu0"]
    board.pause("cpu0", "no answer")
    now += 9
    assert [*board.ready_slots()] == []


def test_the_pauses_of_a_slot_that_is_never_ready_double_until_a_job_ends_there_or_it_is_benched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    engine_slot = EngineSlot(Slot("cpu0"), 0, 1)
    board = SlotBoard({"cpu0": engine_slot}, JobQueue([JobRecord(1, "job-1")]))

    def pause_s(reason: str, *, was_healthy: bool = False) -> float:
        nonlocal now
        board.pause("cpu0", reason, was_healthy=was_healthy)
        start = now
        while not [*board.ready_slots()]:
            now += 1
        return now - start

    assert [pause_s("no answer") for _ in range(7)] == [5, 10, 20, 40, 80, 160, 300]
    assert pause_s("its node was lost", was_healthy=True) == 5
    assert pause_s("its node was lost") == 10
    board.judge(engine_slot, MagicMock(state=WorkerState.STOPPED))
    assert [pause_s("no answer") for _ in range(7)] == [5, 10, 20, 40, 80, 160, 300]
    board.pause("cpu0", "no answer")
    assert board.benched() == {"cpu0": "no job can start there: no answer; tried again after 30:00"}
    assert board.stranded
    now += 1800
    board.review(())
    assert not board.stranded
    board.pause("cpu0", "no answer")
    assert board.stranded, "at once: it was tried again"
    board.use("cpu0", used=True)
    assert [*board.ready_slots()] == [engine_slot]
    assert pause_s("no answer") == 5


def test_jobs_that_cannot_start_come_after_those_that_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them closed a slot to all others, until it was benched."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    board = SlotBoard({"cpu0": EngineSlot(Slot("cpu0"), 0, 1)}, JobQueue([JobRecord(n, f"job-{n}") for n in (1, 2, 3)]))
    tried = list[int]()
    while len(tried) < 5:
        if (number := board.next().job) is None:
            now += 1
            continue
        tried.append(number)
        board.hold(number, "its disk is away")
        board.pause("cpu0", "its disk is away")
    assert tried == [1, 1, 2, 2, 3]


def test_a_job_that_is_soon_lost_with_its_node_again_and_again_may_be_the_cause() -> None:
    board = SlotBoard({}, JobQueue([]))
    jobs = [
        MagicMock(task=MagicMock(job=number), outcome=Outcome(unready="n1 is lost", running_s=running_s))
        for number, running_s in ((1, 2.0), (2, 2.0), (3, 400.0), (4, 0.0))
    ]
    for _ in range(3):
        assert all(map(board.may_repeat, jobs))
    assert [*map(board.may_repeat, jobs)] == [False, True, True, True], "job 2 was perhaps lost because of job 1"


def test_a_job_that_cannot_start_anywhere_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if only its own environment were refused."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    engine_slot = EngineSlot(Slot("cpu0"), 0, 1)
    queue = JobQueue([JobRecord(number, f"job-{number}", position=float(number)) for number in (1, 2)])
    board, tried = SlotBoard({"cpu0": engine_slot}, queue), list[int]()
    while board.next().job != 2:
        if board.next().job == 1:
            tried.append(1)
            board.pause("cpu0", "refused", whole_node=True)
            board.hold(1, "refused")
        now += 1
    assert len(tried) <= 2


def test_a_disk_that_is_away_pauses_the_idle_slots_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    names = ("n1/cpu0", "n1/cpu1", "n1/cpu2", "n2/cpu0")
    slots = {name: EngineSlot(Slot(name, node=name[:2]), index, 4) for index, name in enumerate(names)}
    board = SlotBoard(slots, JobQueue([JobRecord(number, f"job-{number}") for number in range(1, 6)]))
    board.jobs = {"n1/cpu0": 1, "n1/cpu2": 3}
    board.pause("n1/cpu0", "sim.py is missing", whole_node=True)
    del board.jobs["n1/cpu0"], board.jobs["n1/cpu2"]
    assert [slot.slot.name for slot in board.ready_slots()] == ["n1/cpu2", "n2/cpu0"], "job 3 runs"
