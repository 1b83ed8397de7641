"""A session in a job of a real Slurm: the time that it has left, and a file for sbatch that goes on when requeued."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.model import WorkerState
from gmg_tui.store import reader
from tests.harm.patience import wait_until
from tests.store.records import jobs_so_far

from .cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_TESTS = Path(__file__).parents[1]
_GMG = (sys.executable, "-m", "gmg_tui")
_STEADY = ("--lines", "240", "--fps", "24000", "--steady", "-B", "4096")


def test_what_slurm_and_a_job_say_can_be_told(slurm: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = slurm.ask("sbatch", "--parsable", "--wait", "--output", str(out), "--wrap", "echo a word of it").strip()
    told = slurm.told(tmp_path)
    assert "n1 idle" in told
    assert "a word of it" in told
    assert re.search(rf"slurmctld.log\n(.*\n)*.*JobId={job}\b", told)


def test_a_session_says_how_long_its_job_has_left(slurm: Cluster, tmp_path: Path) -> None:
    worker = (*_GMG, "--headless", "--cpu", "1", str(_TESTS / "fake_worker.py"), *_STEADY)
    said = slurm.ask("srun", "--ntasks=1", "--time=5", "--chdir", str(tmp_path), *worker)
    found = re.search(r"Slurm (\d+): (\d):\d\d left", said)
    assert found is not None, said
    assert int(found[2]) in (3, 4)


def test_a_session_in_a_job_without_a_limit_says_nothing_of_it(slurm: Cluster, tmp_path: Path) -> None:
    worker = (*_GMG, "--headless", "--cpu", "1", str(_TESTS / "fake_worker.py"), *_STEADY)
    said = slurm.ask("srun", "--ntasks=1", "--chdir", str(tmp_path), *worker)
    assert "24,000 FPS" in said
    assert "Slurm" not in said


@pytest.mark.parametrize(
    ("nodes", "options"),
    [((), ()), (("--nodes", "slurm"), ("--sbatch=--nodes=2", "--sbatch=--exclusive"))],
    ids=["here", "nodes"],
)
def test_a_sweep_that_is_requeued_goes_on_where_it_was(
    slurm: Cluster, tmp_path: Path, nodes: tuple[str, ...], options: tuple[str, ...]
) -> None:
    sweep = tmp_path / "points.toml"
    held = tmp_path / "go"
    script = tmp_path / "waits.py"
    script.write_text("import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists():\n    time.sleep(0.1)\n")
    sweep.write_text(
        f"script = {str(_TESTS / 'job.py')!r}\n[preset.quick]\n[preset.long]\nscript = {str(script)!r}\n"
        f"args = [{str(held)!r}]\n"
    )
    words = ("sweep", "--cpu", "1", *nodes, "--all", str(sweep))
    text = slurm.ask(*_GMG, "slurm-script", "--time=10", *options, *words)
    file = tmp_path / "job.sh"
    file.write_text(text)
    number = slurm.ask("sbatch", "--parsable", "--chdir", str(tmp_path), str(file)).strip()
    name = f"points-{number}"
    store = session.sessions_folder() / name / session.STORE

    def states() -> list[WorkerState]:
        return [job.state for job in jobs_so_far(store)]

    wait_until(lambda: states()[:1] == [WorkerState.FINISHED] and states()[1].live)
    assert slurm.ask("squeue", "-h", "-o", "%D", "-j", number).strip() == ("2" if nodes else "1")
    slurm.ask("scontrol", "requeue", number)
    wait_until(lambda: "PENDING" in slurm.ask("squeue", "-h", "-o", "%T", "-j", number))
    held.touch()
    slurm.ask("scontrol", "update", f"JobId={number}", "StartTime=now")  # it waits for two minutes by itself
    wait_until(lambda: states() == [WorkerState.FINISHED] * 2)
    wait_until(lambda: not slurm.ask("squeue", "-h", "-j", number).strip())
    with reader.open_store(store) as stored:
        assert len(stored.attempts[1]) == 1, "what had finished is not run again"
        assert len(stored.attempts[2]) == 2
    assert f"sweep --resume {name}" in (tmp_path / f"points-{number}.log").read_text()
