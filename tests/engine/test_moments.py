"""Commands at every moment of a process's life: none reaches the process after it, and none is without effect."""

import asyncio
import contextlib
import os
import signal
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from gmg_tui.engine.attempts.process import KILL_STEPS, Process
from gmg_tui.engine.main import Engine
from gmg_tui.engine.output.pipes import Pipes
from gmg_tui.machine import processes
from gmg_tui.machine.processes import Scans
from gmg_tui.model import AlertAction, RestartMode, Snapshot, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session.protocol import Action, Seen
from tests.patience import LONG_S, eventually

from .harness import Running, program, running, spec_for, sweep_for

FINISHED, FAILED, STOPPED, WAITING = (
    WorkerState.FINISHED,
    WorkerState.FAILED,
    WorkerState.STOPPED,
    WorkerState.WAITING,
)


async def _ended(pid: int) -> None:
    """Wait for the end of a process of another one's."""
    handle = os.pidfd_open(pid)
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


_TURNS = """
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(5))
time.sleep(0.6 if int(os.environ["GMG_ATTEMPT"]) % 2 else 1.2)
"""


def _has_ended(run: Running, number: int, _: Snapshot) -> bool:
    worker = run.worker("cpu0")
    return worker.attempt == number and worker.state.ended


def _runs_another(run: Running, seen: int, snapshot: Snapshot) -> bool:
    worker = run.worker("cpu0")
    return snapshot.ended or (worker.pid is not None and worker.job != seen)


@pytest.mark.slow
async def test_a_restart_at_the_end_of_a_process_does_not_signal_the_next_attempt(tmp_path: Path) -> None:
    script = tmp_path / "turns.py"
    script.write_text(_TURNS)
    states = []
    async with running(spec_for(script=str(script), probe=False)) as run:
        for turn, delay_s in enumerate((0.0, 0.01, 0.03, 0.06, 0.1, 0.2)):
            worker = await run.until_state("cpu0", WorkerState.STARTING, WorkerState.RUNNING)
            assert worker.attempt == 2 * turn + 1
            await _ended(await run.pid("cpu0"))
            await asyncio.sleep(delay_s)
            await run.client.act(Action.RESTART, "cpu0")
            number = 2 * turn + 2
            await run.until(partial(_has_ended, run, number))
            states.append(run.worker("cpu0").state)
            details = await run.client.details("cpu0")
            assert [each.state for each in details.attempts] == [FINISHED] * number
            await run.client.act(Action.RESTART, "cpu0")
            await run.until_attempt("cpu0", number + 1)
    assert states == [FINISHED] * 6


async def test_a_restart_in_the_moment_of_the_last_end_does_not_end_the_session() -> None:
    names = ("all_ended", "saved", "overdue", "visited", "busy", "idle")
    events = SimpleNamespace(**{name: asyncio.Event() for name in names})
    engine = SimpleNamespace(_supervisor=events, _server=events, shutdown_requested=asyncio.Event())
    events.visited.set()
    events.busy.set()
    done = asyncio.create_task(Engine._wait_until_done(cast("Engine", engine)))
    await _loop_turns()
    events.all_ended.set()
    events.saved.set()
    await asyncio.sleep(0)
    events.all_ended.clear()
    events.saved.clear()
    await _loop_turns()
    assert not done.done()
    events.all_ended.set()
    events.saved.set()
    await _loop_turns()
    assert not done.done(), "a client is there"
    events.busy.clear()
    events.idle.set()
    async with asyncio.timeout(LONG_S):
        await done


