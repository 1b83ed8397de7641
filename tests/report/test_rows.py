"""Each attempt of a job is a row, with what it was tried with and what it reached."""

from __future__ import annotations

import re
from typing import Any

from gmg_tui.model import Attempt, AttemptMetrics, Fps, JobRecord, WorkerState
from gmg_tui.report import table
from gmg_tui.report.data import ReportData
from gmg_tui.report.rows import rows_of
from gmg_tui.store.records import JobAttempt
from tests.store.records import START

from . import stored

_FAILED, _STOPPED, _RUNNING = WorkerState.FAILED, WorkerState.STOPPED, WorkerState.RUNNING


def _attempt(
    number: int, begin: float, end: float | None, n_envs: int, state: WorkerState, **reached: Any
) -> JobAttempt:
    args = ("-B", str(n_envs))
    metrics = AttemptMetrics(number, args, n_envs=n_envs if reached else None, **reached)
    ended = None if end is None else START + end
    one = Attempt(number, args, None, START + begin, ended, None, state, "out of memory", metrics)
    return JobAttempt(1, "gpu0", 0, "GPU-1", one)


def _searched(*, running: bool = True) -> ReportData:
    """A plain run whose worker was tried with three numbers of environments; the last runs."""
    job = JobRecord(
        1,
        "gpu0",
        state=_RUNNING,
        slot="gpu0",
        attempts=3,
        started=START,
        elapsed_s=230.0,
        updated=START + 230,
        fps=Fps(7e6, 6e6, 8e6, 90, 9.13e6),
        n_envs=32768,
        memory_peak_mib=7372.8,
        energy_j=3600.0,
    )
    attempts = [
        _attempt(1, 0, 100, 4096, _STOPPED, fps=620_000.0, fps_mean=5e5, settled=622_532.0, memory_peak_mib=512.0),
        _attempt(2, 110, 120, 65536, _FAILED),
        _attempt(3, 154, None, 32768, _RUNNING, fps=7e6, settled=9.13e6),
    ]
    return ReportData("sim-1", None, running, START + 240, [job], {1: attempts}, [])


def _cells(data: ReportData, best: str | None = None, width: int = 160) -> list[list[str]]:
    lines = table.render(data, best, width=width, colour=False).splitlines()
    return [re.split(r"  +", line.strip()) for line in lines]


def test_each_attempt_is_a_row_with_what_it_reached() -> None:
    header, first, second, third, what, total, *_ = _cells(_searched())
    start = [re.fullmatch(r"\d\d:\d\d:\d\d", row[6]) for row in (first, second, third)]
    assert all(start)
    assert header == [
        "job", "name", "state", "slot", "tries", "args", "start", "time", "FPS", "FPS last", "envs", "VRAM peak", "energy",
    ]  # fmt: skip
    del first[6], second[6], third[6]
    assert first == [
        "1", "gpu0", "stopped", "gpu0", "1", "-B 4096", "1:40", "622,532", "620,000", "4,096", "512 MiB", "–",
    ]  # fmt: skip
    assert second == ["1", "gpu0", "failed", "gpu0", "2", "-B 65536", "10.0 s", "–", "–", "–", "–", "–"]
    # It runs: what its record says, up to this moment.
    assert third == [
        "1", "gpu0", "running", "gpu0", "3", "-B 32768", "1:26", "9,130,000", "7,000,000", "32,768", "7.2 GiB", "1.0 Wh",
    ]  # fmt: skip
    assert what == ["3 attempts of 1 job, in job order"]
    assert "total job time 00:04:00" in total


def test_the_best_attempt_is_that_of_the_greatest_settled_rate() -> None:
    rows = _cells(_searched(), "fps")
    assert [row[4] for row in rows[1:4]] == ["3", "1", "2"]
    assert rows[4] == ["3 attempts of 1 job, by fps_settled, the largest first"]


def test_a_narrow_table_keeps_what_was_tried_when_before_energy() -> None:
    header = _cells(_searched(), width=80)[0]
    assert {"tries", "args", "start", "time", "FPS"} <= set(header)
    assert "energy" not in header


def test_a_job_with_one_attempt_is_one_row_and_one_that_waits_too() -> None:
    waiting = JobRecord(2, "b")
    data = _searched()
    data = ReportData("s", None, False, START, [waiting], {}, [])
    assert [(row.record, row.args) for row in rows_of(data)] == [(waiting, None)]


async def test_the_page_has_a_row_for_each_attempt() -> None:
    from gmg_tui.report.page import page
    from gmg_tui.session import STORE
    from gmg_tui.store.reader import open_store

    data = _searched()
    folder = await stored.session("sim-1", data.jobs, attempts=data.attempts[1])
    with open_store(folder / STORE) as kept:
        text = page(data, kept, "running")[0].decode()
    assert all(f'<td class="text">-B {n_envs}</td>' for n_envs in (4096, 65536, 32768))
    assert text.count('<td class="text">-B ') == 3
