"""`gmg-tui tune` as a whole: the command line, the engine, and workers whose true rates are known."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gmg_tui.session import sessions_folder
from tests.cli.scripted import ROOT, environ
from tests.nvml_sim import Sim
from tests.nvml_sim.following import following

_WORKER = str(ROOT / "tests" / "tuned_worker.py")
_COMMAND = (sys.executable, "-m", "gmg_tui", "tune", "--headless")
_FIXED_US, _PER_ENV_US = 4000.0, 4.0


def true_rate(n_envs: int, knee: int) -> float:
    """Environment steps per second of `tests/tuned_worker.py`."""
    return n_envs / (_FIXED_US + _PER_ENV_US * (n_envs + max(0, n_envs - knee))) * 1e6


def tune(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ(**variables)
    )


def found(name: str = "tune-1") -> dict[str, Any]:
    """The `tune.json` of a session."""
    document: dict[str, Any] = json.loads((sessions_folder() / name / "tune.json").read_text())
    return document


def measured(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [trial for trial in document["trials"] if trial["state"] == "measured"]


@pytest.mark.slow
def test_the_fastest_value_is_found_and_each_rate_is_true(tmp_path: Path) -> None:
    summary = tmp_path / "out.json"
    options = ("--cpu", "2", "--settle", "6", "--var", "n_envs=256..4096", "--summary", str(summary))
    done = tune(*options, _WORKER, "-B", "{n_envs}", "--turn", "1000", "--noise", "0.01")
    document = found()
    assert done.returncode == 0, done.stdout
    best = max(true_rate(n_envs, 1000) for n_envs in range(256, 4097))
    assert true_rate(document["fastest"]["value"], 1000) >= 0.97 * best
    assert document["knee"]["value"] <= document["fastest"]["value"]
    assert true_rate(document["knee"]["value"], 1000) >= 0.93 * best
    for trial in measured(document):
        # A machine that is busy with other tests makes steps longer than they would be.
        assert trial["rate"] <= 1.03 * true_rate(trial["value"], 1000), trial
    assert document["together"]["value"] == document["fastest"]["value"]
    assert document["command"][:4] == ["gmg-tui", "--cpu", "2", _WORKER]
    assert document["command"][5] == str(document["fastest"]["value"])
    assert json.loads(summary.read_text()) == document


@pytest.mark.slow
def test_the_edge_of_memory_is_found_and_kept_away_from(sim: Sim, tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    for gpu in sim.gpus:
        gpu.memory_total_mib = 8192
    words = ("--fixed-us", "40000", "--per-env-us", "0.5", "--memory-dir", str(folder), "--per-env-kib", "800")
    with following(sim, folder):
        done = tune("--settle", "6", "--gpus", "4", _WORKER, "-B", "{n_envs}", *words, **sim.env())
    document = found()
    assert done.returncode == 0, done.stdout
    assert document["memory"]["per_unit_mib"] == pytest.approx(800 / 1024, rel=0.05)
    assert document["memory"]["base_mib"] == pytest.approx(400, rel=0.2)
    most = (0.9 * 8192 - 600) / (800 / 1024)
    assert document["fastest"]["value"] <= most
    assert document["fastest"]["value"] >= 0.8 * most
    assert all(trial["memory_mib"] is not None for trial in measured(document))


@pytest.mark.slow
def test_a_gpu_counts_as_it_is_once_its_last_trial_has_left_it(sim: Sim, tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    for gpu in sim.gpus:
        gpu.memory_total_mib = 8192
    words = ("--fixed-us", "40000", "--per-env-us", "0.5", "--memory-dir", str(folder), "--per-env-kib", "800")
    options = ("--settle", "5", "--gpus", "1", "--var", "n_envs=1024..")
    with following(sim, folder):
        done = tune(*options, _WORKER, "-B", "{n_envs}", *words, **sim.env())
    document = found()
    assert done.returncode == 0, done.stdout
    assert document["fastest"]["value"] >= 0.9 * (0.9 * 8192 - 1000) / (800 / 1024), done.stdout
    assert "too little memory" not in done.stdout


@pytest.mark.slow
def test_a_worker_that_dies_of_an_illegal_address_is_the_edge(tmp_path: Path) -> None:
    words = ("--edge", "1500", "--death", "address")
    done = tune("--cpu", "2", "--settle", "6", "--var", "n_envs=256..", _WORKER, "-B", "{n_envs}", *words)
    document = found()
    assert done.returncode == 0, done.stdout
    assert document["edge"]["value"] >= 1500
    assert "ILLEGAL_ADDRESS" in document["edge"]["reason"]
    assert document["largest"]["value"] < 1500
    assert true_rate(document["fastest"]["value"], 1 << 60) >= 0.9 * true_rate(1499, 1 << 60)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((_WORKER,), "no {n_envs} in the script's arguments"),
        (("--var", "n_envs=100..10", _WORKER, "{n_envs}"), "HIGH (10) is less than LOW (100)"),
        (("--var", "seed=1..10", _WORKER, "{seed}"), "{seed} has a meaning of its own"),
        (("--var", "n_envs=0..10", _WORKER, "{n_envs}"), "LOW must be at least 1"),
        (("--var", "1..10", _WORKER, "{n_envs}"), "give NAME=LOW..HIGH"),
        (("--trials", "0", _WORKER, "{n_envs}"), "--trials 0: give 1 to 1000"),
        (("--budget", "soon", _WORKER, "{n_envs}"), "--budget soon: give a time"),
        (("--resume", "nothing"), "--resume nothing: there is no such session"),
        ((), "give a SCRIPT"),
    ],
)
def test_bad_options_give_one_line(words: tuple[str, ...], said: str) -> None:
    done = tune("--cpu", "1", *words)
    assert done.returncode in {1, 2}
    assert said in done.stdout
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--stop-after-s", "1"), "before its rate had settled: let it run longer"),
        (("--ignore",), "it takes no notice of {n_envs}"),
        (("--edge", "1"), "CUDA out of memory"),
    ],
)
def test_a_script_that_cannot_be_tuned_is_told_in_one_line(words: tuple[str, ...], said: str) -> None:
    done = tune("--cpu", "1", _WORKER, "-B", "{n_envs}", *words)
    document = found()
    assert done.returncode == 1
    assert said in done.stdout
    assert document["fastest"] is None
    assert {trial["state"] for trial in document["trials"]} == {"failed"}


def test_a_metric_that_never_comes_is_told() -> None:
    done = tune("--cpu", "1", "--trial-time", "3s", "--metric", "samples", _WORKER, "-B", "{n_envs}")
    assert done.returncode == 1
    assert "no gmg:result with 'samples'" in found()["trials"][0]["reason"]


def test_a_metric_that_is_no_number_is_told(tmp_path: Path) -> None:
    script = tmp_path / "text.py"
    script.write_text("""print('gmg:result {"samples": "12 a second"}')""")
    done = tune("--cpu", "1", "--metric", "samples", str(script), "-B", "{n_envs}")
    assert done.returncode == 1
    assert found()["trials"][0]["reason"] == "samples is '12 a second', which is no number"


@pytest.mark.slow
def test_a_metric_of_the_scripts_own_is_searched_by() -> None:
    options = ("--cpu", "2", "--settle", "20", "--var", "bs=8..12", "--metric", "samples")
    done = tune(*options, _WORKER, "-B", "{bs}", "--report", "samples", "--fixed-us", "20000")
    document = found()
    assert done.returncode == 0, done.stdout
    assert (document["metric"], document["variable"]) == ("samples", "bs")
    assert document["fastest"]["value"] in {11, 12}


@pytest.mark.slow
def test_a_tuning_that_is_interrupted_gives_the_answer_so_far_and_goes_on(tmp_path: Path) -> None:
    words = ("--settle", "6", "--var", "n_envs=256..1024", _WORKER, "-B", "{n_envs}", "--turn", "500")
    process = subprocess.Popen(
        [*_COMMAND, "--cpu", "1", *words],
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
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 130, rest
    assert "gmg-tui tune --resume tune-1" in rest
    before = found()
    assert before["fastest"]["value"] == 256
    done = tune("--resume", "tune-1")
    after = found()
    assert done.returncode == 0, done.stdout
    assert after["trials"][0] == before["trials"][0]
    assert true_rate(after["fastest"]["value"], 500) >= 0.97 * true_rate(500, 500)


def test_a_tuning_whose_budget_is_used_up_goes_on_with_a_larger_one() -> None:
    words = ("--settle", "6", "--var", "n_envs=256..257", _WORKER, "-B", "{n_envs}")
    done = tune("--cpu", "1", "--budget", "3s", *words)
    assert "the budget is used up" in done.stdout
    assert found()["trials"] == []  # what was cut short says nothing
    refused = tune("--resume", "tune-1", "--var", "k=1..2", "--cpu", "2", _WORKER)
    assert refused.returncode == 2
    assert f"cannot change; leave out --var, --cpu, {_WORKER}" in refused.stdout
    done = tune("--resume", "tune-1", "--budget", "1h", "--settle", "5")
    assert done.returncode == 0, done.stdout
    assert found()["largest"]["value"] == 257


def test_a_record_of_another_tuning_is_not_gone_on_with() -> None:
    words = ("--settle", "5", "--var", "n_envs=256..256", _WORKER, "-B", "{n_envs}")
    assert tune("--cpu", "1", *words).returncode == 0
    record = sessions_folder() / "tune-1" / "tune.json"
    document = found()
    strange = {"number": 99, "value": -5, "slot": "cpu0", "kind": "first", "state": "measured", "rate": 1e9}
    record.write_text(json.dumps(document | {"trials": [*document["trials"], strange]}))
    assert tune("--resume", "tune-1").returncode == 0
    assert found()["fastest"]["value"] == 256
    record.write_text(json.dumps(document | {"variable": "batch"}))
    done = tune("--resume", "tune-1")
    assert done.returncode == 1
    assert "is of another tuning, not one of n_envs" in done.stdout


@pytest.mark.slow
def test_options_may_stand_after_the_script_but_not_behind_a_double_dash() -> None:
    words = (
        "--var",
        "n_envs=256..300",
        _WORKER,
        "--cpu",
        "1",
        "-B",
        "{n_envs}",
        "--settle=5",
        "--",
        "--fixed-us",
        "4000",
    )
    done = tune(*words)
    assert done.returncode == 0, done.stdout
    assert found()["command"][1:3] == ["--cpu", "1"]
    assert found()["command"][-2:] == ["--fixed-us", "4000"]
    done = tune(_WORKER, "-B", "{n_envs}", "--", "--cpu", "1")
    assert "no GPU" in done.stdout
