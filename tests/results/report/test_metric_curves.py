"""Metrics over time in `report --csv metrics` and on its page."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from gmg_tui.model import Curve
from gmg_tui.session.store.database import AttemptCurves
from tests.cli.scripted import in_process
from tests.results.report import stored
from tests.session.store.records import START


def curve(steps: list[int | None], values: list[float]) -> Curve:
    times = tuple(START + number for number in range(len(steps)))
    return Curve(times, tuple(steps), tuple(values), len(values))


async def test_metrics_over_time_as_csv_and_as_charts(tmp_path: Path) -> None:
    first = AttemptCurves(1, 1, 0, "cpu0", {"Train/mean_reward": curve([0, 10, 20], [0.0, 1.5, math.nan])})
    again = AttemptCurves(1, 2, 0, "cpu0", {"Train/mean_reward": curve([10, 30], [1.25, 1 / 3])})
    other = AttemptCurves(2, 1, 0, "cpu1", {stored.HOSTILE: curve([None, None], [1.0, 2.0])})
    await stored.session("sim", stored.jobs(2), rows=(first, again, other))
    rows = list(csv.DictReader(io.StringIO(in_process("report", "sim", "--csv", "metrics").stdout)))
    reward = [(row["attempt"], row["step"], row["value"]) for row in rows if row["metric"] == "Train/mean_reward"]
    assert reward == [
        *(("1", "0", "0.0"), ("1", "10", "1.5"), ("1", "20", "nan")),
        *(("2", "10", "1.25"), ("2", "30", repr(1 / 3))),
    ]
    assert [row["step"] for row in rows if row["job"] == "2"] == ["", ""]
    page = tmp_path / "page.html"
    in_process("report", "sim", "--html", str(page))
    text = page.read_text()
    assert "<h2>Metrics</h2>" in text
    assert '"x":[0,10,30]' in text
    assert "<script>document.title" not in text
    assert text.index("Train") < text.index("document.title")
