"""A sweep whose engine is killed again and again: every job is done once, and none is lost."""

from __future__ import annotations

import csv
import itertools
import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from gmg_tui import session as sessions
from gmg_tui.model import WorkerState
from gmg_tui.store.reader import open_store
from tests.engine.harness import JOB
from tests.nvml_sim import Sim

from .patience import wait_until
from .sessions import the_session

JOBS = 30
KILLS = 10
pytestmark = pytest.mark.slow


def _gmg(*words: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "gmg_tui", "sweep", "--headless", *words],
        env={**os.environ, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def _begun(marks: Path) -> list[dict[str, Any]]:
    """What the attempts have written down so far; one may be at it."""
    texts = (path.read_text() for path in marks.iterdir())
    return [json.loads(text) for text in texts if text.endswith("}")]


def test_the_engine_is_killed_ten_times_and_every_job_is_finished_once(sim: Sim, tmp_path: Path) -> None:
    chance = random.Random(4)
    marks = tmp_path / "marks"
    marks.mkdir()
    grid = ",".join(map(str, range(JOBS)))
    words = ["--set", f"x={grid}", "--name", "much", "--gpus", "0,1,2"]
    args = ["--marks", str(marks), "--s", "0.4", "--value", "{x}"]
    client = _gmg(*words, "--script", JOB, *args, env=sim.env())
    for _ in range(KILLS):
        before = len(_begun(marks))
        more = chance.randint(1, 3)
        wait_until(lambda before=before, more=more: len(_begun(marks)) >= before + more)  # type: ignore[misc]
        os.kill(the_session().record.session.engine_pid, signal.SIGKILL)
        _, said = client.communicate(timeout=90)
        assert client.returncode == 1, said
        client = _gmg("--resume", "much", env=sim.env())
    _, said = client.communicate(timeout=120)
    assert client.returncode == 0, said

    folder = the_session().folder
    with open_store(folder / sessions.STORE) as store:
        assert {record.state for record in store.jobs} == {WorkerState.FINISHED}
        ends = {number: [one.attempt.state for one in attempts] for number, attempts in store.attempts.items()}
        on_card = defaultdict(list)
        for attempts in store.attempts.values():
            for one in attempts:
                on_card[one.gpu_uuid].append((one.attempt.started, one.attempt.ended))
    assert sorted(ends) == list(range(1, JOBS + 1))
    assert all(states.count(WorkerState.FINISHED) == 1 for states in ends.values()), ends
    assert any(len(states) > 1 for states in ends.values()), "no kill has hit a job"
    with (folder / "summary_results.csv").open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert sorted(int(row["x"]) for row in rows) == list(range(JOBS))
    assert {row["state"] for row in rows} == {"finished"}
    assert len(on_card) == 3
    for spans in on_card.values():
        for (_, ended), (began, _) in itertools.pairwise(sorted(spans)):
            assert ended is None or ended <= began
