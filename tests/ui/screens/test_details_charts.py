"""The charts of a worker's details: on one time axis, with figures and units, and what gives way where there is no room."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from gmg_tui.gpu.health import judged
from gmg_tui.model import GpuActivity, GpuHealth, GpuSample, Series, Xid
from gmg_tui.ui.screens.details import sections
from gmg_tui.ui.screens.details.sections import Subject
from gmg_tui.ui.screens.details.window import Life, Window
from tests.ui.screens import stage
from tests.ui.sessions import changed

_LOOK = stage.app().appearance
_AXIS = re.compile(r"╰[─┬]+$")


def _charts(width: int = 80, height: int = 40, **changes: Any) -> list[str]:
    """The section of charts of a subject with `changes`."""
    snapshot = stage.snapshot()
    subject = Subject(
        stage.GPU_SESSION.slots[0], snapshot.workers[0], snapshot.samples[0], stage.NOW, None, stage.series()
    )
    return [strip.text for strip in sections.charts(subject._replace(**changes), width, height, _LOOK)]


def _plots(rows: list[str]) -> dict[str, list[str]]:
    """The rows of each chart, right of the line, by the chart's title."""
    found: dict[str, list[str]] = {}
    title = ""
    for row in rows:
        label, line, plot = row.partition("│")
        if line and found:
            found[title].append(plot)
        elif not label.startswith(" "):
            title = row.split()[0]
            found[title] = []
    return found


def _edges(rows: list[str], title: str) -> tuple[str, str]:
    """What stands at the upper and at the lower edge of a chart."""
    at = next(number for number, row in enumerate(rows) if row.startswith(title))
    labels = [row.partition("│")[0].strip() for row in rows[at + 1 : at + 1 + len(_plots(rows)[title])]]
    return labels[0], labels[-1]


def test_the_four_charts_stand_on_one_time_axis() -> None:
    some = tuple(None if 40 <= step < 60 else 100.0 for step in range(142))
    rows = _charts(series=Series("gpu0", stage.NOW, 4.0, some, some, some, some))
    plots = _plots(rows)
    assert list(plots) == ["FPS", "GPU", "VRAM", "power"]
    assert {len(row) for row in rows} == {80}
    assert sum(bool(_AXIS.search(row.rstrip())) for row in rows) == 1
    for plot in plots.values():
        assert [column for column, dots in enumerate(plot[-1]) if dots == " "] == list(range(20, 30))
    ticks = [number for number, sign in enumerate(rows[-2]) if sign == "┬"]
    ago = [(match.start() + match.end() - 1) / 2 for match in re.finditer(r"-\S+", rows[-1])]
    assert [round(one) for one in ago] == pytest.approx(ticks, abs=1)
    assert len(ticks) >= 2


def test_titles_and_edges_have_the_figures_with_their_units() -> None:
    rows = _charts()
    titles = [row for row in rows if row[:1].strip() and "│" not in row]
    assert titles[0].startswith("FPS 24,013,029  1 column = 16 s")
    assert [title.rstrip() for title in titles[1:]] == ["GPU 97 %", "VRAM 30.2 of 79.6 GiB", "power 612 of 700 W"]
    assert _edges(rows, "FPS") == ("25.0M", "0")
    assert _edges(rows, "GPU") == ("100 %", "0 %")
    assert _edges(rows, "VRAM") == ("80 GiB", "0 GiB")
    assert _edges(rows, "power") == ("700 W", "0 W")


def test_the_height_of_a_column_is_its_figure_on_its_scale() -> None:
    flat = Series("gpu0", stage.NOW, 1.0, (20e6,) * 10, (50.0,) * 10, (81559 / 4,) * 10, (700.0,) * 10)
    plots = _plots(_charts(height=38, series=flat))
    heights = {title: sum("⣿" in row for row in rows) for title, rows in plots.items()}
    assert [len(rows) for rows in plots.values()] == [8] * 4
    assert heights == {"FPS": 8, "GPU": 4, "VRAM": 2, "power": 8}
    assert all(row.endswith("⣿" * 5) and not row[:-5].strip() for row in plots["power"])


def test_a_peak_of_memory_is_kept_where_others_are_means() -> None:
    many = 1420
    spike = tuple(81559.0 if step == 700 else 0.0 for step in range(many))
    load = tuple(100.0 if step == 700 else 0.0 for step in range(many))
    plots = _plots(_charts(series=Series("gpu0", stage.NOW, 1.0, (1.0,) * many, load, spike, (1.0,) * many)))
    assert plots["VRAM"][0].strip()
    assert not plots["GPU"][0].strip()


