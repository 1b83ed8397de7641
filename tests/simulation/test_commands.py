"""`demo`, `sweep` and `tune` with `--simulate`: real engines and real processes, on GPUs that do not exist."""

import json
from pathlib import Path
from typing import Any

import pytest

from gmg_tui import session as sessions
from tests.cli.scripted import gmg


def _workers(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {worker["slot"]: worker for worker in summary["workers"]}


def test_the_demo_shows_a_recovered_race_an_out_of_memory_and_a_slow_card(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    ran = gmg("demo", "--simulate", "4", "--headless", "--summary", str(summary), "--", "--steps", "6000")
    assert ran.returncode == 1, ran.stderr
    report = json.loads(summary.read_text())
    assert report["simulated"] is True
    workers = _workers(report)
    assert [workers[f"gpu{i}"]["state"] for i in range(4)] == ["finished", "finished", "finished", "failed"]
    assert [workers[f"gpu{i}"]["attempts"] for i in range(4)] == [1, 2, 1, 1]
    assert "CUDA out of memory" in workers["gpu3"]["reason"]
    assert workers["gpu2"]["fps"]["max"] < 0.95 * workers["gpu0"]["fps"]["max"]
    assert {worker["n_envs"] for worker in report["workers"][:3]} == {4096}
    assert workers["gpu0"]["memory_peak_mib"] > 3500
    assert "pickle data was truncated" in ran.stdout
    assert "  simulated  " in ran.stdout


def test_a_sweep_and_its_reports_are_marked_as_simulated(tmp_path: Path) -> None:
    ran = gmg("sweep", "--simulate", "2", "--headless", "--set", "n_envs=1024,4096", "--set", "init=1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "simulated  2 finished" in ran.stdout
    page = tmp_path / "page.html"
    assert gmg("report", "--html", str(page)).returncode == 0
    assert "  simulated  " in page.read_text()
    assert "  simulated  " in gmg("report").stdout.splitlines()[0]
    for form in ("--json", "--csv"):
        assert "GPU-simulated-" in gmg("report", form).stdout


@pytest.mark.slow
def test_a_tuning_says_how_to_continue_on_simulated_gpus() -> None:
    ran = gmg("tune", "--simulate", "4", "--headless", "--settle", "2", "--var", "n_envs=4096..4096")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "simulated" in ran.stdout
    assert "gmg-tui demo --simulate 4 -- -B " in ran.stdout
    assert sessions.find(None, running=False).record.session.spec.simulate == 4
