"""The page is self-contained, escapes workers' text, and is drawn by a real browser without a network."""

import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gmg_tui.model import WorkerState
from gmg_tui.results import report_charts as charts
from gmg_tui.results import report_page as page
from gmg_tui.results.job_columns import columns
from gmg_tui.results.report import collect
from gmg_tui.session import STORE, find
from gmg_tui.session.store.reader import open_store
from tests import tunings
from tests.results.report import stored
from tests.results.report.stored import report
from tests.results.web.browser import BROWSER, browser
from tests.session.store.records import START, attempt_of, finished

_WATCH = """<script>
window.refused = [];
document.addEventListener("securitypolicyviolation", (event) => window.refused.push(event.blockedURI));
</script>"""
_FACTS = """(() => {
  const all = (query) => Array.from(document.querySelectorAll(query));
  const table = all("table.sortable").find((one) => one.tHead.textContent.includes("tm_score"));
  const numbers = () => Array.from(table.tBodies[0].rows, (row) => Number(row.cells[0].textContent));
  const column = Array.from(table.tHead.querySelectorAll("button")).find((one) => one.textContent === "tm_score");
  const before = numbers(); column.click(); const up = numbers(); column.click(); const down = numbers();
  return {
    refused: window.refused, before, up, down, title: document.title,
    loaded: performance.getEntriesByType("resource").map((entry) => entry.name).filter((one) => !/^(data|blob):/.test(one)),
    stolen: all("td b, .plotly-graph-div b").length,
    titles: all(".annotation-text").map((one) => one.textContent),
    lines: all(".scatterlayer .js-line").length,
    bars: all(".barlayer .point path").length,
    slots: all(".ytick text").map((one) => one.textContent),
    legend: all(".legendtext").map((one) => one.textContent),
    wide: document.documentElement.scrollWidth - innerWidth,
  };
})()"""


async def _page(path: Path, **more: Any) -> str:
    """The page of a session with twelve jobs, and one whose words are hostile."""
    evil = stored.HOSTILE
    jobs = stored.jobs(12)
    result = {evil: evil, "tm_score": 0.5, "whole": 2**2000}
    jobs.append(finished(13, name=evil, reason=evil, values={evil: evil}, result=result))
    second = attempt_of(jobs[1], 2, started=START + 25, args=("--lr", "0.9"))
    attempts = [*(attempt_of(job) for job in jobs), second]
    await stored.session("sim-1", jobs, attempts=attempts, rows=stored.metrics(), **more)
    assert report("--html", str(path)) == (f"{path}\n", "", 0)
    return path.read_text()


async def test_the_page_is_self_contained_and_escapes_worker_text(tmp_path: Path) -> None:
    text = await _page(tmp_path / "page.html")
    library = re.search(r"<script[^>]*>/\*\*\s*\* plotly\.js.*?</script>", text, re.DOTALL)
    assert library is not None
    rest = text.replace(library[0], "")
    assert "http" not in rest.replace("http-equiv", "")
    assert "default-src 'none'" in rest
    assert "<script>document.title" not in rest
    assert "<b>x</b>" not in rest
    assert "&lt;b&gt;x&lt;/b&gt;" in rest


async def test_the_chart_shows_states_metrics_and_failures() -> None:
    rows = [
        row._replace(job=1, state="building" if (row.time - START) % 10 < 3 else "running")
        for row in stored.metrics(40)
        if row.time >= START + 10
    ]
    job = finished(1, slot="cpu0")
    failed = attempt_of(job, 1, ended=START + 20, state=WorkerState.FAILED, reason="out of memory")
    again = attempt_of(job, 2, started=START + 20, ended=START + 30)
    edited = attempt_of(job, 3, started=START + 30, ended=START + 40, args=("--lr", "0.9"))
    await stored.session("sim-1", [job], attempts=[failed, again, edited], rows=rows)
    entry = find("sim-1", running=False)
    with open_store(entry.folder / STORE) as store:
        drawn = charts.draw_timeline(collect(entry, store), store).to_dict()
    traces = {trace["name"]: trace for trace in drawn["data"] if trace.get("yaxis", "y") == "y"}
    assert {"building", "running"} <= traces.keys()
    assert traces["building"]["x"] == [3000.0] * 3
    assert traces["running"]["x"] == [7000.0] * 3
    assert traces["failure"]["hovertext"] == ["failure: out of memory"]
    titles = [note["text"] for note in drawn["layout"]["annotations"]]
    assert titles[:2] == ["Slots", "FPS (environment steps per second)"]
    assert "SMs busy (%)" not in titles
    colours = {trace["line"]["color"] for trace in drawn["data"] if trace["name"] == "cpu0"}
    assert colours == {charts.COLOURS[0]}