async def _loop_turns() -> None:
    """Let other tasks go as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.slow
async def test_a_stop_at_the_end_of_a_job_does_not_signal_the_next_job(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(5))\ntime.sleep(0.5)\n"
    )
    async with running(sweep_for([{}] * 8, program(script=str(script), probe=False), cpu=1)) as run:
        seen = 0
        while not run.snapshot.ended:
            await run.until(partial(_runs_another, run, seen))
            worker = run.worker("cpu0")
            if run.snapshot.ended or worker.pid is None or worker.job is None:
                continue
            seen = worker.job
            await _ended(worker.pid)
            with contextlib.suppress(GmgError):  # that the job has ended
                await run.client.act(Action.STOP, "cpu0", seen={"cpu0": Seen(seen, 1)})
        assert (run.queue.finished, run.queue.failed, run.queue.stopped) == (8, 0, 0)


_LEAVES = """
import subprocess, sys
subprocess.Popen(["sleep", "600"])
sys.exit({code})
"""


@pytest.mark.parametrize("ends_session", [False, True], ids=["stop", "end"])
@pytest.mark.parametrize(("code", "state"), [(0, FINISHED), (3, FAILED)])
async def test_a_stop_at_the_end_of_a_process_lets_no_other_follow(
    tmp_path: Path, code: int, state: WorkerState, ends_session: bool
) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(_LEAVES.format(code=code))
    async with running(spec_for(script=str(script), probe=False, restart=RestartMode.ALWAYS)) as run:
        await run.until(lambda _: "left" in (run.worker("cpu0").reason or ""))
        await (run.client.end() if ends_session else run.client.act(Action.STOP, "cpu0"))
        await run.until(lambda _: run.worker("cpu0").state not in (WorkerState.STARTING, WorkerState.STOPPING))
        assert (run.worker("cpu0").state, run.worker("cpu0").attempt) == (state, 1)


@pytest.mark.process
async def test_a_kill_needs_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor() -> None:
        raise OSError(24, "Too many open files")

    process = Process(Pipes(), Scans(), "mark", lambda *_: None)
    await process.start((sys.executable, "-c", "import time; time.sleep(60)"), cwd="/", env=dict(os.environ))
    monkeypatch.setattr(processes, "scan", no_descriptor)
    process.end(KILL_STEPS)
    await process.wait_for_end()
    assert process.exit_code == -signal.SIGKILL
    process.close_pipes()


_NO_THREADS = """
import os, sys, threading
if "gmg_tui.engine" in sys.orig_argv:
    start = threading.Thread.start
    def refuse(thread):
        if os.path.exists({flag!r}):
            raise RuntimeError("can't start new thread")
        start(thread)
    threading.Thread.start = refuse
"""
_DETACHES = """
import subprocess, sys, time
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
time.sleep(600)
"""


async def test_a_kill_needs_no_thread_also_for_processes_in_other_sessions(tmp_path: Path) -> None:
    """As at the limit of pids.max or RLIMIT_NPROC, which also count the dead until they are reaped."""
    flag, script = tmp_path / "flag", tmp_path / "detaches.py"
    (tmp_path / "sitecustomize.py").write_text(_NO_THREADS.format(flag=str(flag)))
    script.write_text(_DETACHES)
    spec = spec_for(script=str(script), probe=False)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.client.watch(lines=True)
        await run.until_lines("cpu0", bool)
        flag.touch()
        await run.client.act(Action.KILL, "cpu0")
        await run.until_state("cpu0", STOPPED)
        assert not psutil.pid_exists(int(run.lines["cpu0"][0]))
        flag.unlink()


@pytest.mark.process
async def test_killing_again_does_not_begin_its_wait_again(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(Pipes(), Scans(), "mark", lambda *_: None)
    await process.start((sys.executable, "-c", "import time; time.sleep(60)"), cwd="/", env=dict(os.environ))
    with monkeypatch.context() as refused:
        refused.setattr(os, "killpg", lambda *_: None)
        process.end(KILL_STEPS)
        first = process._ending
        process.end(KILL_STEPS)
        assert process._ending is first
    os.kill(process.pid, signal.SIGKILL)
    await process.wait_for_end()
    process.close_pipes()


_UNKILLABLE = """
import sys
if "gmg_tui.engine" in sys.orig_argv:
    import os
    from gmg_tui.machine import processes
    os.killpg = lambda *_: None
    processes.send_signal = lambda *_: False
