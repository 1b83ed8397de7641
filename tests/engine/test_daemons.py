"""Scripts that become daemons, and daemons that scripts leave behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from gmg_tui.model import WorkerState
from gmg_tui.protocol import Action

from .harness import Running, lives, running, spec_for

FORKS = """
import os, pathlib, sys, time
for _ in range(2):
    if os.fork():
        os._exit(0)
    if os.getsid(0) != os.getpid():
        os.setsid()
print("daemon", os.getpid(), flush=True)
try:
    while not pathlib.Path(sys.argv[1]).exists():
        print("step", flush=True)
        time.sleep(0.1)
except KeyboardInterrupt:
    print("saved", flush=True)
print("the end", flush=True)
sys.exit(int(sys.argv[2]))
"""
"""A script that forks twice, and prints until there is a file."""

LEAVES = """
import os, subprocess, sys, pathlib, time
pid = sys.argv[1] + "/" + os.environ["GMG_SLOT"]
note = 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 300'
if os.environ["GMG_SLOT"] == "cpu0":
    subprocess.run(["setsid", "-f", "env", "-i", "/bin/sh", "-c", note, pid], stdout=-3, stderr=-3)
    while not pathlib.Path(pid).exists():
        time.sleep(0.02)
while os.environ["GMG_SLOT"] == "cpu1":
    time.sleep(0.1)
"""
"""On the first slot: starts a daemon with an environment of its own, and ends. On the second: runs for ever."""


async def _until_it_goes_on(run: Running) -> None:
    await run.client.follow("cpu0", tail=100)
    await run.until_lines("cpu0", lambda lines: any(line.startswith("daemon") for line in lines.values()))
    (said,) = (line for line in run.lines["cpu0"].values() if line.startswith("daemon"))
    goes_on = f"its first process ended; PID {said.split()[1]} goes on"
    await run.until(lambda _: goes_on in run.worker("cpu0").warnings)
    assert run.worker("cpu0").state.live
    assert run.worker("cpu0").pid == int(said.split()[1])


@pytest.mark.parametrize(("code", "state"), [(0, WorkerState.FINISHED), (3, WorkerState.FAILED)])
async def test_a_script_that_has_forked_twice_is_the_worker_until_it_ends(
    tmp_path: Path, code: int, state: WorkerState
) -> None:
    script, end = tmp_path / "forks.py", tmp_path / "end"
    script.write_text(FORKS)
    async with running(spec_for(str(end), str(code), script=str(script))) as run:
        await _until_it_goes_on(run)
        end.touch()
        ended = await run.until_state("cpu0", state)
        assert ended.exit_code == code
        assert ended.warnings == ()
        assert run.output("cpu0").endswith(b"the end\n")


async def test_stopping_a_script_that_has_forked_twice_gives_it_time_to_save(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    spec = spec_for(str(tmp_path / "never"), "0", script=str(script), sigint_wait_s=30.0)
    async with running(spec) as run:
        await _until_it_goes_on(run)
        await run.client.act(Action.STOP, "cpu0")
        await run.until_state("cpu0", WorkerState.STOPPED)
        assert run.output("cpu0").endswith(b"saved\nthe end\n")


async def test_a_daemon_that_is_idle_for_long_is_not_waited_for(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS.replace('print("step", flush=True)', "time.sleep(60)"))
    spec = spec_for(str(tmp_path / "never"), "0", script=str(script), stuck_after_s=2.0)
    async with running(spec) as run:
        finished = await run.until_state("cpu0", WorkerState.FINISHED)
        assert "ended 1 process that the script left behind" in finished.warnings


async def test_a_daemon_without_a_mark_ends_with_the_only_job_that_can_have_started_it(tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(LEAVES)
    async with running(spec_for(str(tmp_path), script=str(script))) as run:
        finished = await run.until_state("cpu0", WorkerState.FINISHED)
        assert finished.warnings == ("ended 1 process that the script left behind",)
        assert not lives(int((tmp_path / "cpu0").read_text()))


async def test_a_daemon_without_a_mark_ends_with_the_last_job_that_can_have_started_it(tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(LEAVES)
    async with running(spec_for(str(tmp_path), script=str(script), cpu=2)) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        pid = int((tmp_path / "cpu0").read_text())
        assert lives(pid)
        await run.client.act(Action.STOP, "cpu1")
        await run.until_state("cpu1", WorkerState.STOPPED)
        assert not lives(pid)


async def test_a_daemon_without_a_mark_ends_with_the_session(tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(LEAVES)
    async with running(spec_for(str(tmp_path), script=str(script), cpu=2)) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        pid = int((tmp_path / "cpu0").read_text())
        run.process.send_signal(signal.SIGTERM)
        await run.process.wait()
        assert not lives(pid)
