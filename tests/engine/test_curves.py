"""Metrics over time: what a script reports is kept, thinned evenly, and found in the running and the ended session."""

import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.attempts.curves import MAX_CURVES, MAX_POINTS, Curves
from gmg_tui.model import WorkerState
from gmg_tui.model.attempt import mean
from gmg_tui.scripts.probe.reports import Metric
from gmg_tui.session import STORE
from gmg_tui.session.store.reader import load_jobs, open_store

from .harness import program, running, spec_for, sweep_for

_WRITER = """
class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None): pass
    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None): pass
"""
_SCRIPT = """
import sys, time
from torch.utils.tensorboard.writer import SummaryWriter
writer = SummaryWriter()
for step in range(3):
    writer.add_scalar("Train/mean_reward", step * 1.5, step)
    time.sleep(1.1)
writer.add_scalar("Loss/value", float("nan"), 7)
if "fast" in sys.argv:
    for step in range(50_000):
        writer.add_scalar("Loss/value", step, step)
    time.sleep(1000)
"""


def _script(tmp_path: Path) -> str:
    folder = tmp_path / "torch/utils/tensorboard"
    folder.mkdir(parents=True)
    for each in (tmp_path / "torch", tmp_path / "torch/utils", folder):
        (each / "__init__.py").touch()
    (folder / "writer.py").write_text(_WRITER)
    (tmp_path / "train.py").write_text(_SCRIPT)
    return str(tmp_path / "train.py")


def test_values_whose_sums_would_overflow_are_infinite() -> None:
    curves = Curves()
    curves.add(Metric("loss", value, None, at) for at, value in enumerate((1e299, -1.7e308, 1.7e308)))
    assert curves.newest == {"loss": math.inf}
    assert curves.view()["loss"].values == (1e299, -math.inf, math.inf)
    assert curves.broken["loss"].finite == 1e299
    assert math.isnan(mean([math.inf, -math.inf]) or 0.0)


async def test_reported_metrics_are_curves_of_the_running_and_the_stored_attempt(tmp_path: Path) -> None:
    async with running(spec_for(script=_script(tmp_path))) as run:
        await run.until_state("cpu0", WorkerState.FINISHED)
        curves = await run.client.curves("cpu0")
        folder = run.folder
    reward = curves["Train/mean_reward"]
    assert (reward.steps, reward.values, reward.count) == ((0, 1, 2), (0.0, 1.5, 3.0), 3)
    assert [(step, math.isnan(value)) for _, step, value in curves["Loss/value"].points] == [(7, True)]
    with open_store(folder / STORE) as stored:
        (ran,) = stored.curves_of(1)
    assert ran.curves["Train/mean_reward"] == reward
    assert math.isnan(ran.curves["Loss/value"].values[0] or 0.0)


async def test_metrics_that_come_too_fast_are_counted_as_lost(tmp_path: Path) -> None:
    async with running(spec_for("fast", script=_script(tmp_path))) as run:
        snapshot = await run.until(lambda _: run.worker("cpu0").alerts)
        (alert,) = snapshot.workers[0].alerts
        assert alert.kind == "output"
        assert alert.text.endswith(" metrics were dropped: they came too fast")


@given(st.lists(st.floats(0.01, 50.0), min_size=1, max_size=3000))
def test_a_curve_is_bounded_even_and_ends_with_the_newest_value(pauses_s: list[float]) -> None:
    curves, at = Curves(), 0.0
    for step, pause_s in enumerate(pauses_s):
        at += pause_s
        curves.add([Metric("reward", float(step), step, at)])
    curve = curves.view()["reward"]
    assert curve.count == len(pauses_s)
    assert (curve.steps[0], curve.steps[-1]) == (0, len(pauses_s) - 1)
    assert len(curve.steps) <= MAX_POINTS
    assert list(curve.times) == sorted(curve.times)
    gaps = [later - earlier for earlier, later in zip(curve.times, curve.times[1:-1], strict=False)]
    assert all(gap > 0.99 for gap in gaps)


def test_of_too_many_names_the_first_stay() -> None:
    curves = Curves()
    for number in range(MAX_CURVES + 5):
        curves.add([Metric(f"m{number}", 1.0, None, 1.0)])
    assert list(curves.view()) == [f"m{number}" for number in range(MAX_CURVES)]
    curves.add([Metric("loss", math.nan, None, 2.0)])
    assert list(curves.broken) == ["loss"], "the rest of the run is wasted, although it has no curve"


async def test_a_result_that_the_script_reports_is_not_replaced_by_a_printed_number(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    result, after = 'gmg:result {"loss": 1.0005008}', "iteration 3/3 loss: 7.5"
    script.write_text(f"print('iteration 1/3 loss: 1.0005\\n{result}', flush=True)\nprint('{after}')\n")
    async with running(sweep_for([{}], program(script=str(script)), cpu=1)) as run:
        await run.until_done()
    (job,) = load_jobs(run.folder / STORE)
    assert job.result == {"loss": 1.0005008}
