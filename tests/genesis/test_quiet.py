"""Scripts that silence Genesis, as most that train do: what is said of them is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.model import Phase, Snapshot, WorkerState
from gmg_tui.protocol import Action
from tests.engine.harness import running, spec_for

pytestmark = [pytest.mark.genesis, pytest.mark.timeout(900)]

_QUIET = str(Path(__file__).with_name("quiet.py"))


async def test_steps_without_a_line_are_not_taken_for_the_last_phase(light: str) -> None:
    spec = spec_for("--steps", "100000000", cpu=1, script=_QUIET, sigint_wait_s=60.0)
    async with running(spec) as run:
        # On a machine with much else to do the imports alone may take that long.
        snapshot = await run.until(
            lambda s: s.workers[0].silent_s is not None and s.workers[0].phase is Phase.VISUALIZER, timeout_s=600
        )
        assert snapshot.workers[0].fps is None
        await run.client.act(Action.STOP, "cpu0")
        await run.until(lambda _: run.worker("cpu0").state is WorkerState.STOPPED, timeout_s=90)


async def test_two_seeds_of_rsl_rl_train_at_once_and_the_second_start_holds_nobody(light: str) -> None:
    pytest.importorskip("rsl_rl")
    held: list[set[str]] = []
    args = ("--level", "warning", "-B", "8", "--iterations", "3", "--seed", "{seed}")
    for _ in range(2):
        reasons: set[str] = set()
        held.append(reasons)
        async with running(spec_for(*args, cpu=2, script=_QUIET, sigint_wait_s=60.0)) as run:

            def ended(snapshot: Snapshot, reasons: set[str] = reasons) -> bool:
                reasons |= {worker.reason for worker in snapshot.workers if worker.reason}
                return snapshot.ended

            snapshot = await run.until(ended, timeout_s=800)
        for worker in snapshot.workers:
            assert worker.state is WorkerState.FINISHED, worker.reason
            assert worker.n_envs == 8
            assert worker.fps is not None
            assert worker.progress is not None
            assert (worker.progress.done, worker.progress.total, worker.progress.unit) == (3.0, 3.0, "iteration")
            assert worker.last_line.startswith("iteration 3 of 3, mean reward") or "ETA" not in worker.last_line
    assert held[1] == set()
