"""Commands, alerts and ends that meet a state which has changed since it was looked at."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from msgspec import structs

from gmg_tui.engine import clock
from gmg_tui.engine.attempts import gpu_use
from gmg_tui.engine.attempts.gpu_use import GpuMemory, Meter
from gmg_tui.engine.attempts.local_attempt import LocalAttempt
from gmg_tui.engine.attempts.readings import Readings
from gmg_tui.engine.faults import Faults
from gmg_tui.engine.observer import Observer
from gmg_tui.engine.records.recorder import Recorder, _Occupant
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.jobs.job_queue import JobQueue
from gmg_tui.machine.processes import scan
from gmg_tui.model import (
    NO_ATTEMPT,
    AlertAction,
    Attempt,
    Checkpoint,
    DdpSpec,
    Gpu,
    GpuSample,
    JobRecord,
    QueueAction,
    RestartMode,
    Slot,
    StartMode,
    WorkerState,
)
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.session import STORE
from gmg_tui.session.client import EngineClient, answering
from gmg_tui.session.protocol import Action
from gmg_tui.session.store import database
from tests import leaderless
from tests.patience import LONG_S, eventually
from tests.workers import worker_of

from .harness import JOB, program, running, spec_for, sweep_for
from .test_groups import RANK

FINISHED, STOPPED = WorkerState.FINISHED, WorkerState.STOPPED


def _patched(folder: Path, code: str) -> dict[str, str]:
    """The environment of an engine in which `code` runs first."""
    body = "".join(f"    {line}\n" for line in code.strip().splitlines())
    (folder / "sitecustomize.py").write_text(f'import sys\nif "gmg_tui.engine" in sys.orig_argv:\n{body}')
    return {"PYTHONPATH": f"{folder}:{Path.cwd()}"}


_SLOW_DISK = """
import os, time
from gmg_tui.engine.attempts import local_host
def waits(*_):
    while not os.path.exists({gate!r}):
        time.sleep(0.01)
local_host.clear_locks = waits
"""


@pytest.mark.parametrize("of_group", [False, True], ids=["worker", "group"])
async def test_a_restart_of_a_starting_worker_is_merged_with_its_start(tmp_path: Path, of_group: bool) -> None:
    gate, ddp = tmp_path / "gate", DdpSpec() if of_group else None
    environ = _patched(tmp_path, _SLOW_DISK.format(gate=str(gate)))
    spec = spec_for(script=JOB, cpu=2, ddp=ddp, probe=False)
    async with running(spec, environ) as run:
        await run.until(lambda _: run.worker("cpu1").reason == "for the disk with the kernel cache")
        await run.client.act(Action.RESTART, "cpu0", "cpu1")
        gate.touch()
        await run.until(lambda snapshot: snapshot.ended)
        assert [(worker.state, worker.attempt) for worker in run.snapshot.workers] == [(FINISHED, 1)] * 2


_SLOW_END = """
import asyncio
from pathlib import Path
from gmg_tui.engine.notify import Notifications
async def finish(_):
    Path({flag!r}).touch()
    while not Path({gate!r}).exists():
        await asyncio.sleep(0.01)
Notifications.finish = finish
"""


async def test_an_ending_session_refuses_commands_it_cannot_carry_out(tmp_path: Path) -> None:
    """For example while `--notify` sends a mail: the engine still answers, but does nothing more."""
    gate, flag = tmp_path / "gate", tmp_path / "flag"
    environ = _patched(tmp_path, _SLOW_END.format(gate=str(gate), flag=str(flag)))
    spec = sweep_for([{}], program(), cpu=1)
    async with running(spec, environ) as run:
        await run.until_done()
        await run.leave()
        await eventually(flag.exists)
        try:
            client = await EngineClient.connect(Path(spec.socket))
            async with answering(client):
                with pytest.raises(GmgError, match="the session has ended"):
                    await client.add_jobs(JobRecord(2, "late"))
                with pytest.raises(GmgError, match="the session has ended"):
                    await client.act(Action.RESTART, "cpu0")
        finally:
            gate.touch()
        assert await run.process.wait() == 0


_ALERTS = """
from pathlib import Path
from gmg_tui.engine.workers import slot
from gmg_tui.model import Sign
signs = slot._signs
def more(worker, view):
    yield from signs(worker, view)
    if Path({gate!r}).exists():
        yield Sign("gpu", "it has fallen off the bus")
