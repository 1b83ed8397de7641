"""The disk is full, folders are removed under the running engine, and the clock jumps."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.client import EngineClient
from gmg_tui.model import RestartMode, Snapshot, WorkerState
from gmg_tui.protocol import Action
from gmg_tui.store.reader import load_jobs
from tests.engine.harness import Running, job_batch, running, spawn, spec_for, sweep_for

from .patience import eventually

STEPS = ("--plain", "--phase-s", "0")
"""The worker prints `step 0`, `step 1` …"""


def _steps(output: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"^step (\d+)$", output, re.MULTILINE)]


def _differs(time_s: float, by_s: float, snapshot: Snapshot) -> bool:
    """Whether the snapshot's wall-clock time lies further than `by_s` from `time_s`."""
    return abs(snapshot.time - time_s) > by_s


def _last_stamp(stamps: Path) -> int:
    """How many lines the worker has printed."""
    whole = stamps.read_text().rpartition("\n")[0]
    return int(whole.rpartition("\n")[2].split()[0])


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 1 MiB and 500 files with the state folder on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=500", "gmg-tui-test", str(folder)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        pytest.skip(f"no file system of its own can be mounted: {done.stderr.strip()}")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill_with_files(folder: Path) -> None:
    """Take all that a small file system has: its bytes, and the places for further files."""
    folder.mkdir()
    _fill(folder / "bytes")
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (folder / str(number)).touch()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.slow
async def test_a_full_disk_costs_no_worker_a_line_of_its_time_and_what_is_missing_is_counted(small_disk: Path) -> None:
    count = 3000
    async with running(spec_for(*STEPS, "--lines", str(count), "--rate", "250")) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines > 100)
        _fill(small_disk / "filler")
        full = await run.until(lambda snapshot: "No space left" in " ".join(run.worker("cpu0").warnings))
        (small_disk / "filler").unlink()
        await run.until(lambda _: not run.worker("cpu0").warnings)
        assert run.worker("cpu0").log_lines > full.workers[0].log_lines
        finished = await run.until_state("cpu0", WorkerState.FINISHED)
        assert finished.log_lines == count
        await run.until(lambda snapshot: snapshot.notes == ())
        output = run.output("cpu0")
        gaps = re.findall(rb"\n\[gmg-tui\] [\d,]+ bytes are missing here[^\n]*\n", output)
        missing = sum(int(re.sub(rb"\D", b"", gap.split(b" bytes")[0])) for gap in gaps)
        assert missing > 0
        printed = sum(len(f"step {number}\n") for number in range(count))
        assert len(output) - sum(map(len, gaps)) + missing == printed


async def _is_itself_again(run: Running) -> None:
    """The session is found, and its engine answers."""
    found = sessions.find(run.spec.name, running=True)
    assert found.state == "running"
    client = await EngineClient.connect(Path(found.record.session.spec.socket))
    await client.close()


async def test_a_state_folder_that_is_removed_comes_back_and_the_log_goes_on_where_it_went(tmp_path: Path) -> None:
    stamps = tmp_path / "stamps"
    spec = spec_for(*STEPS, "--lines", "0", "--rate", "200", "--stamp", str(stamps))
    async with running(spec) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines > 100)
        # Moved first: the engine may write into a folder while it is being removed.
        shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]).rename(tmp_path / "removed"))
        printed = _last_stamp(stamps)
        await run.until(lambda snapshot: any("removed" in note for note in snapshot.notes))
        await eventually(lambda: (run.folder / sessions.RECORD).exists())
        await _is_itself_again(run)
        assert stat.S_IMODE(run.folder.stat().st_mode) == 0o700
        await run.until(lambda _: run.worker("cpu0").log_lines > printed + 100)
        await run.client.act(Action.STOP, "cpu0")
        stopped = await run.until_state("cpu0", WorkerState.STOPPED)
        assert stopped.attempt == 1
        steps = _steps(run.output("cpu0"))
        assert steps == list(range(steps[0], _last_stamp(stamps)))
        assert steps[0] <= printed
        await run.leave()
        await run.process.wait()
        assert run.record().ended is not None


async def test_a_log_that_is_deleted_begins_anew() -> None:
    async with running(spec_for(*STEPS, "--lines", "0", "--rate", "200")) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines > 100)
        log = run.folder / sessions.LOGS / "cpu0.log"
        log.unlink()
        await eventually(log.exists)
        await eventually(lambda: len(_steps(run.output("cpu0"))) > 50)