"""


@pytest.mark.slow
async def test_a_session_ends_despite_a_process_stuck_in_the_kernel(tmp_path: Path) -> None:
    """As in the state D, waiting for a driver or a network disk."""
    (tmp_path / "sitecustomize.py").write_text(_UNKILLABLE)
    script = tmp_path / "stays.py"
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    spec = spec_for(script=str(script), probe=False)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        worker = await run.until_state("cpu0", WorkerState.RUNNING)
        stays = psutil.Process(worker.pid)
        try:
            await run.client.end(kill=True)
            await run.until(lambda snapshot: snapshot.ended)
            assert run.worker("cpu0").state is FAILED
            assert f"survives SIGKILL: process {stays.pid}" in (run.worker("cpu0").reason or "")
            await run.leave()
            assert await run.process.wait() == 0
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):  # the watchdog has ended it
                stays.kill()


_HANGING_ENV = """#!/bin/sh
sleep 600
"""


@pytest.mark.parametrize("action", [Action.STOP, Action.KILL])
async def test_a_hung_working_directory_stops_neither_the_engine_nor_a_kill(tmp_path: Path, action: Action) -> None:
    hanging = tmp_path / "env"
    hanging.write_text(_HANGING_ENV)
    hanging.chmod(0o755)
    async with running(spec_for(cpu=1), {"PATH": f"{tmp_path}:{os.environ['PATH']}"}) as run:
        await run.until(lambda _: run.worker("cpu0").reason == f"for the working directory {run.spec.cwd}")
        assert run.worker("cpu0").state is WAITING
        await run.client.act(action, "cpu0")
        await run.until_state("cpu0", STOPPED)


async def test_a_worker_that_calls_itself_env_does_not_wait_for_its_working_directory(tmp_path: Path) -> None:
    (script := tmp_path / "script.py").write_text("""
import ctypes, time
ctypes.CDLL(None).prctl(15, b"env")  # PR_SET_NAME
for number in range(100):
    print("line", number, flush=True)
    time.sleep(0.1)
time.sleep(600)
""")
    async with running(spec_for(script=str(script))) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines >= 100)
        assert run.worker("cpu0").state is WorkerState.RUNNING


async def test_a_working_directory_that_is_gone_is_named_and_no_folder_of_the_probe_stays(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = tmp_path / "stays.py"
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")

    def folders() -> list[Path]:
        return list(Path(os.environ["XDG_RUNTIME_DIR"]).rglob("gmg-probe-*"))

    async with running(spec_for(script=str(script), cwd=str(gone))) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        gone.rmdir()
        await run.client.act(Action.RESTART, "cpu0")
        failed = await run.until_state("cpu0", FAILED)
        assert failed.reason == f"{gone} is missing"
        await eventually(lambda: not folders())


_BUILDS = """
import os, sys, time
def mark(text): open(sys.argv[1], "a").write(f"{text} {os.environ['GMG_SLOT']}\\n")
def genesis(text): print(f"[Genesis] [12:00:00] [INFO] {text}", flush=True)
genesis("Running on [CPU] with backend gs.cpu. Device memory: 1 GB.")
genesis("Scene <1> created.")
genesis("Building scene <1>...")
mark("builds")
while not os.path.exists(sys.argv[2]): time.sleep(0.02)
mark("built")
genesis("Compiling simulation kernels...")
"""


@pytest.mark.parametrize("crash", [False, True])
async def test_only_one_worker_builds_also_when_the_first_is_restarted_or_crashes(tmp_path: Path, crash: bool) -> None:
    script, marks, go = tmp_path / "builds.py", tmp_path / "marks", tmp_path / "go"
    script.write_text(_BUILDS)
    marks.touch()

    def builders() -> list[str]:
        return [line.split()[1] for line in marks.read_text().splitlines() if line.startswith("builds")]

    async with running(spec_for(str(marks), str(go), script=str(script), cpu=3, probe=False)) as run:
        await eventually(lambda: builders() == ["cpu0"])
        if crash:
            os.kill(await run.pid("cpu0"), signal.SIGKILL)
        else:
            await run.client.act(Action.RESTART, "cpu0")
        await eventually(lambda: builders() == ["cpu0", "cpu1"])
        await run.until(lambda _: "for cpu1 to write the mesh caches" in (run.worker("cpu2").reason or ""))
        assert builders() == ["cpu0", "cpu1"]
        go.touch()
        await run.until(lambda snapshot: snapshot.ended)
        assert set(builders()) == {"cpu0", "cpu1", "cpu2"}


@pytest.mark.slow
@pytest.mark.parametrize("graceful", [False, True])
async def test_an_attempt_ended_because_it_was_stuck_says_so(tmp_path: Path, graceful: bool) -> None:
    script = tmp_path / "hang.py"
    handler = "signal.signal(signal.SIGINT, lambda *_: sys.exit(0))\n" if graceful else ""
    script.write_text(f"import signal, sys, time\nprint('up', flush=True)\n{handler}time.sleep(600)\n")
    spec = spec_for(
        script=str(script), probe=False, stuck_after_s=1.0, on={"stuck": AlertAction.RESTART}, max_restarts=1
    )
    texts: list[str] = []

    def stuck_texts(snapshot: Snapshot) -> list[str]:
        texts.extend(event.text for event in snapshot.occurred if event.alert == "stuck" and event.text not in texts)
        return texts

    async with running(spec) as run:
        await run.until(lambda snapshot: len(stuck_texts(snapshot)) == 2)
        assert [text.rpartition("; ")[2] for text in texts] == ["restarted by --on", "not restarted"]
        first, _ = (await run.client.details("cpu0")).attempts
        assert first.state is FAILED
        assert (first.reason or "").startswith("stuck: no output for ")


async def test_an_edited_job_is_a_row_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "score.py"
    script.write_text(
        "import json, sys, time\nfrom pathlib import Path\nwhile not Path(sys.argv[2]).exists(): time.sleep(0.02)\n"
        "print('gmg:result', json.dumps({'score': float(sys.argv[1])}))\n"
    )
    go = tmp_path / "go"
    jobs = [{"x": 1, "y": 5}, {"x": 2, "y": 5}]
    async with running(sweep_for(jobs, program("{x}", str(go), "{y}", script=str(script)), cpu=1)) as run:
        await run.until(lambda _: run.worker("cpu0").pid)
        await run.client.edit(("cpu0",), ("99", str(go), "{y}"), {})
        await run.until(lambda _: run.worker("cpu0").job == 3)
        go.touch()
        await run.until_done()
        records = {record.number: record for record in await run.client.queue(0, 9)}
    assert {number: record.state for number, record in records.items()} == {1: STOPPED, 2: FINISHED, 3: FINISHED}
    assert records[1].reason == "edited: continues as job 3"
    assert (records[3].edited_from, records[3].name) == (1, "job-1-edit3")
    assert records[3].values == {"y": 5}, "its x is 99, which no report may compare as 1"


async def test_a_stop_right_after_a_restart_counts(tmp_path: Path) -> None:
    """Both may be read at once, before the next attempt begins."""
    script = tmp_path / "second.py"
    script.write_text("import os, time\nif os.environ['GMG_ATTEMPT'] == '2': time.sleep(600)\n")
    async with running(spec_for(script=str(script), probe=False)) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await asyncio.gather(run.client.act(Action.RESTART, "cpu0"), run.client.act(Action.STOP, "cpu0"))
        await run.until_state("cpu0", STOPPED)


_SIGNALLED_LAST = """
import sys
if "gmg_tui.engine" in sys.orig_argv:
    import os, signal
    from gmg_tui.engine.output.logs import LogWriter
    close = LogWriter.close
    def signalled(writer):
        os.kill(os.getpid(), signal.SIGTERM)
        close(writer)
    LogWriter.close = signalled