slot._signs = more
"""


@pytest.mark.parametrize(
    ("code", "action", "state"),
    [(0, AlertAction.RESTART, FINISHED), (0, AlertAction.STOP, FINISHED), (3, AlertAction.STOP, STOPPED)],
    ids=["restart an ended one", "stop an ended one", "stop a pending one"],
)
async def test_an_alert_after_the_end_of_an_attempt_restarts_nothing(
    tmp_path: Path, code: int, action: AlertAction, state: WorkerState
) -> None:
    gate = tmp_path / "gate"
    environ = _patched(tmp_path, _ALERTS.format(gate=str(gate)))
    spec = spec_for("--fail", str(code), script=JOB, probe=False, on={"gpu": action}, restart=RestartMode.FAILURE)
    async with running(spec, environ) as run:
        await run.until_state("cpu0", FINISHED, WorkerState.RESTARTING)
        gate.touch()
        seen = await run.until(lambda snapshot: run.worker("cpu0").alert("gpu") and snapshot.ended)
        await run.until(lambda snapshot: snapshot.time > seen.time + 1.0)  # another beat
        assert (run.worker("cpu0").state, run.worker("cpu0").attempt) == (state, 1)


_FAILS_FIRST = """
import os, pathlib, sys, time
if os.environ["GMG_ATTEMPT"] == "1": sys.exit(3)
while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)
"""


async def test_a_restart_where_a_job_has_failed_does_not_run_it_again_after_it_has_finished_elsewhere(
    tmp_path: Path,
) -> None:
    go, script = tmp_path / "go", tmp_path / "fails_first.py"
    script.write_text(_FAILS_FIRST)
    spec = sweep_for([{}], program(str(go), script=str(script), probe=False), cpu=2, restart=RestartMode.NEVER)
    async with running(spec) as run:
        assert (await run.until_done()).failed == 1
        await run.client.use_slot("cpu0", used=False)
        await run.client.act_on_jobs(QueueAction.RETRY, 1)
        await run.until(lambda _: run.worker("cpu1").pid)
        with pytest.raises(GmgError, match="job 1 is running on cpu1 now"):
            await run.client.act(Action.RESTART, "cpu0")
        go.touch()
        assert (await run.until_done()).finished == 1
        assert (await run.jobs())["job-1"].last.number == 2


async def test_ranks_that_wait_for_each_other_do_not_wait_for_one_to_build(tmp_path: Path) -> None:
    """As in a job of several ranks that is added to a sweep whose jobs start one after the other."""
    environ = _patched(tmp_path, "from gmg_tui.engine.attempts import gate\ngate.MAX_UNSEEN_WAIT_S = 1e6")
    spec = sweep_for([{"ranks": 2}], program("--steps", "3", script=RANK), cpu=2, start=StartMode.GATED)
    async with running(spec, environ) as run:
        assert (await run.until_done()).finished == 1


_ENDS_LATE = """
import os, pathlib, signal, sys, time
def waits(*_):
    while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)
    sys.exit(1)
