"""Groups of ranks in a real engine, on the CPU and on simulated cards."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest
from msgspec import structs

from gmg_tui.engine.attempts.attempt import Outcome, RankActivity, Task
from gmg_tui.engine.workers.group import Group
from gmg_tui.model import (
    NO_ATTEMPT,
    AlertAction,
    Attempt,
    DdpSpec,
    Fps,
    Phase,
    Rank,
    RestartMode,
    RunSpec,
    Snapshot,
    Worker,
    WorkerState,
    total_fps,
)
from gmg_tui.results.report_text import render_end as final
from gmg_tui.session.protocol import Action
from gmg_tui.ui.header import notices
from gmg_tui.ui.view import View
from tests.nvml_sim import Sim
from tests.workers import texts

from .harness import Running, running, spec_for

RANK = str(Path(__file__).parents[1] / "fake_rank.py")


def group_of(*args: str, cpu: int | None = 2, ddp: DdpSpec | None = None, **more: Any) -> RunSpec:
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
    spec = group_of("--steps", "20", "--die", "kill", restart=RestartMode.NEVER)
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
        assert not any(worker.newest.fps_of_group for worker in run.snapshot.workers)
        await run.client.end()
    async with running(group_of("--steps", "100000", "--rsl")) as run:
        await run.until(lambda snapshot: snapshot.groups[0].fps is not None)
        (group,) = run.snapshot.groups
        assert any(worker.newest.fps_of_group for worker in run.snapshot.workers)
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


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("stop", "rank 1 (cpu1) is stopped by a signal; kill -CONT "),
        ("sleep", "no rank has made progress for "),
        ("start", ""),
    ],
)
async def test_a_group_that_makes_no_progress_is_stuck_and_names_the_rank(way: str, text: str) -> None:
    async with running(group_of("--steps", "40", "--hang", way, cpu=3, stuck_after_s=3.0)) as run:
        await run.until(lambda snapshot: snapshot.groups[0].stuck and snapshot.groups[0].stuck.startswith(text))
        assert all(texts(worker.alerts)[0].startswith(text) for worker in run.snapshot.workers)
        assert [worker.attempt for worker in run.snapshot.workers] == [1, 1, 1]
        await run.client.end(kill=True)


async def test_a_stuck_group_restarts_as_a_whole_and_counts_once() -> None:
    spec = group_of(
        *("--steps", "40", "--hang", "stop", "--until", "2"),
        stuck_after_s=3.0,
        on={"stuck": AlertAction.RESTART},
        max_restarts=2,
        restart=RestartMode.NEVER,
    )
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.groups[0].restarts >= 1)
        await run.until(lambda snapshot: snapshot.ended)
        assert [worker.state for worker in run.snapshot.workers] == [WorkerState.FINISHED] * 2
        assert [worker.attempt for worker in run.snapshot.workers] == [3, 3]
        earlier = (await run.client.details("cpu0")).attempts[0]
        assert (earlier.reason or "").startswith("the group was stuck: rank 1 (cpu1) is stopped by a signal")
        await run.client.end()


async def test_ranks_that_continue_from_different_checkpoints_are_ended() -> None:
    """As while a disk is away on the node of one of them."""
    workplace = MagicMock()
    workplace.spec = workplace.session.spec = group_of(restart=RestartMode.FAILURE)
    group = Group("g0", ("n1/cpu0", "n2/cpu0"), Task((), {}, 0, 1), workplace)
    attempt = structs.replace(NO_ATTEMPT, number=2, continued_from="/runs/5.pt")
    others = structs.replace(attempt, continued_from=None), structs.replace(attempt, number=1), attempt
    workers = [MagicMock(running_s=0.0, attempt=attempt), MagicMock(running_s=0.0)]
    for worker in workers:
        worker.activity.return_value = RankActivity(attempt=2, has_process=True)
    group.workers = list(workers)
    for workers[1].attempt in reversed(others):
        assert not any(worker.end_with_group.called for worker in workers)
        group.check(time.monotonic())
    assert all(worker.end_with_group.called for worker in workers)
    assert group.cause == (
        "the group does not continue from one checkpoint: rank 0 from /runs/5.pt, rank 1 (n2/cpu0) from the beginning"
    )
    outcomes = [asyncio.create_task(group.conclude(rank, Outcome(), lambda _: None)) for rank in (0, 1)]
    failures = await asyncio.gather(*outcomes)
    assert [failure and failure.reason for failure in failures] == [group.cause] * 2
    assert group.policy.pending
    group.policy.cancel()


async def test_silent_ranks_run_while_rank_0_reports_for_all() -> None:
    async with running(group_of("--steps", "100000", "--rsl", cpu=3)) as run:
        await run.until(lambda snapshot: all(worker.state is RUNNING for worker in snapshot.workers))
        for slot in ("cpu1", "cpu2"):
            worker = run.worker(slot)
            assert (worker.phase, worker.stuck, worker.fps) == (Phase.RUNNING, False, None)
        await run.client.end(kill=True)


async def test_a_group_runs_while_a_rank_that_has_finished_waits_for_another(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text("import os, time\nprint('on', flush=True)\ntime.sleep(3 * int(os.environ['RANK']))\n")
    async with running(spec_for(cpu=2, script=str(script), ddp=DdpSpec())) as run:
        states = set()

        def seen(snapshot: Snapshot) -> bool:
            states.add(snapshot.groups[0].state)
            return snapshot.ended

        await run.until(seen)
        assert WorkerState.RUNNING in states
        assert WorkerState.STOPPING not in states
        await run.client.end()


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


# Groups of ranks on simulated cards: who sees which, what is left over, and a card that is lost under a rank

PAIRS = [("gpu0", "gpu1"), ("gpu2", "gpu3"), ("gpu4", "gpu5"), ("gpu6", "gpu7")]


def _pairs(*args: str, virtual: bool = False, **more: Any) -> RunSpec:
    return group_of(*args, cpu=None, ddp=DdpSpec(2, virtual), interval_s=0.2, **more)


def _states(snapshot: Snapshot) -> list[WorkerState]:
    return [group.state for group in snapshot.groups]


@pytest.mark.parametrize(
    ("virtual", "visible", "local"),
    [
        (False, [pair for pair in ("0,1", "2,3", "4,5", "6,7") for _ in range(2)], ["0", "1"] * 4),
        (True, list("01234567"), ["0"] * 8),
    ],
)
async def test_ranks_see_all_cards_of_their_group_or_only_their_own(
    sim: Sim, tmp_path: Path, virtual: bool, visible: list[str], local: list[str]
) -> None:
    for index in range(8):
        (tmp_path / f"gpu{index}").mkdir()
    spec = _pairs("--steps", "3", "--tell", f"{tmp_path}/{{slot}}", virtual=virtual)
    async with running(spec, sim.env()) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert [group.slots for group in run.snapshot.groups] == PAIRS
        assert _states(run.snapshot) == [WorkerState.FINISHED] * 4
        shown = [(await run.client.details(f"gpu{index}")).env for index in range(8)]
        await run.client.end()
    environs = [json.loads((tmp_path / f"gpu{index}" / f"{index % 2}-1.json").read_text()) for index in range(8)]
    for envs in (shown, environs):
        assert [env["CUDA_VISIBLE_DEVICES"] for env in envs] == visible
        assert [env["LOCAL_RANK"] for env in envs] == local
        assert [env["RANK"] for env in envs] == ["0", "1"] * 4
        assert len({env["MASTER_PORT"] for env in envs}) == 4


async def test_a_card_without_a_group_is_named_on_the_screen_and_in_the_summaries(
    nvml_library: Path, tmp_path: Path
) -> None:
    sim = Sim(tmp_path / "seven", nvml_library, count=7)
    async with running(_pairs("--steps", "3"), sim.env()) as run:
        await run.until(lambda snapshot: snapshot.ended)
        welcome = run.client.welcome
        assert [group.slots for group in run.snapshot.groups] == PAIRS[:3]
        text = "gpu6 stays idle: 7 slots do not divide into groups of 2"
        assert text in dict(notices(View(welcome)))
        assert text in final(welcome.session, run.snapshot)
        await run.client.end()
    assert run.summary()["idle_slots"] == ["gpu6"]


async def _all_running(run: Running) -> list[psutil.Process]:
    await run.until(lambda snapshot: {worker.state for worker in snapshot.workers} == {RUNNING})
    return [psutil.Process(worker.pid) for worker in run.snapshot.workers]


async def test_a_lost_card_ends_only_its_group_with_that_cause(sim: Sim) -> None:
    spec = _pairs("--steps", "1000000", "--cuda", restart=RestartMode.NEVER)
    async with running(spec, sim.env()) as run:
        ranks = await _all_running(run)
        lines = [worker.log_lines for worker in run.snapshot.workers]
        sim.gpus[3].lost = True
        sim.write()
        await run.until(lambda snapshot: snapshot.groups[1].state is WorkerState.FAILED)
        second, third = run.worker("gpu2"), run.worker("gpu3")
        assert (third.reason or "").startswith("the GPU is lost: it has fallen off the bus")
        assert (third.advice or "").endswith(
            "the script ended with RuntimeError: CUDA error: unspecified launch failure"
        )
        assert run.snapshot.groups[1].reason == f"rank 1: {third.reason}"
        assert second.reason == f"ended with the group: rank 1: {third.reason}"
        assert not ranks[2].is_running()
        await run.until(
            lambda snapshot: all(
                worker.log_lines > before + 10
                for worker, before in zip(snapshot.workers, lines, strict=True)
                if worker.group and worker.group.id != "g1"
            )
        )
        assert _states(run.snapshot) == [RUNNING, WorkerState.FAILED, RUNNING, RUNNING]
        assert [worker.attempt for worker in run.snapshot.workers] == [1] * 8
        await run.client.end(kill=True)


async def test_a_group_with_a_lost_card_restarts_only_when_the_card_is_back(sim: Sim) -> None:
    async with running(_pairs("--steps", "1000000", "--cuda", gpus="4"), sim.env()) as run:
        await _all_running(run)
        sim.gpus[2].lost = True
        sim.write()
        await run.until(lambda snapshot: snapshot.groups[1].state is WorkerState.FAILED)
        await run.client.act(Action.RESTART, "gpu3")
        text = f"rank 0: {sim.gpus[2].uuid}: "
        snapshot = await run.until(
            lambda s: s.groups[1].state is WorkerState.FAILED and (s.groups[1].reason or "").startswith(text)
        )
        assert "\n" not in (snapshot.groups[1].reason or "")
        assert snapshot.groups[0].state is RUNNING
        sim.gpus[2].lost = False
        sim.write()
        await run.client.act(Action.RESTART, "gpu3")
        await run.until(lambda snapshot: _states(snapshot) == [RUNNING, RUNNING])
        assert {worker.state for worker in run.snapshot.workers} == {RUNNING}
        await run.client.end(kill=True)
