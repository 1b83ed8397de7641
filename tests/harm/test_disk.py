"""The disk is full or does not answer, folders are removed under the running engine, and the clock jumps."""

import asyncio
import contextlib
import itertools
import json
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
from gmg_tui.model import AlertAction, JobRecord, RestartMode, Snapshot, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Action
from gmg_tui.session.store.reader import load_jobs, open_store
from tests.cli.scripted import COMMAND, environ, gmg
from tests.disks import as_root, fill, mounted
from tests.engine.harness import FAKE, Running, program, running, spawn, spec_for, sweep_for
from tests.patience import LONG_S, eventually
from tests.workers import texts

from .sessions import steps_in, written

STEPS = ("--plain", "--phase-s", "0", "--lines", "0", "--rate", "200")
"""The worker prints `step 0`, `step 1` …, until it is ended."""
SILENT = "the disk does not answer"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for a file system with the state folder on it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(disk / "state"))
    return disk


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 1 MiB and 500 files with the state folder on it."""
    with mounted(folder, "-t", "tmpfs", "-o", "size=1m,nr_inodes=500", "gmg-tui-test") as disk:
        yield disk


@pytest.fixture
def disk(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A file system that can be frozen, with the state folder on it."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    as_root("mkfs.ext4", "-q", str(image))
    with mounted(folder, "-o", "loop", str(image)) as disk:
        yield disk


@contextlib.contextmanager
def _frozen(disk: Path) -> Iterator[None]:
    """Whoever writes to it meanwhile waits, as on a network file system without its server."""
    as_root("fsfreeze", "--freeze", str(disk))
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(disk)], check=True)


def _fill_with_files(folder: Path) -> None:
    """Take all that a small file system has: its bytes, and the places for further files."""
    folder.mkdir()
    fill(folder / "bytes")
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (folder / str(number)).touch()


@pytest.mark.slow
async def test_a_full_disk_delays_no_worker_and_missing_bytes_are_counted(small_disk: Path) -> None:
    count = 3000
    async with running(spec_for(*STEPS, "--lines", str(count))) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines > 100)
        fill(small_disk / "filler")
        full = await run.until(lambda s: "No space left" in " ".join(texts(s.workers[0].alerts)))
        (small_disk / "filler").unlink()
        await run.until(lambda s: not s.workers[0].alerts)
        assert run.worker("cpu0").log_lines > full.workers[0].log_lines
        finished = await run.until_state("cpu0", WorkerState.FINISHED)
        assert finished.log_lines == count
        await run.until(lambda snapshot: snapshot.alerts == ())
        output = run.output("cpu0")
        gaps = re.findall(rb"\n\[gmg-tui\] [\d,]+ bytes are missing here[^\n]*\n", output)
        missing = sum(int(re.sub(rb"\D", b"", gap.split(b" bytes")[0])) for gap in gaps)
        assert missing > 0
        printed = sum(len(f"step {number}\n") for number in range(count))
        assert len(output) - sum(map(len, gaps)) + missing == printed


async def test_a_session_that_ends_while_the_disk_is_full_is_not_lost(small_disk: Path) -> None:
    async with running(spec_for(*STEPS)) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        _fill_with_files(small_disk / "filler")
        await run.client.act(Action.STOP, "cpu0")
        waiting = await run.until(lambda snapshot: "waiting up to 5 min" in " ".join(texts(snapshot.alerts)))
        assert waiting.is_saving
        await run.client.end(kill=True)
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
        entry = sessions.inspect(run.folder)
        assert (entry.state, entry.record.workers[0].state) == ("ended", "stopped")
        (report,) = json.loads(gmg("report", run.spec.name, "--json").stdout)["jobs"]
        assert report["state"] == "stopped"


async def _answers(run: Running) -> None:
    """The session is listed, and its engine answers."""
    entry = sessions.find(run.spec.name, running=True)
    client = await EngineClient.connect(Path(entry.record.session.spec.socket))
    await client.close()


async def test_a_removed_state_folder_is_recreated_and_the_log_continues(tmp_path: Path) -> None:
    stamps = tmp_path / "stamps"
    async with running(spec_for(*STEPS, "--stamp", str(stamps))) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines > 100)
        # Moved first: the engine may write into a folder while it is being removed.
        shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]).rename(tmp_path / "removed"))
        printed = written(stamps)
        await run.until(lambda snapshot: any("removed" in note for note in texts(snapshot.alerts)))
        await eventually(lambda: (run.folder / sessions.RECORD).exists())
        await _answers(run)
        assert stat.S_IMODE(run.folder.stat().st_mode) == 0o700
        await run.until(lambda _: run.worker("cpu0").log_lines > printed + 100)
        await run.client.act(Action.STOP, "cpu0")
        stopped = await run.until_state("cpu0", WorkerState.STOPPED)
        assert stopped.attempt == 1
        steps = steps_in(run.output("cpu0"))
        assert steps == list(range(steps[0], written(stamps)))
        assert steps[0] <= printed
        await run.leave()
        await run.process.wait()
        assert run.record().ended is not None


async def test_a_renamed_engine_log_is_recreated_and_locked() -> None:
    async with running(spec_for("--lines", "0")) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        log = run.folder / sessions.ENGINE_LOG
        log.rename(log.with_suffix(".old"))
        await eventually(lambda: sessions.is_locked(run.folder))
        await _answers(run)
        await run.client.act(Action.KILL, "cpu0")
        await run.leave()


def _is_private(folder: Path) -> bool:
    return stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_rights_to_the_session_folder_that_a_script_takes_are_restored() -> None:
    async with running(spec_for(*STEPS)) as run:
        for folder in (run.folder / sessions.LOGS, run.folder):
            for _ in range(2):
                folder.chmod(0)
                await eventually(partial(_is_private, folder))
            told = [line for line in (run.folder / sessions.ENGINE_LOG).read_text().splitlines() if "rights" in line]
            assert len(told) == 1


async def test_what_a_script_puts_in_place_of_the_record_is_replaced() -> None:
    """Without a record the session is not found, and cannot be stopped."""
    async with running(spec_for(*STEPS)) as run:
        record = run.folder / sessions.RECORD
        for put in (os.mkfifo, os.mkdir, partial(os.symlink, "/dev/null")):
            record.unlink()
            put(record)
            await eventually(lambda: not record.is_symlink() and record.is_file())
        assert sessions.find(run.folder.name, running=True).folder == run.folder


async def test_a_deleted_log_is_recreated() -> None:
    async with running(spec_for(*STEPS)) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines > 100)
        log = run.folder / sessions.LOGS / "cpu0.log"
        log.unlink()
        await eventually(log.exists)
        await eventually(lambda: len(steps_in(run.output("cpu0"))) > 50)


async def test_the_socket_is_recreated_after_the_runtime_folder_was_removed_at_logout() -> None:
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
        await _answers(run)
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        await run.client.act(Action.KILL, "cpu0")
        await run.until_state("cpu0", WorkerState.STOPPED)
        await run.leave()
        await run.process.wait()
        assert not socket.exists()


@pytest.mark.parametrize("lost", ["state", "runtime"])
async def test_a_folder_that_is_missing_at_the_start_is_reported_in_one_line(lost: str) -> None:
    spec = spec_for("--lines", "0")
    shutil.rmtree(spec.folder if lost == "state" else os.environ["XDG_RUNTIME_DIR"])
    _, answer = await spawn(spec)
    assert answer["ok"] is False
    assert ("has been removed" if lost == "state" else "No such file or directory") in answer["error"]
    assert "\n" not in answer["error"]


def test_without_a_runtime_folder_the_socket_is_elsewhere() -> None:
    with tempfile.TemporaryDirectory(prefix="gmg-") as temporary:
        env = {**os.environ, "XDG_RUNTIME_DIR": "/nowhere/at/all", "TMPDIR": temporary}
        gmg = (sys.executable, "-m", "gmg_tui")
        start = [*gmg, "--cpu", "1", "--name", "far", "--detach", FAKE, "--lines", "0"]
        subprocess.run(start, env=env, check=True, capture_output=True)
        (folder,) = Path(temporary).glob("gmg-tui-*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        stopped = subprocess.run([*gmg, "stop", "far"], env=env, capture_output=True, text=True)
        assert stopped.returncode == 0, stopped.stderr


def _differs(time_s: float, by_s: float, snapshot: Snapshot) -> bool:
    return abs(snapshot.time - time_s) > by_s


_HUNG_SCRIPT = """
import sys
if "gmg_tui.engine" in sys.orig_argv:
    import pathlib, threading
    read = pathlib.Path.read_text
    def reads(path, *args, **more):
        if path.suffix == ".py":
            threading.Event().wait()
        return read(path, *args, **more)
    pathlib.Path.read_text = reads