if os.environ["GMG_ATTEMPT"] == "1": signal.signal(signal.SIGINT, waits)
print("up", flush=True)
time.sleep(600)
"""


async def test_a_job_restarted_while_it_was_being_stopped_waits_again_once_its_session_is_stopped(
    tmp_path: Path,
) -> None:
    go, script = tmp_path / "go", tmp_path / "ends_late.py"
    script.write_text(_ENDS_LATE)
    spec = sweep_for([{}], program(str(go), script=str(script), probe=False), cpu=1, sigint_wait_s=600.0)
    async with running(spec) as run:
        await run.until(lambda _: run.worker("cpu0").last_line == "up")
        await run.client.act(Action.STOP, "cpu0")
        await run.client.act(Action.RESTART, "cpu0")
        go.touch()
        await run.until_attempt("cpu0", 2)
        await run.client.end()
        await run.until_done()
        assert (await run.jobs())["job-1"].state is WorkerState.WAITING


async def test_an_edited_job_is_neither_edited_nor_restarted_while_it_ends(tmp_path: Path) -> None:
    go, script = tmp_path / "go", tmp_path / "ends_late.py"
    script.write_text(_ENDS_LATE)
    spec = sweep_for([{"ranks": 2}], program(str(go), script=str(script), probe=False), cpu=2, sigint_wait_s=600.0)
    async with running(spec) as run:
        await run.until(lambda _: all(worker.last_line == "up" for worker in run.snapshot.workers))
        await run.client.edit(("cpu0", "cpu1"), (str(go), "edited"), {})
        for request in (run.client.edit(("cpu0",), (str(go),), {}), run.client.act(Action.RESTART, "cpu0")):
            with pytest.raises(GmgError, match="job 1 is being stopped: it continues as job 2"):
                await request
        with pytest.raises(GmgError, match=r"job 2 .* is not queued yet"):
            await run.client.act_on_jobs(QueueAction.SKIP, 2)
        go.touch()
        await run.until(lambda _: run.worker("cpu0").job == 2)
        assert list(await run.jobs()) == ["job-1", "job-1-edit2"]


async def test_a_failed_rank_waits_for_a_newer_sample() -> None:
    """The engine reads samples up to a second after they were taken, when the GPU was not lost yet."""
    attempt = SimpleNamespace(
        order=SimpleNamespace(slot=SimpleNamespace(gpu=object())),
        readings=SimpleNamespace(activity=SimpleNamespace(pids=frozenset()), measure=lambda *_: None),
        state=WorkerState.STOPPING,
        _process=SimpleNamespace(started=False),
        _host=SimpleNamespace(spec=SimpleNamespace(interval_s=LONG_S)),
        _measured=asyncio.Event(),
        _sampled_at=0.0,
    )
    failed = cast("LocalAttempt", attempt)
    before = time.monotonic()
    waiting = asyncio.create_task(LocalAttempt._wait_for_sample(failed))
    await asyncio.sleep(0)
    LocalAttempt.measure(failed, None, before, 1)
    for _ in range(9):
        await asyncio.sleep(0)
    assert not waiting.done()
    LocalAttempt.measure(failed, None, time.monotonic(), 1)
    await waiting


async def test_an_edited_job_whose_engine_was_killed_before_its_end_runs_only_as_edited(tmp_path: Path) -> None:
    spec = sweep_for([{}], program(), cpu=1)
    left = JobRecord(1, "old", position=1.0, state=WorkerState.STOPPING, halted=True)
    with contextlib.closing(database.open_for_writing(Path(spec.folder, STORE))) as store:
        database.write(store, (left, JobRecord(2, "new", position=2.0, edited_from=1)))
    async with running(spec) as run:
        await run.until_done()
        assert {name: job.state for name, job in (await run.jobs()).items()} == {"old": STOPPED, "new": FINISHED}


_BREAKS = """
import os, pathlib, signal, sys, time
def waits(*_):
    while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)
    sys.exit(1)
