"""What the engine does by itself: gates, restarts, stuck workers, and what its death leaves."""

import asyncio
import os
import random
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import MagicMock

import pytest
from msgspec import structs

from gmg_tui.engine.attempts.attempt import RankActivity
from gmg_tui.engine.attempts.code_check import check_code
from gmg_tui.engine.attempts.failure import outcome_of_failed_preparation
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.engine.workers import group, restart_policy
from gmg_tui.engine.workers.failed_starts import FailedStarts
from gmg_tui.engine.workers.restart_policy import HEALTHY_S, RestartPolicy
from gmg_tui.model import NO_ATTEMPT, AlertAction, Checkpoint, RestartMode, StartMode, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind, explain
from gmg_tui.session import STORE
from gmg_tui.session.protocol import Action
from gmg_tui.session.store import reader
from tests.nvml_sim import Process, Sim
from tests.workers import texts

from .harness import program, running, spec_for, sweep_for

NEVER = ("--lines", "0")
RUNNING = WorkerState.RUNNING


async def test_the_wait_for_the_gate_does_not_count_as_run_time() -> None:
    async with running(spec_for("--lines", "1", cpu=2, start=StartMode.GATED)) as run:
        await run.until(lambda snapshot: snapshot.ended)
    for job in reader.load_jobs(run.folder / STORE):
        assert job.elapsed_s is not None
        assert job.started is not None
        assert job.ended is not None
        assert job.elapsed_s <= job.ended - job.started + 0.001


@pytest.mark.parametrize(
    ("when", "kind", "had_progress", "again"),
    [
        (RestartMode.NEVER, FailureKind.CACHE_RACE, False, False),
        (RestartMode.STARTUP, FailureKind.CACHE_RACE, False, True),
        (RestartMode.STARTUP, FailureKind.CACHE_RACE, True, False),
        (RestartMode.STARTUP, FailureKind.MEMORY, False, False),
        (RestartMode.STARTUP, FailureKind.SCRIPT, False, False),
        (RestartMode.STARTUP, None, True, False),
        (RestartMode.FAILURE, FailureKind.SCRIPT, True, True),
        (RestartMode.FAILURE, FailureKind.CONFIG, False, False),
        (RestartMode.FAILURE, FailureKind.CONFIG, True, True),
        (RestartMode.FAILURE, None, True, False),
        (RestartMode.ALWAYS, None, True, True),
    ],
)
def test_restart_modes(when: RestartMode, kind: FailureKind | None, had_progress: bool, again: bool) -> None:
    assert restart_policy.wants_restart(when, kind, had_progress=had_progress, has_worked=had_progress) is again


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "cpu", "attempts"),
    [
        ("", 2, 2),
        ("", 1, 1),  # no other worker can have made its folder
        ("gmg_reports.report_saved('state', 0, __file__)", 2, 2),  # perhaps its settings
        (
            "for step in range(13): time.sleep(1); gmg_reports.ring.write(b'reward', 1, 2.0)\n"
            "gmg_reports.report_saved('state', 0, __file__)",
            *(2, 1),
        ),
    ],
)
async def test_a_race_is_retried_only_before_any_work(tmp_path: Path, work: str, cpu: int, attempts: int) -> None:
    """A script may report its work only by metrics or saved files."""
    (script := tmp_path / "race.py").write_text(f"import gmg_reports, os, time\n{work}\nos.mkdir('/tmp')\n")
    async with running(spec_for(script=str(script), cpu=cpu, max_restarts=attempts)) as run:
        await run.until(lambda snapshot: snapshot.ended or run.worker("cpu0").attempt > 1)
        assert (run.worker("cpu0").attempt, run.snapshot.ended) == (attempts, attempts == 1)
        first = (await run.client.details("cpu0")).attempts[0]
        assert (first.reason, first.had_progress) == ("FileExistsError: [Errno 17] File exists: '/tmp'", "for" in work)


