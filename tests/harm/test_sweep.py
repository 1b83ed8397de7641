"""Sweeps whose engine is killed again and again, and whose GPUs fail: every job is done once, and none is lost."""

import csv
import itertools
import os
import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import psutil
import pytest

from gmg_tui import session as sessions
from gmg_tui.model import WorkerState
from gmg_tui.session.store.reader import open_store
from tests.engine.harness import JOB
from tests.nvml_sim import Sim
from tests.patience import LONG_S, wait_until

from .sessions import the_session

JOBS = 16
KILLS = 5


def _sweep(sim: Sim, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gmg_tui", "sweep", "--headless", *words]
    env = {**os.environ, **sim.env()}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_the_engine_is_killed_at_random_moments_and_every_job_is_finished_once(sim: Sim, tmp_path: Path) -> None:
    chance = random.Random(4)
    marks = tmp_path / "marks"
    marks.mkdir()
    grid = ",".join(map(str, range(JOBS)))
    args = ["--marks", str(marks), "--s", "1", "--value", "{x}"]  # a kill must hit one before it ends
    client = _sweep(sim, "--set", f"x={grid}", "--name", "much", "--gpus", "0,1,2", "--script", JOB, *args)
    for _ in range(KILLS):
        begun = len(list(marks.iterdir())) + chance.randint(1, 3)
        wait_until(lambda begun=begun: len(list(marks.iterdir())) >= begun)  # type: ignore[misc]
        psutil.Process(the_session().record.session.engine_pid).kill()
        _, errors = client.communicate(timeout=LONG_S)
        assert client.returncode == 1, errors
        client = _sweep(sim, "--resume", "much")
    _, errors = client.communicate(timeout=LONG_S)
    assert client.returncode == 0, errors

    folder = the_session().folder
    with open_store(folder / sessions.STORE) as store:
        assert {record.state for record in store.jobs} == {WorkerState.FINISHED}
        ends = {number: [run.attempt.state for run in attempts] for number, attempts in store.attempts.items()}
        by_gpu = defaultdict(list)
        for run in itertools.chain.from_iterable(store.attempts.values()):
            by_gpu[run.gpu_uuid].append((run.attempt.started, run.attempt.ended))
    assert sorted(ends) == list(range(1, JOBS + 1))
    assert all(states.count(WorkerState.FINISHED) == 1 for states in ends.values()), ends
    assert any(len(states) > 1 for states in ends.values()), "no kill has hit a job"
    with (folder / "summary_results.csv").open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert sorted((int(row["x"]), row["state"]) for row in rows) == [(number, "finished") for number in range(JOBS)]
    assert len(by_gpu) == 3
    for spans in by_gpu.values():
        for (_, ended), (began, _) in itertools.pairwise(sorted(spans)):
            assert ended is None or ended <= began


def test_a_sweep_on_gpus_with_cuda_errors_everywhere_ends_and_its_jobs_run_once_that_is_repaired(
    sim: Sim, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text('import sys; sys.exit("RuntimeError: No CUDA GPUs are available")')
    words = ["--set", "x=1,2,3,4,5,6,7,8", "--gpus", "0,1", "--name", "torn", "--script", str(script), "{x}"]
    sweep = _sweep(sim, *words)
    output, errors = sweep.communicate(timeout=LONG_S)
    assert sweep.returncode == 1, errors
    assert "8 failed" in output
    assert "benched" not in output, "what fails on every GPU proves nothing about one"
    script.write_text("print('works')")
    again = _sweep(sim, "--retry-failed", "--resume", "torn")
    output, errors = again.communicate(timeout=LONG_S)
    assert again.returncode == 0, errors
    assert "8 finished" in output
