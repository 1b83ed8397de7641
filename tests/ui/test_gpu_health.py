"""Busy SMs and a GPU's health on tiles and in rows."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from gmg_tui.gpu.health import judged
from gmg_tui.model import GpuActivity, GpuHealth, GpuSample, Worker
from gmg_tui.ui.sorting import in_trouble
from gmg_tui.ui.drawing import themes, tile, words, worker_table
from gmg_tui.ui.drawing.words import Shown
from gmg_tui.ui.history import History
from tests.ui import play, sessions
from tests.ui.sessions import changed

_LOOK = play.app_of(play.engine_of(sessions.busy_snapshot(1)), theme=themes.NAMES[0]).appearance
SMS = GpuActivity(sm_pct=41.4)
BROKEN = judged(GpuHealth(ecc_uncorrected=2, pcie_width=8, pcie_width_max=16))
WORN = judged(GpuHealth(pcie_width=8, pcie_width_max=16))
ECC = "2 ECC errors, uncorrected"


def _shown(sample: GpuSample, worker: Worker | None = None) -> Shown:
    slot = sessions.session(1).slots[0]
    history = History()
    for second in range(300):
        history.add(sessions.NOW - 300 + second, sessions.running(0), sessions.sample(0))
    return Shown(slot, worker or sessions.running(0), sample, history, chosen=True, time=sessions.NOW)


def _tile(shown: Shown, width: int) -> list[str]:
    rows = ["".join(segment.text for segment in row) for row in tile.tile(shown, width, _LOOK)]
    assert {cell_len(row) for row in rows} == {width}
    return rows


def _row(shown: Shown, width: int, *, sms: bool = False) -> str:
    layout = worker_table.columns(("gpu0",), width, on_gpus=True, sms=sms)
    text = worker_table.row(shown, layout, _LOOK).strip().text
    assert cell_len(text) == width
    return text


@pytest.mark.parametrize("width", [38, 40, 60])
def test_a_tile_has_busy_sms_beside_utilisation_where_they_are_known(width: int) -> None:
    sample = changed(sessions.sample(0), gpu_util_pct=100.0)
    assert re.search(r"100 %  *41 % SM ", "\n".join(_tile(_shown(changed(sample, activity=SMS)), width)))
    assert "SM" not in "\n".join(_tile(_shown(sample), width))


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_row_has_busy_sms_beside_utilisation_and_others_stay_as_they_are(width: int) -> None:
    sample = changed(sessions.sample(0), gpu_util_pct=100.0)
    layout = worker_table.columns(("gpu0", "gpu1"), width, on_gpus=True, sms=True)
    heading = worker_table.heading(layout, _LOOK).strip().text
    row = _row(_shown(changed(sample, activity=SMS)), width, sms=True)
    assert row.index("100/41") + len("100/41") == heading.index("GPU/SM %") + len("GPU/SM %")
    assert "100/41" in row
    other = _row(_shown(sample), width, sms=True)
    assert other.index("100 ") == row.index("100/41") + 3, "right-aligned"
    assert " 61" in row[-4:]
    assert all(width in columns for columns in (worker_table.columns(("gpu0",), width, on_gpus=True),))


def test_a_broken_gpu_is_one_line_in_red_before_what_is_mild() -> None:
    shown = _shown(changed(sessions.sample(0), health=BROKEN, throttle=("power cap",)))
    notes = words.notes(shown.worker, shown.sample, _LOOK)
    assert [(note.text, note.style) for note in notes] == [(ECC, "error"), ("throttled: power cap", "warn")]
    assert ECC in "\n".join(_tile(shown, 38))
    assert "2 ECC err" in _row(shown, 80)


def test_a_link_that_is_slow_for_good_does_not_hide_the_history() -> None:
    shown = _shown(changed(sessions.sample(0), health=WORN))
    assert words.degraded(shown.sample) == words.Note("PCIe has 8 of 16 lanes", "warn")
    assert "PCIe has 8 of 16 lanes" in "\n".join(_tile(shown, 60))
    assert "█" in _row(shown, 80)
    assert "PCIe has 8 of 16 lanes" in _row(shown, 160)
    assert _row(_shown(sessions.sample(0)), 80)[:50] == _row(shown, 80)[:50]


def test_of_a_lost_gpu_only_that_is_said() -> None:
    lost = GpuSample("GPU-0", lost=True, error="the GPU is lost", health=BROKEN)
    assert [note.text for note in words.trouble(sessions.running(0), lost)] == ["GPU lost: the GPU is lost"]


def test_a_broken_gpu_is_among_those_in_trouble_and_a_slow_link_is_not() -> None:
    found = [in_trouble(sessions.running(0), changed(sessions.sample(0), health=health)) for health in (BROKEN, WORN)]
    assert found == [True, False]
