"""Training jobs finish although they, their engine or both are killed at random moments."""

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session import STORE, find, sessions_folder
from gmg_tui.session.store import reader
from gmg_tui.session.store.database import StoreError
from tests.cli.scripted import COMMAND, in_process
from tests.patience import LONG_S, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = int(os.environ.get("GMG_TEST_KILLS", "5"))
JOBS, ITERATIONS = 6, 10 * KILLS
_TORCH = """
import io, time, zipfile

def save(obj, path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("data.pkl", obj)
    with open(path, "wb") as file:
        for at in range(0, len(content.getvalue()), 4096):
            file.write(content.getvalue()[at : at + 4096])
            file.flush()
            time.sleep(0.001)
"""
_SCRIPT = """
import os, pathlib, sys, time, zipfile
from torch.serialization import save

def iteration(path):
    with zipfile.ZipFile(path) as archive:
        return int(archive.read("data.pkl").split()[0])

def complete():
    for path in pathlib.Path(out).glob("*.pt"):
        try:
            yield iteration(path)
        except zipfile.BadZipFile:
            pass

out = os.environ["GMG_JOB_NAME"]
os.makedirs(out, exist_ok=True)
first = iteration(sys.argv[2]) + 1 if "--resume" in sys.argv else 0
with open(f"{out}/starts", "a") as file:
    print(first, max(complete(), default=-1) + 1, file=file)
for number in range(first, ITERATIONS):
    time.sleep(0.05)
    save(f"{number} ".encode() * 9000, f"{out}/model_{number}.pt")
    with open(f"{out}/iterations", "a") as file:
        print(number, file=file)
    print(f"iteration {number + 1}/ITERATIONS", flush=True)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A sweep of training jobs that resume from their checkpoints."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/serialization.py").write_text(_TORCH)
    (tmp_path / "train.py").write_text(_SCRIPT.replace("ITERATIONS", str(ITERATIONS)))
    path = tmp_path / "sweep.toml"
    path.write_text(
        f"script = 'train.py'\nresume_args = ['--resume', '{{checkpoint}}']\n[grid]\nnumber = {[*range(JOBS)]}\n"
    )
    return path


def _jobs() -> list[JobRecord]:
    with suppress(StoreError):
        return reader.load_jobs(sessions_folder() / "kills" / STORE)
    return []


def _is_training(pid: int) -> bool:
    """True if this process runs one of the test's jobs: the PID in a record may have been reused."""
    try:
        process = psutil.Process(pid)
        return any("train.py" in word for word in process.cmdline()) and process.environ().get("GMG_SESSION") == "kills"
    except psutil.Error:
        return False


def _starts(folder: Path) -> Iterator[tuple[int, int]]:
    for line in (folder / "starts").read_text().splitlines():
        first, best = line.split()
        yield int(first), int(best)


def test_killed_jobs_resume_from_their_newest_complete_checkpoints(file: Path) -> None:
    rng, killed, engines = random.Random(KILLS), list[list[int]](), 0
    options = ("--cpu", "2", "--restart", "failure", "--max-restarts", "1000")
    start = [*COMMAND, "sweep", "--headless", *options, "--name", "kills", str(file)]
    resume = [*COMMAND, "sweep", "--headless", *options, "--resume", "kills"]
    command = start
    while command:
        with subprocess.Popen(command, cwd=file.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            command, engine_dies = [], False
            while run.poll() is None and len(killed) < KILLS and not engine_dies:
                with suppress(subprocess.TimeoutExpired):
                    run.wait(rng.uniform(0.3, 1.5))
                live = [pid for job in _jobs() if job.state.live and (pid := job.last.pid) and _is_training(pid)]
                try:
                    engine = find("kills", running=True).record.session.engine_pid
                except GmgError:  # still starting, or just ended
                    continue
                if run.poll() is not None or not live:
                    continue
                what = rng.choice(("worker", "engine", "both"))
                engine_dies = what != "worker"
                pids = [engine] if engine_dies else []
                pids += [rng.choice(live)] if what != "engine" else []
                killed.append(pids)
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            run.wait(LONG_S * 10)
            if engine_dies:
                command, engines = resume, engines + 1
                wait_until(lambda: find("kills", running=False).state != "running")
    jobs = _jobs()
    assert len(jobs) == JOBS
    for job in jobs:
        # A worker that was killed after its script's end does not run again: below, its iterations must be complete.
        was_killed = job.state is WorkerState.FAILED and any(job.last.pid in pids for pids in killed)
        assert was_killed or (job.state, job.reason) == (WorkerState.FINISHED, None)
    assert killed
    lost = []
    for job in jobs:
        folder = file.parent / job.name
        done = [int(number) for number in (folder / "iterations").read_text().split()]
        assert sorted(set(done)) == list(range(ITERATIONS))
        assert done[-1] == ITERATIONS - 1
        lost += [best - first for first, best in _starts(folder)]
        assert all(first <= best for first, best in _starts(folder)), "resumed from an incomplete file"
    print(f"{len(killed)} kills, {engines} of the engine; iterations repeated at each start: {lost}")
    assert in_process("report", "kills").returncode == 0
