"""The number of environments looked for with the real Genesis."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gmg_tui.session import sessions_folder
from tests.cli.scripted import environ

pytestmark = [pytest.mark.genesis, pytest.mark.timeout(900)]


def test_a_tuning_of_the_light_example_ends_with_an_answer(light: str) -> None:
    words = ("--cpu", "2", "--var", "n_envs=16..64", "--settle", "6", "--trials", "3")
    done = subprocess.run(
        [sys.executable, "-m", "gmg_tui", "tune", "--headless", light, *words, "-B", "{n_envs}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environ(),
    )
    assert done.returncode == 0, done.stdout
    document = json.loads((sessions_folder() / "tune-1" / "tune.json").read_text())
    measured = {trial["value"]: trial for trial in document["trials"] if trial["state"] == "measured"}
    assert 16 in measured
    assert len(measured) > 1
    assert all(trial["rate"] > 0 and trial["start_s"] > 0 for trial in measured.values())
    assert document["fastest"]["value"] in measured
    assert document["command"][-1] == str(document["fastest"]["value"])
