"""The shipped sweep with the real Genesis, by the command line, as the README has it."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui import session as sessions

pytestmark = [pytest.mark.genesis, pytest.mark.timeout(900)]


def _gmg(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gmg_tui", *words], capture_output=True, text=True, check=False)


def _printed(log: Path) -> list[float]:
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", log.read_bytes())
    return [float(number.replace(b",", b"")) for number in re.findall(rb"Running at ([\d,.]+) FPS \(", plain)]


def test_the_results_of_the_shipped_sweep_are_what_genesis_printed(light: str, tmp_path: Path) -> None:
    file = Path(light).with_suffix(".toml")
    results = tmp_path / "results"
    words = ("--cpu", "2", "--set", "n_envs=8,16,32", "--set", "steps=1500", "--results", str(results))
    done = _gmg("sweep", str(file), *words, "--name", "envs", "--headless")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    folder = sessions.sessions_folder() / "envs"
    with (results / "summary_results.csv").open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert [(row["value_n_envs"], row["n_envs"], row["state"]) for row in rows] == [
        (n, n, "finished") for n in ("8", "16", "32")
    ]
    detailed = {job["number"]: job for job in json.loads((results / "detailed_results.json").read_text())["jobs"]}
    for row in rows:
        job = detailed[int(row["job"])]
        numbers = _printed(folder / job["log"])
        assert float(row["fps_last"]) == numbers[-1]
        assert job["fps"]["samples"] == len(numbers) > 3
        assert float(row["fps_mean"]) == pytest.approx(sum(numbers) / len(numbers), rel=1e-6)
        assert Path(job["out_dir"]).parent == results
    assert {job["slot"] for job in detailed.values()} == {"cpu0", "cpu1"}

    best = max(rows, key=lambda row: float(row["fps_settled"]))
    table = [line.split() for line in done.stdout.splitlines()]
    first = table[next(at for at, words in enumerate(table) if words[:2] == ["job", "name"]) + 1]
    assert first[:2] == [best["job"], best["name"]]
    page = tmp_path / "page.html"
    assert _gmg("report", "envs", "--html", str(page)).returncode == 0
    assert best["name"] in page.read_text()
