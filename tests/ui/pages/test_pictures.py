"""Pictures of the pages and dialogs, compared cell by cell; `--snapshot-update` replaces them: review the changes."""

import pytest

from tests import tunings
from tests.ui import play, sweeps
from tests.ui.pages import test_tried as tried
from tests.ui.pages import test_tuning as tuning
from tests.ui.screens.pictures import LARGE, SMALL, Compare, drawn
from tests.workers import alerts

SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "160x48"])


def test_details_on_80x24(snap_compare: Compare) -> None:
    engine = play.edited_engine(
        alerts=alerts(stuck="no output and no CPU time for 74 s", disk="the log is not written: disk full")
    )
    assert drawn(snap_compare, play.app_of(engine), SMALL, "enter tab", "disk full", "lowest")


def test_details_on_160x48(snap_compare: Compare) -> None:
    assert drawn(snap_compare, play.edited(), LARGE, "enter tab", "lowest")


def test_metrics_in_ascii(snap_compare: Compare) -> None:
    assert drawn(snap_compare, play.app_of(play.edited_engine(), ascii_only=True), SMALL, "enter tab tab", "SM clock")


@SIZES
def test_queue(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert drawn(snap_compare, sweeps.app(), size, "Q down", "#14")


@SIZES
def test_tuning(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert drawn(snap_compare, tuning.app_of(tunings.EDGE), size, "", "recommended", "#15")


@SIZES
def test_tried(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert drawn(snap_compare, play.app_of(tried.engine()), size, "a down", "22,014,000")


def test_processes(snap_compare: Compare) -> None:
    assert drawn(snap_compare, play.edited(), SMALL, "p down", "/usr/lib/xorg/Xorg :0")


def test_help(snap_compare: Compare) -> None:
    assert drawn(snap_compare, play.edited(), SMALL, "question_mark", "Keys")


def test_edit(snap_compare: Compare) -> None:
    assert drawn(snap_compare, play.edited(), SMALL, "e 0", "Edit gpu0", "gpu0 will restart")


def test_quit(snap_compare: Compare) -> None:
    assert drawn(snap_compare, play.edited(), SMALL, "q", "Quit franka-1")
