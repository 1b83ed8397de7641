"""`gmg-tui tune` as a whole: the command line, the engine, and workers whose true rates are known."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gmg_tui.session import sessions_folder
from tests.cli.scripted import COMMAND, ROOT, environ, gmg
from tests.nvml_sim import Sim
from tests.nvml_sim.following import following
from tests.patience import LONG_S

WORKER = str(ROOT / "tests" / "tuned_worker.py")
_FIXED_US, _PER_ENV_US = 4000.0, 4.0


def true_rate(n_envs: int, knee: int) -> float:
    """Environment steps per second of `tests/tuned_worker.py`."""
    return n_envs / (_FIXED_US + _PER_ENV_US * (n_envs + max(0, n_envs - knee))) * 1e6


def tune(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return gmg("tune", "--headless", *words, **variables)


def found(name: str = "tune-1") -> dict[str, Any]:
    document: dict[str, Any] = json.loads((sessions_folder() / name / "tune.json").read_text())
    return document


def measured(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [trial for trial in document["trials"] if trial["state"] == "measured"]


@pytest.mark.slow
def test_the_fastest_value_is_found_and_rates_are_correct(tmp_path: Path) -> None:
    summary = tmp_path / "out.json"
    options = ("--cpu", "2", "--settle", "1", "--var", "n_envs=512..2048", "--summary", str(summary))
    done = tune(*options, WORKER, "-B", "{n_envs}", "--turn", "1000", "--noise", "0.01")
    document = found()
    assert done.returncode == 0, done.stdout
    best = max(true_rate(n_envs, 1000) for n_envs in range(512, 2049))
    # How near the best it comes is for tests/tune, whose clock does not depend on how busy the machine is.
    assert true_rate(document["fastest"]["value"], 1000) >= 0.8 * best
    assert document["recommended"]["value"] <= document["fastest"]["value"]
    for trial in measured(document):
        # A machine that is busy with other tests makes steps longer than they would be.
        assert trial["rate"] <= 1.03 * true_rate(trial["value"], 1000), trial
    assert document["together"]["value"] == document["recommended"]["value"]
    assert document["command"][:4] == ["gmg-tui", "--cpu", "2", WORKER]
    assert document["command"][5] == str(document["recommended"]["value"])
    assert json.loads(summary.read_text()) == document
    assert (document["ended"], document["stopped"], document["reason"]) == (True, False, None)
    workers = json.loads((sessions_folder() / "tune-1" / "summary.json").read_text())["workers"]
    assert [worker["state"] for worker in workers] == ["finished"] * 2
    assert "limit: 2,048 (as given)\n" in done.stdout


@pytest.mark.slow
def test_the_memory_limit_is_found_and_avoided(sim: Sim, tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    for gpu in sim.gpus:
        gpu.memory_total_mib = 8192
    words = ("--fixed-us", "40000", "--per-env-us", "0.5", "--memory-dir", str(folder), "--per-env-kib", "800")
    options = ("--settle", "3", "--gpus", "4")
    with following(sim, folder):
        done = tune(*options, WORKER, "-B", "{n_envs}", *words, **sim.env())
    document = found()
    assert done.returncode == 0, done.stdout
    assert document["memory"]["per_unit_mib"] == pytest.approx(800 / 1024, rel=0.05)
    assert document["memory"]["base_mib"] == pytest.approx(400, rel=0.2)
    most = (0.9 * 8192 - 600) / (800 / 1024)
    # How near the edge it comes is for tests/tune: on a busy machine the simulated card frees its memory late.
    assert 0.5 * most <= document["fastest"]["value"] <= most
    assert all(trial["memory_mib"] is not None for trial in measured(document))
    assert "too little memory" not in done.stdout, "the last trial had released its own"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((WORKER, "-B", "{n_envs}", "--stop-after-s", "1"), "before its rate was precise: let it run longer"),
        ((WORKER, "-B", "{n_envs}", "--ignore"), "it ignores {n_envs}"),
        ((WORKER, "-B", "{n_envs}", "--edge", "1"), "CUDA out of memory"),
        (("--trial-time", "3s", "--metric", "samples", WORKER, "-B", "{n_envs}"), "without a number called 'samples'"),
        (("--metric", "samples", "text.py", "{n_envs}"), "samples is '12 a second', which is not a number"),
        (("--trial-time", "3s", "--metric", "reward", "punished.py", "{n_envs}"), "the metric was negative"),
        (("--metric", "reward", "diverged.py", "{n_envs}"), "reward is nan: the run has diverged"),
    ],
)
def test_a_script_that_cannot_be_tuned_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "text.py").write_text("""print('gmg:result {"samples": "12 a second"}')""")
    (tmp_path / "punished.py").write_text("""
import time
while True:
    print("Mean reward: -6", flush=True)
    time.sleep(0.2)
""")
    (tmp_path / "diverged.py").write_text("""print('Mean reward: 6'); print('Mean reward: nan')""")
    monkeypatch.chdir(tmp_path)
    done = tune("--cpu", "1", *words)
    document = found()
    assert done.returncode == 1
    assert reason in done.stdout
    assert document["fastest"] is None
    assert {trial["state"] for trial in document["trials"]} == {"failed"}


@pytest.mark.slow
def test_a_custom_metric_is_maximised(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("""
import sys, time
for i in range(100_000):
    print(f"Learning iteration {i}/100000\\n Mean reward:      {100.0 - 9 * abs(int(sys.argv[1]) - 10)}", flush=True)
    time.sleep(0.1)
""")
    done = tune("--cpu", "2", "--settle", "1", "--var", "bs=8..12", "--metric", "reward", str(script), "{bs}")
    document = found()
    assert done.returncode == 0, done.stdout
    assert (document["metric"], document["recommended"]["value"]) == ("reward", 10)
    assert document["recommended"]["rate"] == pytest.approx(100)


@pytest.mark.slow
def test_other_processes_that_compute_beside_the_trials_are_named() -> None:
    count = 1 + len(os.sched_getaffinity(0)) // 4
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        done = tune("--cpu", "1", "--settle", "1", "--var", "n_envs=256..256", WORKER, "-B", "{n_envs}")
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert re.search(
        r"warning: \d trials? of \d shared the machine; in #1 other processes used [\d.]+ of \d+ cores?", done.stdout
    )
    assert done.returncode == 0


@pytest.mark.slow
def test_an_interrupted_tuning_prints_its_answer_and_can_be_resumed(tmp_path: Path) -> None:
    words = ("--settle", "1", "--var", "n_envs=256..512", WORKER, "-B", "{n_envs}", "--turn", "500")
    process = subprocess.Popen(
        [*COMMAND, "tune", "--headless", "--cpu", "1", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environ(),
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "trial 2:" in line:
            break
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, rest
    assert "gmg-tui tune --resume tune-1" in rest
    before = found()
    assert before["fastest"] is not None
    assert (before["ended"], before["stopped"], before["step"]) == (True, True, "doubled values, while that is faster")
    for text in (rest, gmg("report", "tune-1").stdout):
        assert f"{before['reason']}; last step: doubled values" in text
    done = tune("--resume", "tune-1")
    after = found()
    assert done.returncode == 0, done.stdout
    # The interval comes from the spread between trials, which there are more of now.
    kept = [
        {name: value for name, value in trial.items() if name != "margin_pct"}
        for trial in (before["trials"][0], after["trials"][0])
    ]
    assert kept[0] == kept[1]
    assert len(after["trials"]) > len(before["trials"])
    assert "trial 1:" not in done.stdout