async def test_a_runtime_folder_that_goes_with_the_last_login_has_the_socket_again_after_the_next() -> None:
    runtime = Path(os.environ["XDG_RUNTIME_DIR"])
    async with running(spec_for("--lines", "0")) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        shutil.rmtree(runtime)
        moment = run.snapshot.time
        await run.until(lambda snapshot: snapshot.time > moment + 2)  # who is connected stays so
        assert not runtime.exists()
        runtime.mkdir(mode=0o700)
        socket = Path(run.spec.socket)
        await eventually(socket.is_socket)
        await _is_itself_again(run)
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        await run.client.act(Action.KILL, "cpu0")
        await run.until_state("cpu0", WorkerState.STOPPED)
        await run.leave()
        await run.process.wait()
        assert not socket.exists()


@pytest.mark.parametrize("lost", ["state", "runtime"])
async def test_a_folder_that_is_missing_at_the_start_is_said_in_one_line(lost: str) -> None:
    spec = spec_for("--lines", "0")
    shutil.rmtree(spec.folder if lost == "state" else os.environ["XDG_RUNTIME_DIR"])
    process, said = await spawn(spec)
    await process.wait()
    assert said["ok"] is False
    assert ("was removed meanwhile" if lost == "state" else "No such file or directory") in said["error"]
    assert "\n" not in said["error"]


def test_without_a_runtime_folder_a_session_has_its_socket_elsewhere() -> None:
    with tempfile.TemporaryDirectory(prefix="gmg-") as temporary:
        env = {**os.environ, "XDG_RUNTIME_DIR": "/nowhere/at/all", "TMPDIR": temporary}
        gmg = (sys.executable, "-m", "gmg_tui")
        fake = str(Path(__file__).parents[1] / "fake_worker.py")
        start = [*gmg, "--cpu", "1", "--name", "far", "--detach", fake, "--lines", "0"]
        subprocess.run(start, env=env, check=True, capture_output=True)
        (folder,) = Path(temporary).glob("gmg-tui-*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        stopped = subprocess.run([*gmg, "stop", "far"], env=env, capture_output=True, text=True)
        assert stopped.returncode == 0, stopped.stderr


@pytest.fixture(scope="session")
def clock_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What makes a program's clock jump."""
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock_sim.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(source)], check=True)
    return library


@pytest.mark.slow
async def test_a_clock_that_jumps_moves_no_duration_and_no_wait(clock_library: Path, tmp_path: Path) -> None:
    day_s = 86_400
    offset = tmp_path / "offset"
    offset.write_text("0")
    spec = spec_for("--lines", "0", restart=RestartMode.ALWAYS, max_restarts=2)
    # By its name: LD_PRELOAD splits at the spaces that a temporary folder may have in its path.
    env = {"LD_LIBRARY_PATH": str(clock_library.parent), "LD_PRELOAD": clock_library.name}
    async with running(spec, env | {"GMG_CLOCK_SIM": str(offset)}) as run:
        for jump_s, attempt in ((day_s, 1), (-day_s, 2)):
            await run.until_attempt("cpu0", attempt)
            await run.until(lambda _: run.worker("cpu0").fps)
            before_s = run.snapshot.time
            offset.write_text(str(jump_s))
            jumped = await run.until(partial(_differs, before_s, day_s / 2))
            assert jumped.workers[0].attempt == attempt
            psutil.Process(jumped.workers[0].pid).kill()
            waiting = await run.until_state("cpu0", WorkerState.RESTARTING)
            assert waiting.restart_at is not None
            assert -1 <= waiting.restart_at - run.snapshot.time < 10
        await run.until_attempt("cpu0", 3)
        last = await run.until_state("cpu0", WorkerState.RUNNING)
        psutil.Process(last.pid).kill()
        snapshot = await run.until(lambda snapshot: snapshot.ended)
        assert 0 < snapshot.elapsed_s < 120
        assert all(0 <= snapshot.time - worker.state_since < 120 for worker in snapshot.workers)
        details = await run.client.details("cpu0")
        assert [0 < (one.ended or 0) - one.started < 120 for one in details.attempts] == [True] * 3
        series = await run.client.series("cpu0")
        assert len(series.fps) < 120


async def test_a_sweep_waits_while_the_disk_is_full_and_no_job_is_lost(small_disk: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    batch = job_batch("--marks", str(marks), "--s", "0.5", "--value", "{x}")
    async with running(sweep_for([{"x": n} for n in range(4)], batch, cpu=1, cwd=str(tmp_path))) as run:
        await run.until(lambda s: s.queue and s.queue.finished == 1)
        _fill_with_files(small_disk / "filler")
        waiting = await run.until(lambda s: "No space left on device" in (s.workers[0].reason or ""))
        assert waiting.queue is not None
        assert waiting.queue.failed == 0
        shutil.rmtree(small_disk / "filler")
        queue = await run.until_done()
        assert queue.finished == 4
    records = load_jobs(run.folder / sessions.STORE)
    assert {record.state for record in records} == {WorkerState.FINISHED}
    assert len((run.folder / "summary_results.csv").read_text().splitlines()) == 5
    assert len(list(marks.iterdir())) == 4