"""


async def test_workers_are_watched_while_the_disk_of_their_script_hangs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_HUNG_SCRIPT)
    environ = {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
    async with running(spec_for("--hang", "importing", stuck_after_s=1.0), environ) as run:
        await run.until(lambda _: run.worker("cpu0").alert("stuck"))


@pytest.fixture
def clock(tmp_path: Path) -> dict[str, str]:
    """An environment in which a program's wall clock is off by the seconds in the file `GMG_CLOCK_SIM`."""
    library, offset = tmp_path / "lib" / "clock.so", tmp_path / "offset"
    library.parent.mkdir()
    offset.write_text("0")
    source = Path(__file__).with_name("clock_sim.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(source)], check=True)
    # By its name: LD_PRELOAD splits at the spaces that a temporary folder may have in its path.
    return {"LD_LIBRARY_PATH": str(library.parent), "LD_PRELOAD": library.name, "GMG_CLOCK_SIM": str(offset)}


@pytest.mark.slow
async def test_clock_jumps_do_not_affect_durations_and_waits(clock: dict[str, str]) -> None:
    day_s = 86_400
    spec = spec_for("--lines", "0", restart=RestartMode.ALWAYS, max_restarts=2)
    async with running(spec, clock) as run:
        for jump_s, attempt in ((day_s, 1), (-day_s, 2)):
            await run.until_attempt("cpu0", attempt)
            await run.until(lambda _: run.worker("cpu0").fps)
            before_s = run.snapshot.time
            Path(clock["GMG_CLOCK_SIM"]).write_text(str(jump_s))
            jumped = await run.until(partial(_differs, before_s, day_s / 2))
            assert jumped.workers[0].attempt == attempt
            psutil.Process(jumped.workers[0].pid).kill()
            waiting = await run.until_state("cpu0", WorkerState.RESTARTING)
            assert waiting.restart_at is not None
            assert abs(waiting.restart_at - run.snapshot.time) < day_s / 2
        await run.until_attempt("cpu0", 3)
        last = await run.until_state("cpu0", WorkerState.RUNNING)
        psutil.Process(last.pid).kill()
        snapshot = await run.until(lambda snapshot: snapshot.ended)
        attempts = (await run.client.details("cpu0")).attempts
        durations_s = [snapshot.elapsed_s, snapshot.time - snapshot.workers[0].state_since]
        durations_s += [(attempt.ended or 0) - attempt.started for attempt in attempts]
        assert len(durations_s) == 5
        assert all(0 <= duration_s < day_s / 2 for duration_s in durations_s)
        assert len((await run.client.series("cpu0")).fps) < day_s / 2


async def test_a_clock_that_is_set_forward_raises_no_alert_early(clock: dict[str, str], tmp_path: Path) -> None:
    """With `--on done=stop` it would end a script that is still saving."""
    (script := tmp_path / "saves.py").write_text(
        "import time\nprint('Training finished.', flush=True)\ntime.sleep(600)"
    )
    async with running(spec_for(script=str(script), on={"done": AlertAction.STOP}), clock) as run:
        seen = await run.until(lambda _: run.worker("cpu0").last_line)
        seen = await run.until(lambda snapshot: snapshot.time > seen.time + 3.0)
        Path(clock["GMG_CLOCK_SIM"]).write_text("3600")
        seen = await run.until(lambda snapshot: snapshot.time > seen.time + 3000.0)
        await run.until(lambda snapshot: snapshot.time > seen.time + 3.0)
        assert (run.worker("cpu0").state, run.worker("cpu0").alerts) == (WorkerState.RUNNING, ())


async def test_a_clock_that_is_set_back_does_not_stop_the_records(clock: dict[str, str]) -> None:
    hour_s = 3600

    def recorded() -> float:
        path = run.folder / sessions.STORE
        with open_store(path) as stored:
            return stored.last_snapshot.time if stored.last_snapshot is not None else 0.0

    async with running(spec_for("--lines", "0"), clock) as run:
        await run.until(lambda _: run.worker("cpu0").fps)
        await eventually(lambda: recorded())
        before_s = run.snapshot.time
        Path(clock["GMG_CLOCK_SIM"]).write_text(str(-hour_s))
        await eventually(lambda: recorded() < before_s - hour_s / 2)
        first_s = recorded()
        await eventually(lambda: recorded() > first_s)
        await run.client.end(kill=True)


async def test_a_sweep_goes_on_while_the_disk_is_full_and_no_job_is_lost(small_disk: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    batch = program("--marks", str(marks), "--s", "0.5", "--value", "{x}")
    async with running(sweep_for([{"x": n} for n in range(4)], batch, cpu=1, cwd=str(tmp_path))) as run:
        await run.until(lambda s: s.queue and s.queue.finished >= 1)
        _fill_with_files(small_disk / "filler")
        full = await run.until(lambda snapshot: snapshot.is_saving)
        assert full.queue is not None
        assert full.queue.finished == 4
        with pytest.raises(GmgError, match=r"cannot add jobs: .*store\.sqlite"):
            await run.client.add_jobs(JobRecord(0, "late", {"x": 9}))
        await run.leave()  # the engine waits without clients, too
        command = (*COMMAND, "stop", run.spec.name)
        stopping = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=environ())
        assert stopping.stderr is not None
        await stopping.stderr.readuntil(b"the results cannot be written: ")
        shutil.rmtree(small_disk / "filler")
        await stopping.communicate()
        assert stopping.returncode == 0
    records = load_jobs(run.folder / sessions.STORE)
    assert [record.state for record in records] == [WorkerState.FINISHED] * 4
    assert len((run.folder / "summary_results.csv").read_text().splitlines()) == 5
    assert len(list(marks.iterdir())) == 4


@pytest.mark.slow
async def test_a_hung_disk_blocks_neither_workers_nor_clients(disk: Path) -> None:
    async with running(spec_for(*STEPS)) as run:
        await run.until(lambda _: run.worker("cpu0").log_lines > 100)
        with _frozen(disk):
            silent = await run.until(lambda s: SILENT in " ".join(texts(s.workers[0].alerts)))
            await run.until(lambda s: s.workers[0].log_lines > silent.workers[0].log_lines + 100)
            await run.client.act(Action.RESTART, "cpu0")
            await run.until(lambda s: s.workers[0].attempt == 2 and s.workers[0].state is WorkerState.RUNNING)
            await run.until(lambda s: SILENT in " ".join(texts(s.alerts)))
        await run.until(lambda s: not s.workers[0].alerts and not s.alerts)
        await run.client.act(Action.STOP, "cpu0")
        stopped = await run.until_state("cpu0", WorkerState.STOPPED)
        first, second = map(steps_in, run.output("cpu0").split("──── gmg-tui".encode()))
        assert first == list(range(len(first)))
        assert second == list(range(len(second)))
        assert stopped.log_lines >= len(first) + len(second) > 300


@pytest.mark.slow
async def test_sigterm_ends_an_engine_with_an_unkillable_worker(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes to a disk that does not answer cannot be killed. The engine's own disk is another one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    script = tmp_path / "writes.py"
    script.write_text(
        "import os, time\nfrom pathlib import Path\n"
        f"while not Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.05)\n"
        f"os.open({str(disk / 'x')!r}, os.O_CREAT | os.O_WRONLY)\n"
    )
    async with running(spec_for(script=str(script), sigint_wait_s=0.2, sigterm_wait_s=0.2)) as run:
        worker = psutil.Process((await run.until(lambda s: s.workers[0].pid)).workers[0].pid)
        with _frozen(disk):
            (tmp_path / "go").touch()
            await eventually(lambda: worker.status() == psutil.STATUS_DISK_SLEEP)
            run.process.terminate()
            async with asyncio.timeout(LONG_S):
                assert await run.process.wait() == 0
