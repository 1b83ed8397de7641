"""Pictures of a tuning, compared cell by cell; `--snapshot-update` makes them anew, after they were looked at."""

from __future__ import annotations

import pytest

from gmg_tui.model import Tuning
from tests import tunings
from tests.ui.screens.pictures import LARGE, MIDDLE, SMALL, Compare, drawn
from tests.ui.screens.test_tune import app_of


def _drawn(
    compare: Compare,
    tuning: Tuning,
    size: tuple[int, int],
    keys: str,
    *texts: str,
    ascii_only: bool = False,
) -> bool:
    return drawn(compare, app_of(tuning, ascii_only=ascii_only), size, keys, *texts, first=(tuning.step[:20],))


@pytest.mark.parametrize("size", [(60, 12), SMALL, MIDDLE, LARGE], ids=["60x12", "80x24", "120x36", "160x48"])
def test_curve_and_answer(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert _drawn(snap_compare, tunings.EDGE, size, "", "fastest")


def test_first_run(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.FIRST, SMALL, "", "no rate yet")


def test_ladder_on_eight_slots(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.LADDER, LARGE, "", "compiling kernels")


def test_trials_sorted_by_rate(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.CONFIRMING, SMALL, "t right right right right right s home", "FPS↓")


def test_slots(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.LADDER, SMALL, "t t", "compiling kernels")


def test_all_slots_together(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.TOGETHER, LARGE, "tab", "▸ K knee")


def test_ended_in_ascii(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.ENDED, LARGE, "", "> F fastest", ascii_only=True)


def test_least_of_a_metric_on_the_cpu(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.MINIMUM, SMALL, "", "step_ms over bs")


def test_second_model_of_gpu(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.TWO_MODELS, MIDDLE, "m", "2 of 2 models")


def test_question_before_the_plain_run(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.EDGE, SMALL, "enter", "on all 8 slots?")


def test_quit(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, tunings.EDGE, SMALL, "q", "stop the tuning and quit")
