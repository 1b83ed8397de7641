"""`sweep` with jobs that run several times, as a real process on simulated GPUs: before, at its end, and resumed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.model import WorkerState
from gmg_tui.results import COMBINED
from gmg_tui.store import reader
from gmg_tui.store.writer import StoreWriter
from tests.nvml_sim import Sim

_JOB = str(Path(__file__).parents[1] / "fake_worker.py")


def _sweep(sim: Sim | None, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **(sim.env() if sim is not None else {}), "COLUMNS": "200"}
    command = [sys.executable, "-m", "gmg_tui", "sweep", "--headless", *words]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def _of(*words: str, repeat: int = 1) -> tuple[str, ...]:
    """A sweep of two values on every GPU."""
    repeated = ("--repeat", str(repeat)) if repeat > 1 else ()
    script = ("--script", _JOB, "--set", "n_envs=16,64", "--every-gpu", *repeated, *words)
    return (*script, "--", "-B", "{n_envs}", "--lines", "5")


def test_a_dry_run_asks_the_driver_which_gpus_there_are(sim: Sim) -> None:
    done = _sweep(sim, *_of("--gpus", "3", "--dry-run", repeat=2))
    lines = done.stdout.splitlines()
    assert lines[1].split()[:3] == ["1", "n_envs=16-gpu0-r1", "gpu0"]
    assert lines[12].split()[:3] == ["12", "n_envs=64-gpu2-r2", "gpu2"]
    assert lines[-1] == "12 jobs"


def test_without_a_gpu_it_says_so_in_one_line() -> None:
    done = _sweep(None, *_of("--dry-run"))
    assert done.returncode == 2
    assert done.stderr.startswith("gmg-tui: no GPU: ")
    assert done.stderr.count("\n") == 1
    assert _sweep(None, *_of("--cpu", "2", "--dry-run")).stdout.splitlines()[-1] == "4 jobs"


def test_each_gpu_runs_each_job_and_the_end_tells_mean_and_spread(sim: Sim) -> None:
    done = _sweep(sim, *_of("--gpus", "0,2", "--name", "both", "--best", "fps"))
    assert done.returncode == 0, done.stderr
    assert "mean and spread (standard deviation) over the runs that finished" in done.stdout
    assert "by fps_settled, the largest first" in done.stdout
    folder = sessions.sessions_folder() / "both"
    jobs = reader.load_jobs(folder / sessions.STORE)
    assert [(job.name, job.slot, job.combination) for job in jobs] == [
        (f"n_envs={value}-{slot}", slot, f"n_envs={value}") for value in (16, 64) for slot in ("gpu0", "gpu2")
    ]
    header, *rows = (folder / COMBINED).read_text().splitlines()
    assert header.startswith("combination,runs,finished,slots,n_envs,elapsed_s_mean,elapsed_s_spread,fps_settled_mean")
    assert [row.split(",")[:4] for row in rows] == [
        ["n_envs=16", "2", "2", "gpu0 gpu2"],
        ["n_envs=64", "2", "2", "gpu0 gpu2"],
    ]


async def test_resumed_each_run_keeps_its_gpu(sim: Sim) -> None:
    assert _sweep(sim, *_of("--gpus", "0,2", "--name", "again")).returncode == 0
    store = sessions.sessions_folder() / "again" / sessions.STORE
    *_, last = reader.load_jobs(store)
    writer = StoreWriter(store, lambda _: None)
    writer.start()
    writer.job(structs.replace(last, state=WorkerState.WAITING, ended=None, slot=None))
    await writer.close()
    assert _sweep(sim, "--resume", "again", "--dry-run").stdout.splitlines()[1].split()[:3] == ["4", last.name, "gpu2"]
    assert "whose names would change" in _sweep(sim, "--resume", "again", "--per-gpu", "2").stderr
    done = _sweep(sim, "--resume", "again")
    assert done.returncode == 0, done.stderr
    assert reader.load_jobs(store)[-1].slot == "gpu2"


@pytest.mark.parametrize("words", [("--repeat", "2"), ("--every-gpu",)])
def test_how_often_jobs_run_cannot_change(words: tuple[str, ...]) -> None:
    done = _sweep(None, "--resume", "old", *words)
    assert f"its name and jobs cannot change; leave out {words[0]}" in done.stderr
