"""Real trainings other than Genesis: what is counted, and what their lines report, without any option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gmg_tui.model import WorkerState
from tests.engine.harness import running, spec_for

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("package", "script", "option", "total", "unit"),
    [
        ("stable_baselines3", "sb3_training.py", "--total-timesteps", 8192, "step"),
        ("rsl_rl", "rsl_training.py", "--max_iterations", 20, "iteration"),
        ("skrl", "skrl_training.py", "--timesteps", 512, "it"),
    ],
)
async def test_a_training_shows_rate_environments_progress_and_reward(
    package: str, script: str, option: str, total: int, unit: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    args = (str(tmp_path / "{slot}"), "--num-envs", "8", option, str(total))
    async with running(spec_for(*args, cpu=2, script=str(Path(__file__).with_name(script)))) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended, timeout_s=840)
    for worker in snapshot.workers:
        assert worker.state is WorkerState.FINISHED, worker.reason
        counted = json.loads((tmp_path / worker.slot).read_text())
        assert worker.fps is not None
        print(f"{package} {worker.slot}: {worker.fps.mean:,.1f} by the probe, {counted['rate']:,.1f} by the script")
        assert (worker.fps.counted, worker.fps.env_steps) == ("probe", counted["steps"])
        assert worker.fps.mean == pytest.approx(counted["rate"], rel=0.01)
        assert worker.n_envs == 8
        assert worker.progress is not None
        assert (worker.progress.done, worker.progress.total, worker.progress.unit) == (total, total, unit)
        assert worker.newest.metrics.keys() == {"reward", "episode_length"}
        assert worker.last_line.startswith(f"{unit} {total:,} of {total:,}, ")
