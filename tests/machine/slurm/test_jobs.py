"""A session in a job of a real Slurm: the time that it has left, and the guide's batch script."""

import os
import re
import sys
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.model import WorkerState
from gmg_tui.session.store import reader
from tests.cli.scripted import COMMAND
from tests.patience import wait_until
from tests.session.store.records import jobs_so_far

from .cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("slurm")]

_TESTS = Path(__file__).parents[2]
_WAITS = """
import pathlib, sys, time
from torch.serialization import save
save(b"state", sys.argv[1] + ".pt")
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
"""
_STEADY = ("--lines", "240", "--fps", "24000", "--steady", "-B", "4096")


def test_a_session_reports_the_time_left_of_its_job(slurm: Cluster, tmp_path: Path) -> None:
    worker = (*COMMAND, "--headless", "--cpu", "1", str(_TESTS / "fake_worker.py"), *_STEADY)
    printed = slurm.ask("srun", "--ntasks=1", "--time=5", "--chdir", str(tmp_path), *worker)
    left = re.search(r"Slurm \d+: (\d):\d\d left", printed)
    assert left is not None, printed
    assert int(left[1]) < 5


def test_the_guides_batch_script_continues_a_sweep_when_slurm_requeues_it(
    slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (_TESTS.parent / "gmg_tui" / "guide" / "many-machines.md").read_text()
    file = tmp_path / "sweep.sbatch"
    file.write_text(guide.split("```bash\n", 1)[1].split("```", 1)[0])
    go = tmp_path / "go"
    script = tmp_path / "waits.py"
    script.write_text(_WAITS)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/serialization.py").write_text("def save(obj, f): open(f, 'wb').write(obj)\n")
    done = tmp_path / "done"
    done.touch()
    (tmp_path / "sweep.toml").write_text(
        f"script = {str(script)!r}\nargs = ['{{file}}']\nresume_args = '--from {{checkpoint}}'\n[grid]\nfile = [{str(done)!r}, {str(go)!r}]\n"
    )
    settings = Path(os.environ["XDG_CONFIG_HOME"], "gmg-tui", "config.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text("cpu = 1\n")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    number = slurm.ask("sbatch", "--parsable", "--chdir", str(tmp_path), str(file)).strip()
    name = f"sweep-{number}"
    store = session.sessions_folder() / name / session.STORE

    def states() -> list[WorkerState]:
        return [job.state for job in jobs_so_far(store)]

    wait_until(lambda: states()[:1] == [WorkerState.FINISHED] and states()[1].live)
    wait_until(Path(f"{go}.pt").exists)
    slurm.ask("scontrol", "requeue", number)
    wait_until(lambda: "PENDING" in slurm.ask("squeue", "-h", "-o", "%T", "-j", number))
    go.touch()
    slurm.ask("scontrol", "update", f"JobId={number}", "StartTime=now")  # it waits for two minutes by itself
    wait_until(lambda: states() == [WorkerState.FINISHED] * 2)
    wait_until(lambda: not slurm.ask("squeue", "-h", "-j", number).strip())
    with reader.open_store(store) as stored:
        assert len(stored.attempts[1]) == 1, "a finished job is not run again"
        before, after = (ran.attempt for ran in stored.attempts[2])
    assert (before.continued_from, after.continued_from) == (None, f"{go}.pt")
    assert after.args == (str(go), "--from", f"{go}.pt")
