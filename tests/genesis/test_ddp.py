"""The example of a group: a policy trained with the real Genesis and torch's real gloo by two ranks on the CPU."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.scripted import environ

from .conftest import TRAINING

pytestmark = [pytest.mark.genesis, pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.usefixtures("light")]

_EXAMPLE = str(TRAINING)
_SMALL = ("--backend", "cpu", "-B", "4", "--iterations", "3", "--steps", "4")
_EQUAL = re.compile(r"parameters and gradients are equal on all 2 ranks \(646 numbers each\)")


def _run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ()
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_two_ranks_of_a_group_end_with_equal_gradients(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    output = _run("gmg_tui", "--headless", "--cpu", "2", "--ddp", "--summary", str(summary), _EXAMPLE, *_SMALL)
    assert _EQUAL.search(output), output
    workers = json.loads(summary.read_text())["workers"]
    assert [worker["state"] for worker in workers] == ["finished", "finished"]
    assert [worker["group"]["rank"] for worker in workers] == [0, 1]
    assert [worker["n_envs"] for worker in workers] == [4, 4]
    assert all(worker["fps"]["samples"] > 0 for worker in workers)
