"""Real trainings without Genesis: counted steps and printed figures, without any option."""

import json
import math
import signal
import subprocess
from pathlib import Path

import pytest

from gmg_tui.model import WorkerState
from gmg_tui.session import sessions_folder
from tests.cli.scripted import COMMAND, environ, gmg
from tests.engine.harness import running, spec_for

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(900)]

_HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("package", "script", "option", "total", "unit"),
    [
        ("rsl_rl", "rsl_training.py", "--max_iterations", 8, "iteration"),
        ("stable_baselines3", "sb3_training.py", "--total-timesteps", 4096, "step"),
        ("skrl", "skrl_training.py", "--timesteps", 512, "it"),
    ],
)
async def test_a_training_run_shows_its_progress_and_the_metrics_that_tensorboard_reads(
    package: str, script: str, option: str, total: int, unit: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    args = (str(tmp_path / "counted"), "--num-envs", "8", option, str(total), "--log-dir", str(tmp_path / "logs"))
    async with running(spec_for(*args, script=str(_HERE / script))) as run:
        await run.until(lambda snapshot: snapshot.ended, timeout_s=840)
        curves = await run.client.curves("cpu0")
    worker = run.worker("cpu0")
    assert worker.state is WorkerState.FINISHED, worker.reason
    counted = json.loads((tmp_path / "counted").read_text())
    print(f"{package}: {worker.fps.mean:,.1f} by the probe, {counted['rate']:,.1f} by the script")
    assert (worker.fps.counted, worker.fps.env_steps) == ("probe", counted["steps"])
    assert worker.fps.mean == pytest.approx(counted["rate"], rel=0.01)
    assert worker.newest.n_envs == 8
    progress = worker.newest.progress
    assert (progress.done, progress.total, progress.unit) == (total, total, unit)
    assert worker.newest.metrics.keys() >= {"reward", "episode_length"}
    assert unit != "iteration" or worker.last_line.startswith("iteration 8 of 8, ")
    (folder,) = {path.parent for path in (tmp_path / "logs").rglob("events.out.*")}
    read = events.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    read.Reload()
    names = read.Tags()["scalars"]
    assert len(names) >= 5
    for name in names:
        curve, scalars = curves[name], read.Scalars(name)
        known = [(scalar.step, pytest.approx(scalar.value, rel=1e-6, abs=1e-30, nan_ok=True)) for scalar in scalars]
        assert curve.count == len(scalars), name
        assert all((step, value) in known for _, step, value in curve.points), name
        assert (curve.steps[-1], curve.last) == known[-1]
        values = [scalar.value for scalar in scalars if math.isfinite(scalar.value)]
        ends = [point.value for point in (curve.lowest, curve.highest) if point is not None]
        assert ends == pytest.approx([min(values), max(values)] if values else [], rel=1e-6)
        assert worker.newest.numbers[name] == known[-1][1]


def test_a_training_is_swept_and_its_jobs_are_sorted_by_reward(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    plan = tmp_path / "sweep.toml"
    args = [str(tmp_path / "{job}"), "--total-timesteps", "2048", "--lr", "{lr}"]
    plan.write_text(
        f'script = "{_HERE / "sb3_training.py"}"\nargs = {json.dumps(args)}\nbest = "reward"\n[grid]\nlr = [0.0001, 0.01]\n'
    )
    swept = gmg("sweep", "--headless", "--cpu", "2", "--name", "swept", str(plan))
    assert swept.returncode == 0, swept.stdout
    jobs = json.loads(gmg("report", "swept", "--json").stdout)["jobs"]
    for job in jobs:
        assert job["fps"]["env_steps"] == json.loads((tmp_path / str(job["number"])).read_text())["steps"]
    rewards = {job["number"]: job["metrics"]["reward"] for job in jobs}
    table = gmg("report", "swept").stdout
    order = [int(line.split()[0]) for line in table.splitlines() if " lr=" in line and line[0].isdigit()]
    assert len(order) == 2
    assert order == sorted(rewards, key=lambda number: (-rewards[number], order.index(number)))
    assert "by reward, the largest first" in table


def test_a_training_is_tuned(tmp_path: Path) -> None:
    pytest.importorskip("skrl")
    tuning = ("tune", "--headless", "--cpu", "2", "--settle", "1", "--var", "n_envs=16..16")
    training = (str(_HERE / "skrl_training.py"), str(tmp_path / "{job}"), "--timesteps", "100000000")
    command = [*COMMAND, *tuning, *training, "--num-envs", "{n_envs}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ()) as process:
        assert process.stdout is not None
        first = next(line for line in process.stdout if "trial 1: n_envs=16 " in line and "starts" not in line)
        process.send_signal(signal.SIGINT)  # with the answer so far
        process.communicate()
    document = json.loads((sessions_folder() / "tune-1" / "tune.json").read_text())
    assert "measured" in first
    assert document["fastest"]["value"] == 16
    assert document["fastest"]["rate"] > 0