def test_figures_that_are_missing_are_named_and_not_drawn_as_nought() -> None:
    unknown = Series("gpu0", stage.NOW, 1.0, (None,) * 9, (None,) * 9, (None,) * 9, (None,) * 9)
    worker = msgspec.structs.replace(stage.snapshot().workers[0], fps=None)
    silent = GpuSample(stage.gpu(0).uuid, gpu_util_pct=3.0)
    lost = GpuSample(stage.gpu(0).uuid, lost=True, error="GPU is lost (Xid 79)")
    unanswered = GpuSample(stage.gpu(0).uuid, error="no answer from the driver", age_s=83.0)
    for sample, why, now in (
        (None, "no sample yet", "GPU n/a %"),
        (silent, "n/a: not reported by the GPU", "GPU 3 %"),
        (lost, "GPU is lost (Xid 79)", "GPU n/a %"),
        (unanswered, "no answer from the driver", "GPU n/a %"),
    ):
        rows = _charts(series=unknown, worker=worker, sample=sample)
        assert sum(why in row for row in rows) == 3
        assert sum("none printed yet" in row for row in rows) == 1
        assert any(row.startswith(now) for row in rows)
        assert any(row.startswith("FPS – ") for row in rows)
        assert not re.search("[⠁-⣿]", "".join(rows))


def test_a_share_of_the_cpu_has_the_chart_of_its_fps_alone() -> None:
    slot = stage.CPU_SESSION.slots[0]
    rows = _charts(slot=slot, sample=None, height=12, series=Series("cpu0", stage.NOW, 1.0, (100.0, 140.0)))
    assert list(_plots(rows)) == ["FPS"]
    assert _edges(rows, "FPS") == ("150", "0")
    assert len(rows) == 12


@pytest.mark.parametrize(("height", "titles"), [(14, 4), (13, 3), (8, 2), (5, 1), (4, 0)])
def test_charts_give_way_from_below_where_rows_are_few(height: int, titles: int) -> None:
    rows = _charts(height=height)
    assert sum(bool(plot) for plot in _plots(rows).values()) == titles
    assert len(rows) <= height
    assert (rows[0].strip() == "too small for charts") == (titles == 0)


@pytest.mark.parametrize("width", [80, 101, 102, 120, 200])
def test_figures_stand_beside_the_charts_where_there_is_room(width: int) -> None:
    rows = _charts(width=width, height=30)
    assert {len(row.rstrip()) <= width for row in rows} == {True}
    assert any("SM clock" in row for row in rows) == (width >= 102)


def test_busy_sms_have_a_chart_where_they_are_known() -> None:
    series = stage.series()
    known = changed(series, sm_pct=tuple(41.0 for _ in series.fps))
    sample = changed(stage.sample(0), activity=GpuActivity(41.4))
    rows = _charts(series=known, sample=sample)
    assert list(_plots(rows)) == ["FPS", "GPU", "SMs", "VRAM", "power"]
    assert any(re.match(r"SMs +41 % busy", row) for row in rows), rows
    assert _edges(rows, "SMs") == ("100 %", "0 %")
    assert list(_plots(_charts(window=Window(60.0), life=Life(stage.NOW - 100, stage.NOW), series=known)))[2] == "SMs"


def test_the_gpu_section_has_all_its_health_with_what_to_do() -> None:
    health = judged(
        GpuHealth(
            ecc_corrected=1234,
            ecc_uncorrected=2,
            remap_pending=True,
            memory_temperature_c=71.0,
            pcie_gen=5,
            pcie_gen_max=5,
            pcie_width=8,
            pcie_width_max=16,
            pstate=0,
            xids=(Xid(31, stage.NOW, 4),),
        )
    )
    snapshot = stage.snapshot()
    sample = changed(
        stage.sample(0), activity=GpuActivity(41.4, 22.0, dram_pct=12.0, nvlink_rx_mib_s=7e3), health=health
    )
    subject = Subject(stage.GPU_SESSION.slots[0], snapshot.workers[0], sample, stage.NOW, None, stage.series())
    text = "\n".join(strip.text.strip() for strip in sections.gpu(subject, (), 120, _LOOK))
    for words in (
        "2 ECC errors, uncorrected; what was computed may be wrong: end what runs there and reset it",
        "a memory row waits to be replaced; when nothing runs there",
        "PCIe has 8 of 16 lanes; check",
        "2 uncorrected, 1,234 corrected",
        "ever n/a uncorrected, n/a corrected",
        "71 °C",
        "generation 5 of 5, x8 of x16",
        "n/a errors",
        "state P0",
        "4 times: a kernel used memory that is not its own",
        "41 %, occupancy 22 %",
        "n/a, DRAM bandwidth 12 %",
        "in 7000, out n/a MiB/s",
    ):
        assert words in text, text