signal.signal(signal.SIGINT, waits)
print("step 1 loss=nan", flush=True)
time.sleep(600)
"""


async def test_a_job_that_an_alert_stops_as_the_session_ends_does_not_wait_for_another_engine(tmp_path: Path) -> None:
    go, script = tmp_path / "go", tmp_path / "breaks.py"
    script.write_text(_BREAKS)
    on = {"nan": AlertAction.STOP}
    spec = sweep_for([{}], program(str(go), script=str(script), probe=False), cpu=1, sigint_wait_s=600.0, on=on)
    async with running(spec) as run:
        await run.until_state("cpu0", WorkerState.STOPPING)
        await run.client.end()
        go.touch()
        await run.until_done()
        assert (await run.jobs())["job-1"].state is STOPPED


async def test_a_job_of_which_only_rank_0_has_finished_waits_once_its_session_is_stopped(tmp_path: Path) -> None:
    script = tmp_path / "rank_0_ends.py"
    script.write_text("import os, time\nprint('up', flush=True)\ntime.sleep(600 * (os.environ['RANK'] != '0'))")
    async with running(sweep_for([{"ranks": 2}], program(script=str(script), probe=False), cpu=2)) as run:
        await run.until(lambda _: "for rank 1 (cpu1) to end" in (run.worker("cpu0").reason or ""))
        await run.client.end()
        await run.until_done()
        assert (await run.jobs())["job-1"].state is WorkerState.WAITING


async def test_jobs_of_groups_wait_while_the_folder_of_their_ranks_cannot_be_made(tmp_path: Path) -> None:
    """As on a full disk: it is no fault of theirs."""
    script = tmp_path / "blocks.py"
    script.write_text(
        "import os, pathlib, shutil\n"
        "ranks = pathlib.Path(os.environ['TORCHELASTIC_ERROR_FILE']).parents[1]\n"
        "if os.environ['GMG_JOB'] == '1':\n"
        "    shutil.rmtree(ranks)\n"
        "    ranks.touch()\n"
    )
    async with running(sweep_for([{"ranks": 1}] * 3, program(script=str(script), probe=False), cpu=1)) as run:
        snapshot = await run.until(lambda _: "cannot make the rank's folder" in (run.worker("cpu0").reason or ""))
        assert snapshot.queue is not None
        assert (snapshot.queue.finished, snapshot.queue.waiting) == (1, 2)
        (run.folder / "ranks").unlink()
        assert (await run.until_done()).finished == 3


def test_a_job_that_loses_its_slots_again_and_again_waits_longer_each_time_and_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its group may have ranks on good nodes, and a faulty node any number of slots."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    queue = JobQueue([JobRecord(1, "job-1", position=1.0), JobRecord(2, "job-2", position=2.0)])
    engine_slot = EngineSlot(Slot("cpu0"), 0, 1)
    board = SlotBoard({"cpu0": engine_slot}, queue)
    assert [board.hold(1, "no slot") for _ in range(9)] == [0.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0, 300.0]
    assert board.next().job == 2
    assert board.wait_reason(1) == "for 5:00: no slot"
    now += 301.0
    assert board.next().job == 2, "others come first"
    queue.occupy(2)
    assert board.next().job == 1
    assert board.hold(1, "no slot", was_healthy=True) == 0.0
    board.judge(engine_slot, MagicMock(state=WorkerState.FINISHED, task=MagicMock(job=1)))
    assert board.hold(1, "no slot") == 0.0


def test_a_slot_where_jobs_fail_early_drains_no_queue_while_others_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while a stranger holds a port that its jobs need; jobs that fail everywhere fail at once."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    slots = {name: EngineSlot(Slot(name), index, 2) for index, name in enumerate(("cpu0", "cpu1"))}
    board = SlotBoard(slots, JobQueue([JobRecord(number, f"job-{number}") for number in range(1, 20)]))

    def ended(slot: str, state: WorkerState) -> list[str]:
        attempt = structs.replace(NO_ATTEMPT, number=1, ended=1.0)
        failure = None if state is WorkerState.FINISHED else Failure(FailureKind.SCRIPT, "port taken", "")
        worker = slots[slot].worker = MagicMock(state=state, failure=failure, attempt=attempt, task=MagicMock(job=1))
        board.judge(slots[slot], worker)
        return [engine_slot.slot.name for engine_slot in board.ready_slots()]

    for _ in range(9):
        assert ended("cpu0", WorkerState.FAILED) == ended("cpu1", WorkerState.FAILED) == ["cpu0", "cpu1"]
    started = structs.replace(NO_ATTEMPT, number=1, started=clock.now() - 60.0)  # it imports, or compiles kernels
    slots["cpu1"].worker = MagicMock(state=WorkerState.STARTING, attempt=started)
    assert ended("cpu0", WorkerState.FAILED) == ["cpu1"]
    now += 60.0
    ended("cpu1", WorkerState.FINISHED)
    for pause_s in (10.0, 20.0, 30.0, 30.0):
        assert ended("cpu0", WorkerState.FAILED) == ["cpu1"]
        now += pause_s - 1.0
        assert [engine_slot.slot.name for engine_slot in board.ready_slots()] == ["cpu1"]
        now += 1.0
    assert ended("cpu0", WorkerState.FINISHED) == ended("cpu0", WorkerState.FAILED) == ["cpu0", "cpu1"]


async def test_a_paused_slot_takes_jobs_again_while_others_are_busy(tmp_path: Path) -> None:
    (script := tmp_path / "slots.py").write_text(
        "import os, sys, time\n"
        "if os.environ['GMG_SLOT'] == 'cpu0': sys.exit(os.path.exists(sys.argv[1]))\n"
        "while not os.path.exists(sys.argv[2]): print('iteration 1/2 loss 0.5', flush=True); time.sleep(0.1)\n"
    )
    broken, go = tmp_path / "broken", tmp_path / "go"
    broken.touch()
    async with running(sweep_for([{}] * 12, program(str(broken), str(go), script=str(script)), cpu=2)) as run:
        await run.until(lambda _: "jobs in a row failed early there" in (run.worker("cpu0").reason or ""))
        broken.unlink()
        await run.until(lambda _: run.queue.waiting == 0 and run.worker("cpu0").state.ended)
        assert run.worker("cpu1").state is WorkerState.RUNNING
        go.touch()
        queue = await run.until_done()
    assert queue.finished + queue.failed == 12
    assert queue.failed < 10


def test_a_job_that_fails_on_lost_gpus_again_and_again_stays_failed() -> None:
    engine_slot = EngineSlot(Slot("gpu0", Gpu(0, "GPU-0", "H100")), 0, 1)
    engine_slot.sample = GpuSample("GPU-0", error="lost", lost=True)
    board = SlotBoard({"gpu0": engine_slot}, JobQueue([JobRecord(1, "job-1")]))
    worker = MagicMock(state=WorkerState.FAILED, task=MagicMock(job=1))
    assert [board.judge(engine_slot, worker) for _ in range(5)] == [(1,), (1,), (1,), (), ()]


def test_the_memory_in_a_sample_from_before_an_attempt_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_use, "_LIST_DELAY_S", 0.0)
    memory = GpuMemory("gpu0")
    memory.measure(GpuSample("A", memory_used_mib=100.0))
    attempt = SimpleNamespace(started_at=10.0, memory=memory, meter=Meter(), _count_times=lambda: None)
    for now, used_mib in ((9.0, 5000.0), (11.0, 300.0)):
        sample = GpuSample("A", memory_used_mib=used_mib)
        Readings.measure(cast("Readings", attempt), sample, WorkerState.RUNNING, now, 1, frozenset())
    assert memory.peak_mib == 200.0


def test_the_files_of_the_job_before_collide_with_none_of_the_next_on_its_slot() -> None:
    """As of a job that continues on another slot from the checkpoint that it has just saved here."""
    slots = {name: EngineSlot(Slot(name), index, 2) for index, name in enumerate(("cpu0", "cpu1"))}
    readings = SimpleNamespace(written=set())
    slots["cpu0"].attempt = cast("LocalAttempt", SimpleNamespace(readings=readings))
    views = (
        worker_of("cpu0", 0, WorkerState.RUNNING),
        worker_of("cpu1", 1, WorkerState.RUNNING, checkpoints=(Checkpoint("/model.pt", 1.0),)),
    )
    work, allocation = SimpleNamespace(slots=slots, fleet=None), SimpleNamespace(newest=None)
    observer = SimpleNamespace(_work=work, _allocation=allocation, _faults=Faults())
    for written, collide in ((set[str](), False), ({"/model.pt"}, True)):
        readings.written = written
        Observer._diagnose(cast("Observer", observer), views, 1.0)
        assert (slots["cpu0"].collision is not None) is collide


def test_a_checkpoint_of_an_earlier_attempt_collides_with_none() -> None:
    """A node that is not trusted may have named any file."""
    slots = {name: EngineSlot(Slot(name), index, 2) for index, name in enumerate(("cpu0", "cpu1"))}
    named, saved = Checkpoint("/model.pt", 1.0), Checkpoint("/model.pt", 2.0)
    task = SimpleNamespace(checkpoints=(named,))
    slots["cpu1"].worker = MagicMock(task=task, newest=None, stuck=None, race=None)
    work, allocation = SimpleNamespace(slots=slots, fleet=None), SimpleNamespace(newest=None)
    observer = SimpleNamespace(_work=work, _allocation=allocation, _faults=Faults(), recorder=MagicMock())
    for checkpoints, collide in (((named,), False), ((named, saved), True)):
        views = (
            worker_of("cpu0", 0, WorkerState.RUNNING, checkpoints=(saved,)),
            worker_of("cpu1", 1, WorkerState.RUNNING, checkpoints=checkpoints),
        )
        Observer._diagnose(cast("Observer", observer), views, 3.0)
        assert (slots["cpu0"].collision is not None) is collide


def test_the_record_of_a_job_has_an_attempt_that_not_all_ranks_have_begun() -> None:
    """As of one whose node was lost at that moment; else the next attempt would have the same number."""
    for before in (None, Attempt(1, ())):
        lead, other = (
            SimpleNamespace(attempt=each, state=STOPPED, reason=None, result={}) for each in (before, before)
        )
        other.attempt = Attempt(2, (), checkpoints=(Checkpoint("/model.pt", 1.0),))
        workers = cast("Any", (lead, other))
        last = Recorder._record(_Occupant(JobRecord(1, "job-1", slot="n1/cpu0"), workers)).last
        assert (last.number, len(last.checkpoints)) == (2, 1)


def test_only_children_that_nothing_else_waits_for_are_reaped() -> None:
    """One whose first thread has ended, or that a debugger holds, is a zombie for long before it can be reaped."""
    observer = cast("Observer", SimpleNamespace(_zombies=frozenset()))
    with leaderless.started() as awaited:
        orphan = subprocess.Popen(["true"])
        os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
        Observer._reap(observer, scan())
        awaited.kill()
        os.waitid(os.P_PID, awaited.pid, os.WEXITED | os.WNOWAIT)
        Observer._reap(observer, scan())
        assert awaited.wait() == -signal.SIGKILL
        with pytest.raises(ChildProcessError):
            os.waitpid(orphan.pid, 0)
    orphan.wait()
