"""The page has everything in itself, shows workers' words as words, and is drawn by a real browser without a network."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from gmg_tui.report import charts
from gmg_tui.report.data import ReportData, collect
from gmg_tui.report.page import page
from gmg_tui.session import STORE
from gmg_tui.store.reader import open_store
from gmg_tui.store.records import Event
from tests.store.records import START, attempt_of, finished

from . import stored

_BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_WATCH = """<script>
window.refused = [];
document.addEventListener("securitypolicyviolation", (event) => window.refused.push(event.blockedURI));
</script>"""
_TELL = """<script>setTimeout(() => {
  const box = (found) => { const b = found.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
  const all = (query) => Array.from(document.querySelectorAll(query));
  const numbers = () => all("#jobs tbody tr").map((row) => Number(row.cells[0].textContent));
  const column = all("#jobs thead button").find((button) => button.textContent === "tm_score");
  const before = numbers();
  column.click(); const up = numbers();
  column.click(); const down = numbers();
  const told = {
    refused: window.refused,
    loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
    title: document.title,
    stolen: all("td b, #charts b").length,
    titles: all("#charts .annotation-text").map((text) => text.textContent),
    lines: all("#charts .scatterlayer .js-line").length,
    bars: all("#charts .barlayer .point path").length,
    slots: all("#charts .ytick text").map((text) => text.textContent),
    legend: all("#charts .legendtext").map((text) => text.textContent),
    before, up, down,
    wide: document.documentElement.scrollWidth - innerWidth,
    legend_box: box(all("#charts .legend")[0]), time_box: box(all("#charts .xtitle")[0]),
    ink: getComputedStyle(all("#charts .xtitle")[0]).fill,
    ground: getComputedStyle(document.body).backgroundColor,
  };
  const pre = document.createElement("pre"); pre.id = "told"; pre.textContent = JSON.stringify(told);
  document.body.append(pre);
}, 1000)</script>"""


async def _page(**more: Any) -> bytes:
    evil = stored.HOSTILE
    listed = stored.jobs(12)
    listed.append(
        finished(
            13, name=evil, reason=evil, values={evil: evil}, result={evil: evil, "tm_score": 0.5, "whole": 2**2000}
        )
    )
    more = {"rows": stored.metrics(), "events": [Event(START, "note", evil)], **more}
    folder = await stored.session("sim-1", listed, **more)
    with open_store(folder / STORE) as store:
        return page(collect(store, "sim-1"), store, "ended")[0]


async def test_nothing_of_the_page_is_elsewhere_and_no_word_of_a_worker_is_markup() -> None:
    text = (await _page()).decode()
    assert text.count("plotly.js v") == 1
    library = re.search(r"<script[^>]*>/\*\*\s*\* plotly\.js.*?</script>", text, re.DOTALL)
    assert library is not None
    own = text.replace(library[0], "")
    assert "http" not in own.replace("http-equiv", "")
    assert not re.search(r"\b(src|@import|url)\s*[=(]", own)
    assert "default-src 'none'" in own
    assert "<script>document.title" not in own
    assert "<b>x</b>" not in own
    assert "&lt;b&gt;x&lt;/b&gt;" in own


def _told(count: int, slots: int = 2) -> ReportData:
    listed = [finished(number, slot=f"cpu{number % slots}") for number in range(1, count + 1)]
    return ReportData("sim-1", None, False, START, listed, {job.number: [attempt_of(job)] for job in listed}, [])


def test_slots_have_the_same_colour_in_all_charts_and_absent_figures_no_chart() -> None:
    drawn = charts.figure(_told(4), stored.metrics())
    lines = [trace for trace in drawn["data"] if trace["type"] == "scatter"]
    assert len(lines) == 10
    assert {trace["line"]["color"] for trace in lines if trace["name"] == "cpu0"} == {"#0072B2"}
    assert {trace["line"]["color"] for trace in lines if trace["name"] == "cpu1"} == {"#E69F00"}
    assert [trace["name"] for trace in lines if trace["showlegend"]] == ["cpu0", "cpu1"]
    busy = charts.figure(_told(4), [row._replace(sm_pct=41.0) for row in stored.metrics()])
    titles = [[note["text"] for note in one["layout"]["annotations"]] for one in (drawn, busy)]
    assert set(titles[1]) - set(titles[0]) == {"<b>SMs busy (%)</b>"}
    without = charts.figure(_told(4), stored.metrics(cards=False))
    assert [note["text"] for note in without["layout"]["annotations"]] == [
        "<b>Jobs on their slots</b>",
        "<b>FPS (environment steps per second)</b>",
    ]
    assert charts.figure(_told(0), [])["layout"]["annotations"][0]["text"] == "<b>Jobs on their slots</b>"


def test_attempts_beyond_counting_are_joined() -> None:
    (trace,) = charts.figure(_told(10_000), [])["data"]
    assert len(trace["x"]) <= 4000
    counted = [re.match(r"([\d,]+) attempts", text) for text in trace["hovertext"]]
    assert sum(int(match[1].replace(",", "")) if match else 1 for match in counted) == 10_000


async def test_many_figures_are_thinned_evenly() -> None:
    folder = await stored.session("sim-1", stored.jobs(4), rows=stored.metrics(9000))
    with open_store(folder / STORE) as store:
        rows = store.metrics(100)
    assert {row.slot for row in rows} == {"cpu0", "cpu1"}
    for slot in ("cpu0", "cpu1"):
        speeds = [row.fps for row in rows if row.slot == slot]
        assert 99 <= len(speeds) <= 101
        assert speeds == sorted(speeds, key=lambda fps: fps or 0)
        assert sum(fps or 0 for fps in speeds) / len(speeds) == pytest.approx(5500, rel=0.02)


@pytest.mark.slow
@pytest.mark.skipif(_BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize(("size", "scheme"), [("1280,900", "light"), ("500,900", "dark")])
async def test_a_browser_without_a_network_draws_it(tmp_path: Path, size: str, scheme: str) -> None:
    file = tmp_path / "page.html"
    text = (await _page()).decode()
    file.write_text(text.replace("<title>", f"{_WATCH}<title>", 1).replace("</body>", f"{_TELL}</body>"))
    process = await asyncio.create_subprocess_exec(
        str(_BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'browser'}",
        f"--window-size={size}",
        f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=10000",
        "--dump-dom",
        file.as_uri(),
        stdout=PIPE,
        stderr=DEVNULL,
    )
    out, _ = await process.communicate()
    found = re.search(r'<pre id="told">(.*?)</pre>', out.decode())
    assert found is not None, out[-2000:]
    data = json.loads(unescape(found[1]))
    assert data["refused"] == []
    assert [name for name in data["loaded"] if not name.startswith(("data:", "blob:"))] == []
    assert data["title"] == "sim-1 – gmg-tui report"
    assert data["stolen"] == 0
    assert data["titles"] == [
        "Jobs on their slots",
        "FPS (environment steps per second)",
        "GPU utilisation (%)",
        "VRAM used (GiB)",
        "Power (W)",
        "Temperature (°C)",
    ]
    assert data["bars"] == 13
    assert data["lines"] >= 10
    assert {"cpu0", "cpu1"} <= set(data["slots"])
    assert set(data["legend"]) == {"cpu0", "cpu1", "finished", "failed"}
    assert data["before"] == list(range(1, 14))
    assert data["up"] == [1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 5, 10]
    assert data["down"] == [13, 12, 11, 9, 8, 7, 6, 4, 3, 2, 1, 5, 10]
    assert data["wide"] <= 0
    assert data["legend_box"][1] >= data["time_box"][3]
    assert (data["ink"], data["ground"]) == {
        "light": ("rgb(27, 31, 36)", "rgb(255, 255, 255)"),
        "dark": ("rgb(230, 233, 236)", "rgb(20, 23, 26)"),
    }[scheme]
