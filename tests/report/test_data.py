"""What a session's jobs came to together, and in which order they stand."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.report.data import ReportData, attempt_span, choose_order, collect, job_s, ordered, totals
from gmg_tui.session import STORE
from gmg_tui.store.reader import open_store
from gmg_tui.store.records import JobAttempt
from tests.store.records import START, attempt_of, finished

from . import stored


def _told(*listed: JobRecord, attempts: tuple[JobAttempt, ...] | None = None, running: bool = False) -> ReportData:
    by_job: dict[int, list[JobAttempt]] = {}
    for one in [attempt_of(job) for job in listed if job.started] if attempts is None else attempts:
        by_job.setdefault(one.job, []).append(one)
    return ReportData("sim-1", None, running, START + 1000, list(listed), by_job, [])


def _ran(number: int, begin: float, end: float, **more: Any) -> JobRecord:
    return finished(number, started=START + begin, ended=START + end, elapsed_s=end - begin, **more)


def test_jobs_at_once_are_faster_than_one_card() -> None:
    whole = totals(_told(_ran(1, 0, 100), _ran(2, 0, 100), _ran(3, 100, 200, energy_j=3600.0)))
    assert (whole.total_s, whole.jobs_s, whole.speed_up, whole.energy_j) == (200.0, 300.0, 1.5, 3600.0)
    assert whole.states == {"finished": 3}


def test_of_two_seconds_no_speed_up_is_known() -> None:
    whole = totals(_told(_ran(1, 0, 1.7), _ran(2, 0.1, 1.8)))
    assert (whole.jobs_s, whole.speed_up) == (3.4, None)


def test_a_night_between_death_and_resume_is_no_part_of_the_time() -> None:
    whole = totals(_told(_ran(1, 0, 100), _ran(2, 130, 200), _ran(3, 40_000, 40_100)))
    assert whole.total_s == 300.0


def test_nothing_is_known_of_jobs_that_wait() -> None:
    whole = totals(_told(JobRecord(1, "a"), JobRecord(2, "b")))
    assert (whole.total_s, whole.jobs_s, whole.speed_up, whole.energy_j) == (None,) * 4
    assert whole.states == {"waiting": 2}


def test_a_running_job_counts_up_to_now_and_an_interrupted_one_is_named() -> None:
    job = JobRecord(1, "a", state=WorkerState.RUNNING, slot="cpu0", started=START + 400, attempts=2, elapsed_s=3.0)
    job = structs.replace(job, updated=START + 998)
    first = attempt_of(job, 1, started=START + 10, ended=None)
    second = attempt_of(job, 2, started=START + 400, ended=None)
    data = _told(job, attempts=(first, second), running=True)
    assert job_s(data, job) == 5.0
    assert attempt_span(data, first) == (START + 10, START + 10)
    assert attempt_span(data, second) == (START + 400, START + 1000)
    assert data.interrupted == []
    dead = _told(job, attempts=(first, second))
    assert job_s(dead, job) == 3.0
    assert dead.interrupted == [job]


def test_the_order_is_that_of_the_first_result_or_the_jobs() -> None:
    listed = [JobRecord(1, "a"), JobRecord(2, "b", result={"x": {"y": 1}, "score": 0.5}), JobRecord(3, "c")]
    assert choose_order(listed, None).text == "by score, the largest first"
    assert [job.number for job in ordered(listed, choose_order(listed, None))] == [2, 1, 3]
    plain = choose_order(listed[:1], None)
    assert (plain.column, plain.text) == (None, "in job order")
    assert ordered(listed, plain) == listed


@pytest.mark.parametrize(("best", "expected"), [("score", [3, 5, 1, 2, 4]), ("-score", [2, 1, 5, 3, 4])])
def test_the_best_stand_first_and_those_without_a_figure_last(best: str, expected: list[int]) -> None:
    scores: dict[int, dict[str, Any]] = {
        1: {"score": 0.5},
        2: {"score": "none"},
        3: {"score": 2**2000},
        4: {"score": float("nan")},
        5: {"score": True},
    }
    listed = [JobRecord(number, "a", result=result) for number, result in scores.items()]
    assert [job.number for job in ordered(listed, choose_order(listed, best))] == expected


@pytest.mark.parametrize(("best", "expected"), [("score", [3, 4, 2, 1]), ("-score", [4, 3, 1, 2])])
def test_a_job_that_failed_is_never_the_best(best: str, expected: list[int]) -> None:
    finished, failed = WorkerState.FINISHED, WorkerState.FAILED
    listed = [
        JobRecord(number, "a", state=failed if number < 3 else finished, result={"score": score})
        for number, score in ((1, 0.1), (2, 0.9), (3, 0.6), (4, 0.5))
    ]
    assert [job.number for job in ordered(listed, choose_order(listed, best))] == expected


def test_a_column_that_is_not_there_is_said_with_those_that_are() -> None:
    listed = [JobRecord(1, "a", values={"lr": 1}, result={"\x1b[2Jscore": 1})]
    with pytest.raises(GmgError, match=r"no column nope; there are: job, name, .*, energy_j, .*, lr, score$"):
        choose_order(listed, "nope")


async def test_what_is_known_ends_with_the_last_attempt() -> None:
    folder = await stored.session("sim-1", stored.jobs(4))
    with open_store(folder / STORE) as store:
        data = collect(store, "sim-1")
        assert data.until == START + 49.5
        assert not data.running
        assert collect(store, "sim-1", now=START + 99).until == START + 99
