"""Metrics over time in `report --csv metrics` and on its page."""

import csv
import io
import json
import math
import re
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.model import Curve, Point, WorkerState
from gmg_tui.model.curves import best_of
from gmg_tui.session.store.database import AttemptCurves
from tests.cli.scripted import in_process
from tests.results.report import stored
from tests.session.store.records import START


def curve(steps: list[int | None], values: list[float]) -> Curve:
    times = tuple(START + number for number in range(len(steps)))
    points = [Point(*each) for each in zip(times, steps, values, strict=True) if math.isfinite(each[2])]
    low, high = min(points, key=lambda point: point.value), max(points, key=lambda point: point.value)
    return Curve(times, tuple(steps), tuple(values), len(values), low, high)


async def test_metrics_over_time_as_csv_and_as_charts(tmp_path: Path) -> None:
    first = AttemptCurves(1, 1, 0, "cpu0", {"Train/mean_reward": curve([0, 10, 20], [0.0, 1.5, math.nan])})
    again = AttemptCurves(1, 2, 0, "cpu0", {"Train/mean_reward": curve([10, 30], [1.25, 1 / 3])})
    other = AttemptCurves(2, 1, 0, "cpu1", {stored.HOSTILE: curve([None, None], [1.0, 2.0]), "once": curve([7], [3.0])})
    again.curves["gap"] = curve([1, 2, 3], [0.0, -math.inf, math.inf])
    other.curves["Train/mean_reward"] = curve([7], [3.0])
    await stored.session("sim", stored.jobs(2), rows=(first, again, other))
    rows = list(csv.DictReader(io.StringIO(in_process("report", "sim", "--csv", "metrics").stdout)))
    reward = [
        (row["attempt"], row["step"], row["value"])
        for row in rows
        if (row["job"], row["metric"]) == ("1", "Train/mean_reward")
    ]
    assert reward == [
        *(("1", "0", "0.0"), ("1", "10", "1.5"), ("1", "20", "nan")),
        *(("2", "10", "1.25"), ("2", "30", repr(1 / 3))),
    ]
    assert [row["value"] for row in rows if row["metric"] == "gap"] == ["0.0", "-inf", "inf"]
    assert [row["step"] for row in rows if row["job"] == "2"] == ["", "", "7", "7"]
    page = tmp_path / "page.html"
    in_process("report", "sim", "--html", str(page))
    text = page.read_text()
    assert "<h2>Metrics</h2>" in text
    assert '"x":[0,10,30]' in text
    assert re.search(r'"mode":"markers"[^{}]*"x":\[7\]', text)
    assert '"text":"once"' not in text, "a chart of single values"
    assert "<script>document.title" not in text
    assert text.index("Train") < text.index("document.title")


async def _seeds(name: str, *rewards: list[float], failed: int = 0) -> None:
    """A session with a job for each list of rewards; the jobs differ in their seed only, and the last ones have failed."""
    jobs = [
        structs.replace(
            job,
            values={"lr": 0.5, "seed": seed},
            state=WorkerState.FAILED if seed >= len(rewards) - failed else job.state,
            last=structs.replace(job.last, given=("--seed", str(seed)), metrics={"reward": values[-1]}),
        )
        for seed, (job, values) in enumerate(zip(stored.jobs(len(rewards)), rewards, strict=True))
    ]
    curves = [
        AttemptCurves(job.number, 1, 0, "cpu0", {"reward": curve([*range(len(values))], values)})
        for job, values in zip(jobs, rewards, strict=True)
    ]
    await stored.session(name, jobs, rows=curves)


async def test_a_report_has_the_last_and_the_best_value_of_each_metric_with_its_step() -> None:
    await _seeds("a", [1.0, 7.0, 5.0], [1.0, 2.0, 4.0], [1.0], failed=1)
    lines = in_process("report", "a").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("metric"))
    assert "mean of last  lowest to highest  best  at step" in lines[at]
    assert lines[at + 1].split()[:7] == ["reward", "4.5", "4", "to", "5", "7", "1"]
    first = json.loads(in_process("report", "a", "--json").stdout)["jobs"][0]
    assert {name: first["best"]["reward"][name] for name in ("value", "step")} == {"value": 7.0, "step": 1}


async def test_sessions_are_compared_by_their_metrics_with_mean_and_band_of_equal_runs(tmp_path: Path) -> None:
    await _seeds("a", [1.0, 7.0, 5.0], [1.0, 2.0, 4.0])
    await _seeds("b", [2.0, 3.0])
    shown = " ".join(in_process("report", "a", "b").stdout.split())
    assert "metric a: last lowest to highest best at step b: last best at step reward 4.5 4 to 5 7 1 3 3 1" in shown
    (made,) = json.loads(in_process("report", "a", "b", "--json").stdout)["metrics"]
    assert [(of["last"], of["runs"], of["best"], of["best_step"]) for of in made["sessions"]] == [
        (4.5, 2, 7.0, 1),
        (3.0, 1, 3.0, 1),
    ]
    page = tmp_path / "page.html"
    in_process("report", "a", "b", "--html", str(page))
    text = page.read_text()
    assert '"y":[1.0,4.5,4.5]' in text, "the mean of both runs"
    assert '"y":[1.0,2.0,4.0]' in text, "the lower edge of the band"
    assert "tonexty" in text


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("val/rmse", 1.0),
        ("train_kl", 1.0),
        ("NLL", 1.0),
        ("loss_total", 1.0),
        ("reward", 2.0),
        ("confidence", 2.0),
        ("sparkle", 2.0),
    ],
)
def test_errors_and_divergences_are_best_when_low(name: str, best: float) -> None:
    found = best_of(name, [Point(0.0, 1, 1.0), None, Point(1.0, 2, 2.0)])
    assert found is not None
    assert found.value == best