async def test_the_first_seconds_do_not_set_the_axis() -> None:
    rows = [row._replace(job=1, fps=1e6 if row.time < START + 8 else 1000.0) for row in stored.metrics(60)]
    await stored.session("sim-1", [finished(1, slot="cpu0")], rows=rows)
    entry = find("sim-1", running=False)
    with open_store(entry.folder / STORE) as store:
        drawn = charts.draw_timeline(collect(entry, store), store).to_dict()
    assert drawn["layout"]["yaxis2"]["range"] == [0.0, 1080.0]
    assert "range" not in drawn["layout"]["yaxis3"]
    assert "VRAM" in drawn["layout"]["annotations"][2]["text"]


async def test_results_stand_beside_fps_and_vram_by_job() -> None:
    jobs = [finished(n, memory_peak_mib=2048.0, result={"reward": value}) for n, value in enumerate((5.0, math.nan), 1)]
    (figure,) = charts.draw_jobs(
        jobs, [c for c in columns(jobs) if c.name in ("fps_mean", "memory_peak_mib", "reward")], jobs[0]
    )
    drawn = figure.to_dict()
    assert [note["text"] for note in drawn["layout"]["annotations"]] == ["FPS", "reward", "VRAM GiB"]
    assert [list(trace["y"]) for trace in drawn["data"]] == [[90.0, 180.0], [5.0, None], [2.0, 2.0]]
    assert drawn["data"][0]["marker"]["color"] == [charts.COLOURS[1], charts.COLOURS[0]]


@pytest.mark.parametrize("name", ["LADDER", "EDGE", "ENDED", "CUSTOM"])
def test_the_curve_of_a_tuning_has_every_trial(name: str) -> None:
    tuning = getattr(tunings, name)
    drawn = charts.draw_tuning(tuning).to_dict()
    trials = [trial for trial in tuning.trials if trial.rate is not None and trial.kind != "together"]
    traces = [trace for trace in drawn["data"] if trace["mode"] == "lines+markers"]
    points = [point for trace in traces for point in zip(trace["x"], trace["y"], strict=True)]
    assert sorted(points) == sorted((trial.value, trial.rate) for trial in trials)


async def test_the_page_of_a_tuning_has_its_trials_once(tmp_path: Path) -> None:
    tuned = structs.replace(stored.snapshot(cpu0=100.0), tuning=tunings.ENDED)
    text = await _page(tmp_path / "page.html", snapshot=tuned)
    assert ("<h2>Tuning" in text, "<h2>Workers</h2>" in text, "<h2>Jobs</h2>" in text) == (True, False, False)
    best = tunings.ENDED.answer.recommended
    assert f'"name":"recommended {best.value:,}"' in text


def test_the_section_of_a_tuning_escapes_its_text() -> None:
    evil = stored.HOSTILE
    answer = structs.replace(tunings.ENDED.answer, model=evil, warnings=(evil,))
    trials = (structs.replace(tunings.ENDED.trials[0], reason=evil), *tunings.ENDED.trials[1:])
    spec = structs.replace(tunings.SPEC, variable=evil, metric=evil)
    changed = structs.replace(tunings.ENDED, spec=spec, trials=trials, answer=answer, command=(evil,))
    text = "".join(page.render_tuning(changed))
    assert "<script>document" not in text.replace("&lt;", "")
    assert text.count("&lt;b&gt;x&lt;/b&gt;") > 4


@pytest.mark.process
async def test_without_plotly_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    await stored.session("sim-1", stored.jobs(3))
    monkeypatch.setitem(sys.modules, "plotly", None)
    out, err, status = report("--html", "page.html")
    assert (out, status) == ("", 1)
    assert err == f"gmg-tui: --html needs plotly; install it with: {sys.executable} -m pip install plotly\n"


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
async def test_a_browser_without_a_network_draws_it(tmp_path: Path) -> None:
    of_one, comparison = tmp_path / "page.html", tmp_path / "comparison.html"
    text = await _page(of_one, snapshot=stored.snapshot(cpu0=100.0))
    of_one.write_text(text.replace("<title>", f"{_WATCH}<title>", 1))
    await stored.session("sim-2", stored.jobs(3), attempts=[])
    assert report("sim-1", "sim-2", "--html", str(comparison))[2] == 0
    async with browser() as shown:
        await shown.open(of_one.as_uri())
        await shown.until("document.querySelectorAll('.scatterlayer .js-line').length >= 10")
        facts = await shown.evaluate(_FACTS)
        await shown.open(comparison.as_uri())
        await shown.until("document.querySelectorAll('.barlayer .point path').length >= 3")
        assert shown.refused == []
    assert (facts["refused"], facts["loaded"], facts["stolen"]) == ([], [], 0)
    assert facts["title"] == "sim-1 – gmg-tui report"
    assert {"Slots", "FPS (environment steps per second)", "GPU utilisation (%)", "Power (W)"} <= set(facts["titles"])
    assert facts["bars"] == 14
    assert {"cpu0", "cpu1"} <= set(facts["slots"])
    assert {"finished", "failed", "failure"} <= set(facts["legend"])
    assert facts["before"] == [1, 2, 2, *range(3, 14)]
    assert facts["up"][-2:] == [5, 10]
    assert facts["down"][0] == 13
    assert facts["wide"] <= 0
