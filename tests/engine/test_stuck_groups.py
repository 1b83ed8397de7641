"""Groups that make no progress any more: which rank is at fault, and what is done."""

from __future__ import annotations

import pytest

from gmg_tui.model import Phase, RankGroup, RestartMode, WorkerState

from .harness import Running, running
from .test_groups import group_of

RUNNING = WorkerState.RUNNING


async def _stuck(run: Running) -> RankGroup:
    await run.until(lambda snapshot: snapshot.groups[0].stuck)
    return run.snapshot.groups[0]


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("stop", "rank 1 (cpu1) is stopped by a signal; kill -CONT "),
        ("busy", "rank 1 (cpu1) is busy while the others wait; no rank has made progress for "),
        ("sleep", "no rank has made progress for "),
    ],
)
async def test_a_group_that_makes_no_progress_is_stuck_and_names_the_rank(way: str, text: str) -> None:
    async with running(group_of("--steps", "40", "--hang", way, cpu=3, stuck_after_s=3.0)) as run:
        await run.until(lambda snapshot: (snapshot.groups[0].stuck or "").startswith(text))
        stuck = {worker.slot for worker in run.snapshot.workers if worker.stuck}
        assert stuck == ({"cpu1"} if "(cpu1)" in text else {"cpu0", "cpu1", "cpu2"})
        assert [worker.attempt for worker in run.snapshot.workers] == [1, 1, 1]
        await run.client.end(kill=True)


async def test_ranks_that_wait_for_a_missing_rank_are_stuck() -> None:
    async with running(group_of("--steps", "40", "--hang", "start", stuck_after_s=3.0)) as run:
        assert (await _stuck(run)).stuck
        await run.client.end(kill=True)


async def test_a_stuck_group_restarts_as_a_whole_and_counts_once() -> None:
    spec = group_of(
        *("--steps", "40", "--hang", "stop", "--until", "2"),
        stuck_after_s=3.0,
        restart_stuck=True,
        max_restarts=2,
        restart=RestartMode.NEVER,
    )
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.groups[0].restarts == 1)
        await run.until(lambda snapshot: snapshot.ended, timeout_s=60.0)
        assert [worker.state for worker in run.snapshot.workers] == [WorkerState.FINISHED] * 2
        assert [worker.attempt for worker in run.snapshot.workers] == [3, 3]
        earlier = (await run.client.details("cpu0")).attempts[0]
        assert (earlier.reason or "").startswith("the group was stuck: rank 1 (cpu1) is stopped by a signal")
        await run.client.end()


async def test_silent_ranks_run_while_rank_0_reports_for_all() -> None:
    async with running(group_of("--steps", "100000", "--rsl", cpu=3)) as run:
        await run.until(lambda snapshot: all(worker.state is RUNNING for worker in snapshot.workers))
        for slot in ("cpu1", "cpu2"):
            worker = run.worker(slot)
            assert (worker.phase, worker.stuck, worker.fps) == (Phase.RUNNING, None, None)
        await run.client.end(kill=True)


async def test_a_rank_that_builds_another_scene_is_not_stuck() -> None:
    async with running(group_of("--steps", "40", "--hang", "build", cpu=2, stuck_after_s=4.0)) as run:
        seen: set[str | None] = set()

        def built_for_long(_: object) -> bool:
            worker = run.worker("cpu1")
            if worker.phase is Phase.BUILDING:
                seen.add(run.snapshot.groups[0].stuck)
            return worker.phase is Phase.BUILDING and run.snapshot.time - worker.phase_since > 10

        await run.until(built_for_long)
        assert seen == {None}
        await run.client.end(kill=True)