async def test_a_port_that_is_taken_for_a_while_ends_no_run_that_has_worked() -> None:
    policy = RestartPolicy(spec_for(restart=RestartMode.FAILURE))
    taken, crash = Failure(FailureKind.CONFIG, "Address already in use", ""), Failure(FailureKind.SCRIPT, "crash", "")
    for failure, had_progress, again in ((taken, False, False), (crash, True, True), (taken, False, True)):
        if policy.pending:
            policy.retry()
            await policy.wait_until_due()
        policy.schedule(failure, had_progress=had_progress, running_s=1.0)
        assert policy.pending is again
    policy.cancel()


async def test_a_disk_that_is_away_uses_up_no_restarts_of_a_run_that_has_worked(tmp_path: Path) -> None:
    script, kept = tmp_path / "train.py", tmp_path / "kept.py"
    script.write_text('import time\nprint("Running at 1.00 FPS.", flush=True)\ntime.sleep(600)\n')
    async with running(spec_for(script=str(script), restart=RestartMode.FAILURE, max_restarts=1)) as run:
        await run.until(lambda _: run.worker("cpu0").newest.had_progress)
        script.rename(kept)
        os.kill(run.worker("cpu0").pid or 0, signal.SIGKILL)
        await run.until(lambda _: "is missing" in (run.worker("cpu0").reason or ""))
        kept.rename(script)
        await run.until(lambda _: run.worker("cpu0").newest.had_progress and run.worker("cpu0").state.live)


async def test_a_run_that_cannot_start_ends_after_its_restarts_or_an_hour() -> None:
    missing = Failure(FailureKind.MACHINE, "train.py is missing", "")
    for has_worked, tries in ((False, 3), (True, 60)):
        policy = RestartPolicy(spec_for(restart=RestartMode.FAILURE, max_restarts=3))
        await policy.wait_until_due()
        if has_worked:
            policy.schedule(_FAILURE, had_progress=True, running_s=HEALTHY_S)
        for number in range(tries + 1):
            policy.cancel_backoff()
            policy.schedule(missing, had_progress=False, running_s=0.0, is_unready=True)
            assert policy.pending == (number < tries), number
        if has_worked:
            policy.request()
            await policy.wait_until_due()
            policy.schedule(_FAILURE, had_progress=True, running_s=1.0)
            policy.cancel_backoff()
            policy.schedule(missing, had_progress=False, running_s=0.0, is_unready=True)
            assert policy.pending, "the user restarted it"
            policy.schedule(_FAILURE, had_progress=True, running_s=HEALTHY_S)
            assert policy._losses == 0
            policy.cancel()


async def test_a_failure_after_minutes_of_work_is_no_failed_start() -> None:
    policy = RestartPolicy(spec_for(restart=RestartMode.STARTUP))
    await policy.wait_until_due()
    race = Failure(FailureKind.CACHE_RACE, "Ran out of input", "")
    policy.schedule(race, had_progress=False, running_s=HEALTHY_S)
    assert not policy.pending
    policy.schedule(race, had_progress=False, running_s=1.0)
    assert policy.pending
    policy.cancel()


def test_restart_delays_grow_are_bounded_and_vary() -> None:
    pauses = [[restart_policy.backoff_s(number) for _ in range(50)] for number in range(12)]
    assert all(1.5 <= pause <= 2.5 for pause in pauses[0])
    assert min(pauses[3]) > max(pauses[1])
    assert max(map(max, pauses)) <= 75.0
    assert len(set(pauses[2])) > 1


@pytest.mark.slow
async def test_the_user_can_skip_or_cancel_a_pending_restart() -> None:
    async with running(spec_for("--crash", "race", "--crash-attempt", "3", *NEVER, cpu=2)) as run:

        async def act(action: Action, slot: str) -> None:
            # The pause after the third failure is the first one that no busy machine lets go by unseen.
            await run.until(lambda _: run.worker(slot).attempt == 3 and run.worker(slot).restart_at)
            await run.client.act(action, slot)

        await asyncio.gather(act(Action.RESTART, "cpu0"), act(Action.STOP, "cpu1"))
        await run.until_state("cpu0", RUNNING)
        await run.until_state("cpu1", WorkerState.STOPPED)
        assert [run.worker(slot).attempt for slot in ("cpu0", "cpu1")] == [4, 3]
        await run.until(lambda _: run.worker("cpu0").alert("cache"))


