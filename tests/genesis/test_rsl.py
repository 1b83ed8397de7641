"""rsl_rl's real runner with two ranks: a rate that rank 0 reports for both is the group's, and is counted once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.scripted import environ

pytestmark = [pytest.mark.genesis, pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.usefixtures("light")]

_RANK = str(Path(__file__).parent / "rsl_rank.py")


def test_the_rate_of_two_ranks_is_that_of_rank_0_and_not_twice_that(tmp_path: Path) -> None:
    pytest.importorskip("rsl_rl")
    summary = tmp_path / "summary.json"
    words = ("--headless", "--cpu", "2", "--ddp", "--restart", "never", "--summary", str(summary))
    done = subprocess.run(
        [sys.executable, "-m", "gmg_tui", *words, _RANK, "3", str(tmp_path / "rsl")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environ(),
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^g0 +[\d,.]+ FPS \(rank 0's, for all\)$", done.stdout, re.MULTILINE), done.stdout
    told = json.loads(summary.read_text())
    first, second = told["workers"]
    assert [worker["state"] for worker in (first, second)] == ["finished", "finished"]
    assert told["total_fps"] == first["fps"]["last"] > 0
    assert re.search(r"^cpu1 +g0 +1/2 +finished +in rank 0 ", done.stdout, re.MULTILINE), done.stdout
