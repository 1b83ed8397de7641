"""Sessions over both nodes of a job of a real Slurm."""

import json
import re
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gmg_tui import session
from gmg_tui.model import WorkerState
from gmg_tui.session.store import reader
from tests.engine.nodes.fleets import agents_of, marked
from tests.patience import wait_until
from tests.session.store.records import jobs_so_far

from .cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("slurm")]

_TESTS = Path(__file__).parents[2]
_FAKE = str(_TESTS / "fake_worker.py")
_WAITS = ("--sigint-wait", "1", "--sigterm-wait", "1", "--orphan-wait", "3")
_FOUR_DONE = [WorkerState.FINISHED] * 4
_BOTH = ("-N2", "--exclusive", "--no-requeue")


def submit(slurm: Cluster, tmp_path: Path, name: str, *words: str, options: tuple[str, ...] = ()) -> str:
    """Have a session of that name run as a job on both nodes. Returns the job's number."""
    gmg = (sys.executable, "-m", "gmg_tui", *words[:1], "--nodes", "slurm", "--headless", "--name", name, *_WAITS)
    (tmp_path / "job.sh").write_text(f"#!/bin/sh\nexec {shlex.join((*gmg, *words[1:]))}\n")
    command = ("sbatch", "--parsable", "--output", str(tmp_path / "out"), "--chdir", str(tmp_path), *_BOTH, *options)
    return slurm.ask(*command, str(tmp_path / "job.sh")).strip()


def ended(slurm: Cluster, job: str) -> bool:
    return not slurm.ask("squeue", "-h", "-j", job).strip()


def workers(name: str) -> list[dict[str, Any]]:
    return list(json.loads((session.sessions_folder() / name / session.SUMMARY).read_text())["workers"])


def test_a_run_uses_the_slots_of_both_nodes(slurm: Cluster, tmp_path: Path) -> None:
    job = submit(slurm, tmp_path, "both", "run", "--cpu", "2", _FAKE, "--lines", "30", "--phase-s", "0.01")
    wait_until(lambda: ended(slurm, job))
    slots = ("n1/cpu0", "n1/cpu1", "n2/cpu0", "n2/cpu1")
    assert [(worker["slot"], worker["state"]) for worker in workers("both")] == [(slot, "finished") for slot in slots]
    wait_until(lambda: not marked("both") and not agents_of("both"))


def test_a_cancelled_run_leaves_nothing_behind(slurm: Cluster, tmp_path: Path) -> None:
    job = submit(slurm, tmp_path, "cancelled", "run", "--cpu", "1", _FAKE, "--lines", "1000000", "--phase-s", "0.01")
    wait_until(lambda: len(marked("cancelled")) == 2)
    slurm.ask("scancel", job)
    wait_until(lambda: ended(slurm, job))
    wait_until(lambda: not marked("cancelled") and not agents_of("cancelled"))


def test_a_session_whose_job_has_ended_elsewhere_ends(slurm: Cluster) -> None:
    granted = slurm.run("salloc", "--no-shell", "-N2", "--exclusive").stderr
    (job,) = re.findall(r"Granted job allocation (\d+)", granted)
    within = ("env", f"SLURM_JOB_ID={job}", "SLURM_JOB_NODELIST=n[1-2]")
    gmg = (sys.executable, "-m", "gmg_tui", "--nodes", "slurm", "--detach", *_WAITS)
    slurm.ask(*within, *gmg, "--name", "gone", "--cpu", "1", _FAKE, "--lines", "1000000", "--phase-s", "0.01")
    wait_until(lambda: len(marked("gone")) == 2)
    slurm.ask("scancel", job)
    folder = session.sessions_folder() / "gone"
    wait_until(lambda: not session.is_locked(folder))
    log = (folder / session.ENGINE_LOG).read_text()
    assert re.search(rf"no node is left: Slurm job {job} (has ended|is \w+)", log), log
    # An agent may end its workers in order before its step is killed: `stopped`, else `failed`.
    assert {worker["state"] for worker in workers("gone")} <= {"failed", "stopped"}
    wait_until(lambda: not marked("gone") and not agents_of("gone"))


def test_a_killed_slurmd_has_no_effect_until_its_agent_is_gone(slurm: Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    words = ("--set", "x=1,2,3,4", "--cpu", "1", "--script", str(_TESTS / "job.py"), "--until", str(go))
    job = submit(slurm, tmp_path, "alone", "sweep", *words, options=("--no-kill",))
    folder = session.sessions_folder() / "alone"
    wait_until(lambda: len(marked("alone")) == 2)
    before = {worker.pid for worker in marked("alone")}
    try:
        slurm.kill("n2")
        assert {worker.pid for worker in marked("alone")} == before
        on_n2 = [process for process in agents_of("alone") if process.environ().get("SLURMD_NODENAME") == "n2"]
        (agent,) = (process for process in on_n2 if "watchdog" not in " ".join(process.cmdline()))
        agent.kill()
        wait_until(lambda: "n2 is lost" in (folder / session.ENGINE_LOG).read_text())
        go.touch()
        wait_until(lambda: [record.state for record in jobs_so_far(folder / session.STORE)] == _FOUR_DONE)
    finally:
        slurm.revive("n2")
    wait_until(lambda: ended(slurm, job))
    with reader.open_store(folder / session.STORE) as stored:
        attempts = [ran for of_job in stored.attempts.values() for ran in of_job]
    where = Counter(ran.slot for ran in attempts if ran.attempt.exit_code == 0)
    assert where == {"n1/cpu0": 4}
    wait_until(lambda: not marked("alone") and not agents_of("alone"))
