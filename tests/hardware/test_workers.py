"""Workers on real GPUs: which card they get, what they render, how fast they run, and how they tune and form groups."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.conftest import EXAMPLES, TRAINING, Gmg, Record

pytestmark = [pytest.mark.gpu, pytest.mark.process, pytest.mark.timeout(400), pytest.mark.usefixtures("cuda")]

HERE = Path(__file__).parent
N_ENVS = 1024


def _summary(path: Path) -> dict[str, Any]:
    summary = json.loads(path.read_text())
    assert isinstance(summary, dict)
    return summary


def _log(summary: dict[str, Any], worker: dict[str, Any], tmp_path: Path) -> str:
    return next((tmp_path / "state").rglob(worker["log"])).read_text()


def test_each_worker_sees_only_its_card(gmg: Gmg, record: Record, gpu_count: int, tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    gmg("--headless", "--summary", str(path), str(HERE / "whoami.py"))
    summary = _summary(path)
    assert len(summary["workers"]) == gpu_count
    for worker in summary["workers"]:
        uuid, count = _log(summary, worker, tmp_path).split()[-2:]
        record.add("UUID seen by torch", worker["slot"], worker["gpu"]["uuid"], uuid, "torch")
        assert (uuid, count) == (worker["gpu"]["uuid"], "1")


def test_cards_are_chosen_by_index_and_by_uuid(gmg: Gmg, gpu_count: int, tmp_path: Path) -> None:
    last = gpu_count - 1
    uuid = next(gpu["uuid"] for gpu in json.loads(gmg("gpus", "--json").stdout) if gpu["index"] == last)
    for variable in (str(last), uuid):
        path = tmp_path / f"{variable}.json"
        gmg("--headless", "--summary", str(path), str(HERE / "whoami.py"), CUDA_VISIBLE_DEVICES=variable)
        assert [worker["gpu"]["uuid"] for worker in _summary(path)["workers"]] == [uuid]


@pytest.mark.genesis
def test_a_frame_is_rendered_on_the_mapped_egl_device(gmg: Gmg, record: Record, tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    gmg("--headless", "--summary", str(path), str(HERE / "render.py"), timeout_s=390)
    summary = _summary(path)
    for worker in summary["workers"]:
        match = re.search(r"EGL_DEVICE_ID=(\w+) contrast=(\d+)", _log(summary, worker, tmp_path))
        assert match is not None
        record.add("EGL device rendered on", worker["slot"], match[1], "rendered", "Genesis")


@pytest.mark.genesis
def test_the_counted_rate_is_that_of_the_script(gmg: Gmg, record: Record, tmp_path: Path) -> None:
    path, counts = tmp_path / "summary.json", tmp_path / "counts.json"
    words = (str(HERE / "counted.py"), str(counts), str(N_ENVS), "20")
    gmg("--gpus", "1", "--headless", "--summary", str(path), *words, timeout_s=390)
    truth = json.loads(counts.read_text())
    (worker,) = _summary(path)["workers"]
    rate = truth["env_steps"] / truth["seconds"]
    record.add("environment steps/s, counted", "gpu0", worker["fps"]["mean"], rate, "the script")
    record.add("environment steps/s, printed last", "gpu0", worker["fps"]["last"], rate, "the script")
    assert worker["counted"] == "probe"
    assert worker["n_envs"] == N_ENVS
    assert worker["env_steps"] == truth["env_steps"]  # both begin after the first step, which compiles
    assert worker["fps"]["mean"] == pytest.approx(rate, rel=0.01)


@pytest.mark.genesis
def test_the_answer_of_a_short_tuning_is_reproducible(gmg: Gmg, record: Record, tmp_path: Path) -> None:
    script = str(EXAMPLES / "light.py")
    limits = ("--var", "n_envs=2048..4096", "--settle", "5")
    gmg("tune", "--gpus", "1", "--headless", *limits, script, "-B", "{n_envs}", timeout_s=390)
    (tuned,) = (tmp_path / "state").rglob("tune.json")
    best = json.loads(tuned.read_text())["recommended"]
    path = tmp_path / "summary.json"
    words = (script, "-B", str(best["value"]), "--steps", "20000")
    gmg("--gpus", "1", "--headless", "--summary", str(path), *words, timeout_s=240)
    (worker,) = _summary(path)["workers"]
    record.add(
        "environment steps/s of a tuning's answer", "gpu0", best["rate"], worker["fps"]["mean"], "measured again"
    )
    assert worker["fps"]["mean"] == pytest.approx(best["rate"], rel=0.15)


@pytest.mark.genesis
def test_a_group_averages_its_gradients_by_nccl(gmg: Gmg, gpu_count: int) -> None:
    if gpu_count < 2:
        pytest.skip("NCCL between ranks needs two GPUs")
    script = str(TRAINING)
    done = gmg("--gpus", "2", "--ddp", "--headless", script, "-B", "256", "--iterations", "5", timeout_s=390)
    assert "are equal on all 2 ranks" in done.stdout