async def test_the_user_can_start_a_waiting_worker_at_once() -> None:
    async with running(spec_for("--hang", "adding", cpu=2, start=StartMode.GATED, stuck_after_s=600.0)) as run:
        await run.until_state("cpu1", WorkerState.WAITING)
        await run.client.act(Action.RESTART, "cpu1")
        await run.until_state("cpu1", WorkerState.BUILDING)


async def _silent_without_cpu() -> None:
    async with running(spec_for("--hang", "compiling", cpu=1, stuck_after_s=3.0)) as run:
        await run.until(lambda s: s.workers[0].stuck)
        (stuck,) = texts(run.worker("cpu0").alerts)
        assert stuck
        assert stuck.startswith("no output for ")
        assert "0.0 s CPU" in stuck


async def _silent_at_full_cpu() -> None:
    async with running(spec_for("--spin", "compiling", cpu=1, stuck_after_s=3.0)) as run:
        await run.until(lambda s: s.workers[0].state is WorkerState.COMPILING and s.time - s.workers[0].state_since > 7)
        assert not run.worker("cpu0").stuck


async def test_a_silent_worker_is_stuck_unless_it_uses_cpu() -> None:
    async with asyncio.TaskGroup() as both:
        both.create_task(_silent_without_cpu())
        both.create_task(_silent_at_full_cpu())


async def test_a_stopped_worker_is_stuck_and_restarted_on_request() -> None:
    async with running(spec_for(*NEVER, stuck_after_s=2.0, on={"stuck": AlertAction.RESTART})) as run:
        worker = await run.until_state("cpu0", RUNNING)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)
        await run.until(lambda s: s.workers[0].attempt == 2)
        await run.until_state("cpu0", RUNNING)


async def test_a_restart_waits_for_the_memory_of_the_card(sim: Sim) -> None:
    sim.gpus[0].memory_used_mib = 500
    sim.write()
    spec = spec_for(*NEVER, cpu=None, gpus="0,", interval_s=0.2)
    async with running(spec, sim.env()) as run:
        await run.until_state("gpu0", RUNNING)
        sim.gpus[0].memory_used_mib = 30_000
        sim.write()
        await run.until(lambda s: (s.workers[0].newest.memory_peak_mib or 0) > 20_000)
        await run.client.act(Action.STOP, "gpu0")
        await run.until_state("gpu0", WorkerState.STOPPED)
        await run.client.act(Action.RESTART, "gpu0")
        waiting = await run.until(lambda s: "released" in (s.workers[0].reason or ""))
        assert waiting.workers[0].state is WorkerState.RESTARTING
        sim.gpus[0].memory_used_mib = 510
        sim.write()
        await run.until_state("gpu0", RUNNING)


async def test_the_processes_on_a_card_are_named_with_their_worker(sim: Sim) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "60")
    init = 1
    sim.gpus[0].processes = [Process(pid=other.pid, memory_mib=900), Process(pid=init, memory_mib=10)]
    sim.write()
    async with running(spec_for(*NEVER, cpu=None, gpus="0,", interval_s=0.2), sim.env()) as run:
        worker = await run.until_state("gpu0", RUNNING)
        assert worker.pid is not None
        details = await run.client.details("gpu0")
        assert {process.pid for process in details.processes or ()} == {other.pid, init}
        sim.gpus[0].processes.append(Process(pid=worker.pid, memory_mib=20))
        sim.write()
        await run.until(lambda s: "gpu0" in [process.slot for process in s.samples[0].processes or ()])
        other.kill()
        await other.wait()


_FAILURE = Failure(FailureKind.SCRIPT, "ValueError: no such robot", "")


def _follows(policy: RestartPolicy, running_s: float = 1.0) -> bool:
    """Whether another attempt follows one that has failed."""
    policy.schedule(_FAILURE, had_progress=True, running_s=running_s)
    follows = policy.pending
    policy.cancel_backoff()
    return follows


async def test_restarts_are_limited_until_an_attempt_was_healthy_or_the_user_restarts() -> None:
    spec = spec_for(restart=RestartMode.FAILURE, max_restarts=2)
    policy = RestartPolicy(spec)
    await policy.wait_until_due()
    assert [_follows(policy) for _ in range(4)] == [True, True, False, False]
    assert [_follows(policy, HEALTHY_S), _follows(policy), _follows(policy)] == [True, True, False]
    policy.request()
    await policy.wait_until_due()
    assert [_follows(policy) for _ in range(3)] == [True, True, False]


