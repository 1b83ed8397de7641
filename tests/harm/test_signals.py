"""What Slurm, `timeout` and containers send: SIGUSR1 and 2 reach the scripts, SIGXCPU and SIGTERM end all in order."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from tests.engine.harness import Running, running, spec_for
from tests.patience import LONG_S, eventually, wait_until
from tests.workers import texts

_SCRIPT = """
import os, signal, time
from pathlib import Path
here = Path(os.environ["HERE"])
def save(number, frame):
    with (here / f"{os.environ['GMG_SLOT']}-{number}").open("a") as file:
        file.write("saved\\n")
if os.environ["GMG_SLOT"] != "cpu1":
    signal.signal(signal.SIGUSR1, save)
    signal.signal(signal.SIGUSR2, save)
(here / f"{os.environ['GMG_SLOT']}-ready").touch()
try:
    while True:
        time.sleep(60)
except KeyboardInterrupt:
    save(2, None)
"""
SAVED = "saved\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that saves on SIGUSR1, SIGUSR2 and SIGINT; on `cpu1` on SIGINT alone."""
    monkeypatch.setenv("HERE", str(tmp_path))
    path = tmp_path / "saves.py"
    path.write_text(_SCRIPT)
    return path


def _saved(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("cpu?-[0-9]*"))}


async def _ready(run: Running, folder: Path, count: int) -> None:
    await eventually(lambda: len(list(folder.glob("*-ready"))) == count)
    await run.until(lambda s: all(worker.pid for worker in s.workers))


def _headless(script: Path, folder: Path) -> subprocess.Popen[str]:
    """`gmg-tui --headless` with one worker, which is ready."""
    words = [sys.executable, "-m", "gmg_tui", "--headless", "--cpu", "1", str(script)]
    client = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (folder / "cpu0-ready").exists())
    return client


async def test_signals_are_forwarded_to_scripts_that_save_on_them(script: Path, tmp_path: Path) -> None:
    number = signal.SIGUSR1
    async with running(spec_for(script=str(script), cpu=3)) as run:
        await _ready(run, tmp_path, 3)
        processes = [psutil.Process(worker.pid) for worker in run.snapshot.workers]
        os.kill(run.process.pid, number)
        (note,) = texts((await run.until(lambda s: f"{number.name} received at " in " ".join(texts(s.alerts)))).alerts)
        assert note.endswith(": passed on to cpu0, cpu2")
        assert note in run.log()
        await eventually(lambda: _saved(tmp_path) == {f"cpu0-{number}": SAVED, f"cpu2-{number}": SAVED})
        assert all(process.is_running() for process in processes)
        assert {worker.attempt for worker in run.snapshot.workers} == {1}


async def test_a_signal_received_twice_is_forwarded_once(script: Path, tmp_path: Path) -> None:
    async with running(spec_for(script=str(script))) as run:
        await _ready(run, tmp_path, 1)
        for _ in range(2):
            os.kill(run.process.pid, signal.SIGUSR1)
            await asyncio.sleep(0.05)
        os.kill(run.process.pid, signal.SIGUSR2)
        await eventually(lambda: _saved(tmp_path).keys() >= {f"cpu0-{signal.SIGUSR2:d}"})
        assert _saved(tmp_path)[f"cpu0-{signal.SIGUSR1:d}"] == SAVED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGXCPU])
async def test_a_signal_that_ends_the_session_lets_workers_save_and_is_named(
    script: Path, tmp_path: Path, number: signal.Signals
) -> None:
    async with running(spec_for(script=str(script), cpu=2, sigint_wait_s=30.0)) as run:
        await _ready(run, tmp_path, 2)
        os.kill(run.process.pid, number)
        if number is signal.SIGXCPU:  # again each second of CPU time
            await run.until(lambda s: s.alerts)
            os.kill(run.process.pid, number)
        why = f"the session was ended by {number.name}"
        await run.until(lambda s: why in texts(s.alerts))
        assert await run.process.wait() == 0
        assert _saved(tmp_path) == {"cpu0-2": SAVED, "cpu1-2": SAVED}
        assert [(worker["state"], worker["reason"]) for worker in run.summary()["workers"]] == [("stopped", why)] * 2
        assert f"{number.name} received" in run.log()


def test_the_command_forwards_signals_and_stops_the_workers_on_sigxcpu(script: Path, tmp_path: Path) -> None:
    with _headless(script, tmp_path) as client:
        client.send_signal(signal.SIGUSR1)
        wait_until(lambda: _saved(tmp_path) == {f"cpu0-{signal.SIGUSR1:d}": SAVED})
        client.send_signal(signal.SIGXCPU)
        output, errors = client.communicate(timeout=LONG_S)
    assert (errors, client.returncode) == ("stopping the workers (ctrl+c again kills them)\n", 130)
    assert "SIGUSR1 received at " in output
    assert sessions.find(None, running=False).state == "ended"


def test_the_command_names_the_signal_that_ended_its_engine(script: Path, tmp_path: Path) -> None:
    with _headless(script, tmp_path) as client:
        os.kill(sessions.find(None, running=True).record.session.engine_pid, signal.SIGTERM)
        output, errors = client.communicate(timeout=LONG_S)
    assert (errors, client.returncode) == ("", 130)
    assert "cpu0  stopped" in output
    assert "\nthe session was ended by SIGTERM\n" in output
