"""Groups: ranks that start, end and restart as one, and what is wrong when they hang."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gmg_tui.model import (
    Attempt,
    DdpSpec,
    Fps,
    Phase,
    Rank,
    RankGroup,
    RestartMode,
    RunSpec,
    Snapshot,
    Worker,
    WorkerState,
    total_fps,
)
from gmg_tui.protocol import Action

from .harness import Running, running, spec_for

RANK = str(Path(__file__).parents[1] / "fake_rank.py")


def group_of(*args: str, cpu: int | None = 2, ddp: DdpSpec | None = None, **more: Any) -> RunSpec:
    """A run of `fake_rank.py` in groups."""
    return spec_for(*args, cpu=cpu, script=RANK, ddp=ddp or DdpSpec(), **more)


def _environ(folder: Path, name: str) -> dict[str, str | None]:
    return dict(json.loads((folder / f"{name}.json").read_text()))


def _all(snapshot: Snapshot, state: WorkerState) -> bool:
    return all(worker.state is state for worker in snapshot.workers)


async def test_the_ranks_meet_and_step_together(tmp_path: Path) -> None:
    async with running(group_of("--steps", "5", "--tell", str(tmp_path), cpu=3)) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert _all(run.snapshot, WorkerState.FINISHED)
        (group,) = run.snapshot.groups
        assert (group.id, group.slots, group.state) == ("g0", ("cpu0", "cpu1", "cpu2"), WorkerState.FINISHED)
        assert [(w.group.id, w.group.rank, w.group.world_size) for w in run.snapshot.workers if w.group] == [
            ("g0", rank, 3) for rank in range(3)
        ]
        await run.client.end()
    environs = [_environ(tmp_path, f"{rank}-1") for rank in range(3)]
    assert [each["RANK"] for each in environs] == [each["LOCAL_RANK"] for each in environs] == ["0", "1", "2"]
    assert {each["WORLD_SIZE"] for each in environs} == {"3"}
    assert (
        len({each["MASTER_PORT"] for each in environs}) == len({each["TORCHELASTIC_RUN_ID"] for each in environs}) == 1
    )
    assert {each["OMP_NUM_THREADS"] for each in environs} == {"1"}
    assert all(None not in each.values() for each in environs)
    summary = json.loads((run.folder / "summary.json").read_text())
    assert [each["group"] for each in summary["workers"]] == [
        {"id": "g0", "rank": rank, "world_size": 3} for rank in range(3)
    ]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["--die", "before"], "rank 1: ValueError: rank 1 dies here"),
        (["--die", "kill", "--rank", "0"], "rank 0: Killed by SIGKILL"),
        (["--die", "middle", "--deaf"], "rank 1: ValueError: rank 1 dies here"),
        (["--die", "middle", "--error-file"], "rank 1: ValueError: rank 1 dies here"),
    ],
)
async def test_a_rank_that_fails_ends_the_others(words: list[str], cause: str) -> None:
    async with running(group_of("--steps", "20", *words, cpu=3, restart=RestartMode.NEVER)) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert _all(run.snapshot, WorkerState.FAILED)
        (group,) = run.snapshot.groups
        assert (group.reason or "").startswith(cause)
        first = int(cause[5])
        for worker in run.snapshot.workers:
            mine = worker.group is not None and worker.group.rank == first
            expected = cause.partition(": ")[2] if mine else f"ended with the group: {cause}"
            assert (worker.reason or "").startswith(expected)
        await run.client.end()


async def test_an_error_recorded_before_a_resume_is_not_the_failure_of_a_rank() -> None:
    spec = group_of("--steps", "1000", "--die", "kill", restart=RestartMode.NEVER)
    left = Path(spec.folder, "ranks", "g0-1-rank1", "error.json")
    left.parent.mkdir(parents=True)
    left.write_text(json.dumps({"message": {"message": "ValueError: of yesterday"}}))
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert (run.snapshot.groups[0].reason or "").startswith("rank 1: Killed by SIGKILL")
        await run.client.end()


async def test_a_group_restarts_as_a_whole_on_another_port(tmp_path: Path) -> None:
    spec = group_of("--steps", "4", "--die", "middle", "--tell", str(tmp_path), restart=RestartMode.FAILURE)
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert _all(run.snapshot, WorkerState.FINISHED)
        assert [worker.attempt for worker in run.snapshot.workers] == [2, 2]
        assert run.snapshot.groups[0].restarts == 1
        await run.client.end()
    first, second = _environ(tmp_path, "0-1"), _environ(tmp_path, "0-2")
    assert (first["TORCHELASTIC_RESTART_COUNT"], second["TORCHELASTIC_RESTART_COUNT"]) == ("0", "1")
    assert first["MASTER_PORT"] != second["MASTER_PORT"]


async def test_commands_to_a_rank_apply_to_its_group() -> None:
    async with running(group_of("--steps", "100000")) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        await run.client.act(Action.RESTART, "cpu1")
        for slot in ("cpu0", "cpu1"):
            await run.until_attempt(slot, 2)
        await run.until(lambda snapshot: _all(snapshot, WorkerState.RUNNING))
        await run.client.edit(("cpu0",), ("--steps", "100001"), {})
        for slot in ("cpu0", "cpu1"):
            await run.until_attempt(slot, 3)
        await run.until(lambda snapshot: _all(snapshot, WorkerState.RUNNING))
        assert [worker.newest.args for worker in run.snapshot.workers] == [("--steps", "100001")] * 2
        await run.client.act(Action.STOP, "cpu0")
        await run.until(lambda snapshot: _all(snapshot, WorkerState.STOPPED))
        await run.client.act(Action.RESTART, "cpu0")
        await run.until(lambda snapshot: _all(snapshot, WorkerState.RUNNING))
        await run.client.act(Action.KILL, "cpu1")
        await run.until(lambda snapshot: _all(snapshot, WorkerState.STOPPED))
        await run.client.end()


async def test_rates_of_ranks_are_summed_but_not_a_group_rate() -> None:
    async with running(group_of("--steps", "100000")) as run:
        await run.until(lambda snapshot: _all(snapshot, WorkerState.RUNNING) and snapshot.groups[0].fps is not None)
        # A rank that has printed nothing yet is not in the sum.
        await run.until(lambda snapshot: snapshot.groups[0].fps == pytest.approx(2100.0, rel=0.02))
        (group,) = run.snapshot.groups
        assert not group.fps_of_rank_0
        await run.client.end()
    async with running(group_of("--steps", "100000", "--rsl")) as run:
        await run.until(lambda snapshot: snapshot.groups[0].fps is not None)
        (group,) = run.snapshot.groups
        assert group.fps_of_rank_0
        assert group.progress is not None
        assert group.progress.unit == "iteration"
        await run.client.end()


async def test_a_group_rate_is_counted_only_on_the_node_of_rank_0() -> None:
    def rank(number: int, rate: float, *, for_all: bool) -> Worker:
        fps = Fps(rate, rate, rate, 1, rate)
        attempt = Attempt(1, (), 1, 0.0, None, None, WorkerState.RUNNING, fps=fps, fps_of_group=for_all)
        group_rank = Rank("g0", number, 2)
        slot = f"n{number + 1}/gpu0"
        return Worker(slot, number, WorkerState.RUNNING, newest=attempt, group=group_rank, fps_in_rank_0=not for_all)

    first, other = rank(0, 2000.0, for_all=True), rank(1, 1000.0, for_all=False)
    assert [total_fps(those) for those in ((first, other), (first,), (other,))] == [2000.0, 2000.0, None]


RUNNING = WorkerState.RUNNING


async def _stuck(run: Running) -> RankGroup:
    await run.until(lambda snapshot: snapshot.groups[0].stuck)
    return run.snapshot.groups[0]


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("stop", "rank 1 (cpu1) is stopped by a signal; kill -CONT "),
        ("sleep", "no rank has made progress for "),
    ],
)
async def test_a_group_that_makes_no_progress_is_stuck_and_names_the_rank(way: str, text: str) -> None:
    async with running(group_of("--steps", "40", "--hang", way, cpu=3, stuck_after_s=3.0)) as run:
        await run.until(lambda snapshot: (snapshot.groups[0].stuck or "").startswith(text))
        assert all((worker.stuck or "").startswith(text) for worker in run.snapshot.workers)
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
        await run.until(lambda snapshot: snapshot.ended)
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


async def test_torch_forms_its_process_group_from_the_variables(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "reduce.py"
    script.write_text("""
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print("the sum is", total.item())
dist.destroy_process_group()
""")
    async with running(spec_for(cpu=2, script=str(script), ddp=DdpSpec())) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert _all(run.snapshot, WorkerState.FINISHED), run.snapshot.workers
        assert b"the sum is 3" in run.output("cpu0")
        assert b"the sum is 3" in run.output("cpu1")