async def test_attempts_lost_with_their_node_are_no_restarts_but_follow_ever_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node may lose its agent again and again."""
    monkeypatch.setattr(random, "uniform", lambda *_: 1.0)
    policy = RestartPolicy(spec_for(restart=RestartMode.FAILURE, max_restarts=1))
    await policy.wait_until_due()
    pauses_s = []
    for running_s in (1.0, 1.0, 1.0, HEALTHY_S, 1.0):
        policy.schedule_lost(running_s=running_s)
        pauses_s.append(round((policy.due_at or 0.0) - time.monotonic()))
        policy.cancel_backoff()
    assert pauses_s == [2, 4, 8, 2, 4]
    assert _follows(policy)


async def test_after_a_stop_only_the_user_asks_for_another_attempt() -> None:
    policy = RestartPolicy(spec_for(restart=RestartMode.ALWAYS))
    await policy.wait_until_due()
    policy.cancel()
    policy.retry()
    assert (_follows(policy), policy.replace(running_s=1.0), policy.pending) == (False, False, False)
    policy.request()
    await policy.wait_until_due()
    assert _follows(policy)


async def test_a_failure_and_its_alert_are_one_restart() -> None:
    policy = RestartPolicy(spec_for(restart=RestartMode.FAILURE, max_restarts=2))
    for _ in range(2):
        await policy.wait_until_due()
        policy.schedule(Failure(FailureKind.SCRIPT, "loss is NaN", ""), had_progress=True, running_s=1.0)
        assert policy.replace(running_s=1.0)  # `--on nan=restart`, as its last line is read
        policy.retry()
    await policy.wait_until_due()
    assert not policy.replace(running_s=1.0)
    assert policy.replace(running_s=HEALTHY_S), "earlier restarts no longer count"


def test_a_group_that_prints_something_else_than_progress_has_more_time() -> None:
    """As in an evaluation; a deadlocked one prints nothing."""
    deadlocked = RankActivity(1, in_running=True, progress_at=0.0, silence_s=80.0)
    evaluating = structs.replace(deadlocked, silence_s=1.0)
    assert group._silent_s([deadlocked, deadlocked], 60.0, 0.0, 80.0) == 80.0
    assert group._silent_s([deadlocked, evaluating], 60.0, 0.0, 80.0) is None
    assert group._silent_s([deadlocked, evaluating], 60.0, 0.0, 600.0) == 600.0


def test_a_file_with_which_a_script_fails_twice_in_the_same_way_is_left_out() -> None:
    """The newest one may be another kind of file, such as the state of an optimizer."""
    starts, failure = FailedStarts(), Failure(FailureKind.SCRIPT, "KeyError: 'model'", "", of_contents=True)
    files = (Checkpoint("/model.pt", 1.0), Checkpoint("/optimizer.pt", 2.0))
    first = structs.replace(NO_ATTEMPT, number=1, started=0.5, had_progress=True, checkpoints=files)
    later = structs.replace(first, number=2, started=3.0, had_progress=False, continued_from="/optimizer.pt")
    assert starts.usable_after(first, failure) == (files, None)
    port = failure._replace(reason="OSError: Address already in use", of_contents=False)  # perhaps by another user
    for cause in (failure, port, port, failure):
        assert starts.usable_after(later, cause) == (files, None)
    assert starts.usable_after(later, failure) == (files[:1], "/optimizer.pt was left out: KeyError: 'model', twice")
    assert starts.usable_after(structs.replace(later, had_progress=True), failure) == (files, None)


_LOADS = [
    "Traceback (most recent call last):",
    '  File "t.py", line 9, in <module>',
    "    model.load_state_dict(saved['m'])",
]
_BINDS = ["Traceback (most recent call last):", '  File "t.py", line 9, in <module>', "    manager.start()"]


@pytest.mark.parametrize(
    ("lines", "is_of_file"),
    [
        ([*_LOADS, "KeyError: 'm'"], True),
        ([*_BINDS, "KeyError: 'm'"], False),
        ([*_LOADS, "ValueError: loaded state dict contains a parameter group that doesn't match"], True),
        ([*_BINDS, "safetensors_rust.SafetensorError: Error while deserializing header"], True),
        ([*_BINDS, "RuntimeError: Invalid magic number; corrupt file?"], True),
        ([*_BINDS, "EOFError"], False),
        ([*_LOADS, "torch.OutOfMemoryError: CUDA out of memory"], False),
        ([*_LOADS, "TimeoutError: the license server does not answer"], False),
    ],
)
def test_only_what_a_file_contains_speaks_against_it(lines: list[str], is_of_file: bool) -> None:
    """Other failures may pass, such as those that another user provokes."""
    assert explain(1, [line.encode() for line in lines]).of_contents is is_of_file


async def test_two_requests_to_stop_kill_no_worker_that_is_saving() -> None:
    """As of two terminals. The second one only ends the wait for `--notify`, once all workers have ended."""
    scheduler, on_kill = MagicMock(), MagicMock()
    fields = {"_end_requested_at": None, "all_ended": asyncio.Event(), "overdue": asyncio.Event()}
    session = SimpleNamespace(spec=spec_for())
    store = MagicMock()
    supervisor = SimpleNamespace(**fields, scheduler=scheduler, on_kill=on_kill, session=session, _store=store)

    def end() -> None:
        Supervisor.end(cast("Supervisor", supervisor))
        supervisor._end_requested_at -= 60.0

    end()
    end()
    supervisor.all_ended.set()
    end()
    assert [call.kwargs["kill"] for call in scheduler.end.call_args_list] == [False, False, True]
    on_kill.assert_called_once_with()
    store.give_up.assert_not_called()
    Supervisor.end(cast("Supervisor", supervisor), kill=True)
    store.give_up.assert_called_once_with()


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="makes another user's folder")
async def test_no_attempt_runs_a_script_that_another_user_has_put_there_since(tmp_path: Path) -> None:
    shared, ran = tmp_path / "shared", tmp_path / "ran"
    shared.mkdir()
    shared.chmod(0o1777)
    (script := shared / "sim.py").write_text(f"open({str(ran)!r}, 'a').write('x')")
    async with running(spec_for(script=str(script))) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        os.chown(script, 65534, -1)
        await run.client.act(Action.RESTART, "cpu0")
        await run.until_state("cpu0", WorkerState.FAILED)
        assert f"{script} belongs to nobody, unlike when the session was started" in (run.worker("cpu0").reason or "")
    assert ran.read_text() == "x"


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o755, 0o1777])
async def test_jobs_wait_for_a_script_that_is_gone_for_a_moment(tmp_path: Path, mode: int) -> None:
    shared, away = tmp_path / "shared", tmp_path / "away"
    shared.mkdir()
    shared.chmod(mode)
    (script := shared / "sim.py").write_text(
        f"import os; os.path.exists({str(away)!r}) or os.rename(__file__, {str(away)!r})"
    )
    async with running(sweep_for([{}] * 3, program(script=str(script)), cpu=1)) as run:
        snapshot = await run.until(lambda _: "sim.py is missing" in (run.worker("cpu0").reason or ""))
        assert snapshot.queue is not None
        assert (snapshot.queue.finished, snapshot.queue.waiting) == (1, 2)
        script.write_text("")
        queue = await run.until_done()
        assert {job.last.number for job in (await run.jobs()).values()} == {1}, "what did not start is no attempt"
    assert queue.finished == 3


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_folder_that_its_user_cannot_enter_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed" / "run").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    os.seteuid(65534)
    try:
        with pytest.raises(GmgError, match="cannot be used: Permission denied"):
            check_code(spec_for(cwd=str(tmp_path / "closed" / "run")))
    finally:
        os.seteuid(0)


def test_a_disk_that_does_not_answer_is_tried_again() -> None:
    error = GmgError("the disk with the script has not answered for 120 s", 1)
    failure = outcome_of_failed_preparation(error).failure
    assert failure is not None
    assert restart_policy.wants_restart(RestartMode.FAILURE, failure.kind, had_progress=False, has_worked=False)