"""


async def test_a_second_signal_while_the_engine_exits_does_not_kill_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_SIGNALLED_LAST)
    async with running(spec_for("--lines", "0"), {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        run.process.terminate()
        assert await run.process.wait() == 0


_SEIZE = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
print(libc.ptrace(0x4206, int(sys.argv[1]), 0, 0), flush=True)  # PTRACE_SEIZE
time.sleep(600)
"""


@pytest.mark.parametrize("kill", [False, True], ids=["which quits", "for ever"])
async def test_the_engine_goes_on_while_a_debugger_holds_a_worker_that_has_ended(kill: bool) -> None:
    """Its parent, the engine, cannot wait for it before the debugger has."""
    async with running(spec_for("--lines", "1000000", cpu=2, restart=RestartMode.NEVER)) as run:
        await run.until(lambda _: run.worker("cpu0").pid and run.worker("cpu1").pid)
        pid = run.worker("cpu0").pid
        assert pid is not None
        pipe = asyncio.subprocess.PIPE
        debugger = await asyncio.create_subprocess_exec(sys.executable, "-c", _SEIZE, str(pid), stdout=pipe)
        assert debugger.stdout is not None
        if await debugger.stdout.readline() != b"0\n":
            pytest.skip("this machine allows no ptrace")
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        await run.client.act(Action.STOP, "cpu1")
        await run.until_state("cpu1", STOPPED)
        if kill:
            await run.client.act(Action.KILL, "cpu0")
            failed = await run.until_state("cpu0", FAILED)
            assert failed.reason == f"survives SIGKILL: process {pid} (state Z); held by a debugger"
        debugger.kill()
        failed = await run.until_state("cpu0", FAILED)
        assert failed.newest.exit_code == (None if kill else -signal.SIGKILL)
        await debugger.wait()
