"""All that was tried in a session, by arguments; and the slots that are slower than the others with the same."""

from typing import Any

import pytest
from msgspec import structs

from gmg_tui.model import ArgumentResults, Attempt, WorkerState
from gmg_tui.model.tried import TriedArguments, fastest
from tests.rates import rate
from tests.workers import reached

from .harness import FAKE, program, running, spec_for, sweep_for


def _attempt(fps: float | None, *given: str, state: WorkerState = WorkerState.FINISHED, **figures: Any) -> Attempt:
    figures = {"fps": None if fps is None else rate(fps), "comparable": True, **figures}
    return reached(1, given, started=100.0, ended=160.0 if state.ended else None, state=state, **figures)


def _row(tried: TriedArguments, *given: str) -> ArgumentResults:
    return next(row for row in tried.results([], 0.0) if row.args == given)


def test_attempts_with_the_same_arguments_are_one_row_with_its_mean() -> None:
    tried = TriedArguments()
    tried.add("gpu0", _attempt(100.0, "-B", "8", power_w=10.0, gpu_util_pct=90.0, memory_peak_mib=500.0, n_envs=8))
    tried.add("gpu1", _attempt(104.0, "-B", "8", power_w=30.0, gpu_util_pct=94.0, memory_peak_mib=700.0))
    tried.add("gpu0", _attempt(102.0, "-B", "8", gpu_util_pct=92.0))
    tried.add("gpu7", _attempt(None, "-B", "8", state=WorkerState.FAILED, memory_peak_mib=16_000.0))
    tried.add("gpu0", _attempt(70.0, "-B", "4"))
    row = _row(tried, "-B", "8")
    assert (row.attempts, row.measured, row.slots) == (4, 3, ("gpu0", "gpu1", "gpu7"))
    assert row.rate == pytest.approx(102.0)
    assert (row.n_envs, row.memory_peak_mib, row.gpu_util_pct, row.power_w) == (8, 700.0, 92.0, 20.0)
    assert row.fps_per_watt == pytest.approx(204.0 / 40.0)
    assert row.elapsed_s == 240.0
    once = _row(tried, "-B", "4")
    assert (once.rate, once.power_w, once.fps_per_watt) == (70.0, None, None)
    assert fastest(tried.results([], 0.0)) == row


def test_named_numbers_are_means_of_the_attempts_that_ran_for_long_enough() -> None:
    tried = TriedArguments()
    tried.add("cpu0", _attempt(100.0, "-B", "8", metrics={"reward": 10.0, "loss": 3.0}))
    tried.add("cpu1", _attempt(None, "-B", "8", metrics={"reward": 14.0}))
    tried.add("cpu0", _attempt(100.0, "-B", "8", state=WorkerState.STOPPED, comparable=False, metrics={"reward": 1.0}))
    assert _row(tried, "-B", "8").metrics == {"reward": 12.0, "loss": 3.0}


def test_failed_arguments_are_a_row_without_a_rate_with_the_reason() -> None:
    tried = TriedArguments()
    failed = _attempt(None, "-B", "99", state=WorkerState.FAILED)
    tried.add("gpu0", structs.replace(failed, reason="CUDA out of memory"))
    row = _row(tried, "-B", "99")
    assert (row.rate, row.failed, row.reason) == (None, 1, "CUDA out of memory")
    assert fastest([row]) is None


def test_a_rate_of_the_first_seconds_does_not_count_unless_the_script_finished() -> None:
    tried = TriedArguments()
    tried.add("gpu0", _attempt(50.0, "stopped", state=WorkerState.STOPPED, comparable=False))
    tried.add("gpu0", _attempt(60.0, "finished", comparable=False))
    live = ("gpu1", _attempt(70.0, "runs", state=WorkerState.RUNNING, comparable=False))
    rates = {row.args: (row.rate, row.running) for row in tried.results([live], 130.0)}
    assert rates == {("stopped",): (None, 0), ("finished",): (60.0, 0), ("runs",): (None, 1)}


def test_running_attempts_are_added_to_ended_ones_but_not_stored() -> None:
    tried = TriedArguments()
    tried.add("gpu0", _attempt(100.0, "-B", "8"))
    live = ("gpu1", _attempt(110.0, "-B", "8", state=WorkerState.RUNNING))
    for _ in range(2):
        (row,) = tried.results([live], 130.0)
        assert (row.attempts, row.running, row.rate, row.elapsed_s) == (2, 1, 105.0, 90.0)
    assert _row(tried, "-B", "8").attempts == 1


async def test_tried_arguments_of_a_plain_run_are_grouped_as_written_and_include_edits() -> None:
    # A rate needs lines that were read at two moments, and a busy machine may read those of a second at once.
    async with running(spec_for("-B", "64", "--seed", "{seed}", "--lines", "80", "--fps", "128000", cpu=2)) as run:
        await run.until(lambda snapshot: snapshot.ended)
        view = await run.client.tried()
        (first,) = view
        assert first.args == ("-B", "64", "--seed", "{seed}", "--lines", "80", "--fps", "128000")
        assert (first.attempts, first.measured, first.slots, first.n_envs) == (2, 2, ("cpu0", "cpu1"), 64)
        assert first.rate == pytest.approx(128_000, rel=0.02)
        await run.client.edit(("cpu1",), ("-B", "128", "--crash", "oom"), {})
        await run.until(lambda _: run.worker("cpu1").state is WorkerState.FAILED)
        newest, before = await run.client.tried()
        assert (newest.args, newest.failed, newest.slots) == (("-B", "128", "--crash", "oom"), 1, ("cpu1",))
        assert newest.reason == run.worker("cpu1").reason
        assert before == first


async def test_in_a_sweep_a_row_is_a_combination_that_outlives_its_job_and_a_resume() -> None:
    batch = program("-B", "{n_envs}", "--lines", "10", "--seed", "{job}", script=FAKE)
    spec = sweep_for([{"n_envs": 16}, {"n_envs": 32, "name": "b"}, {"n_envs": 32, "name": "c"}], batch, cpu=1)
    async with running(spec) as run:
        await run.until_done()
        rows = {row.args[1]: row for row in await run.client.tried()}
        assert {value: row.attempts for value, row in rows.items()} == {"16": 1, "32": 2}
        assert rows["32"].args == ("-B", "32", "--lines", "10", "--seed", "{job}")
    async with running(spec) as run:
        again = {row.args[1]: row for row in await run.client.tried()}
        assert again.keys() == rows.keys()
        for value, row in again.items():
            assert (row.attempts, row.rate, row.slots) == (rows[value].attempts, rows[value].rate, ("cpu0",))
