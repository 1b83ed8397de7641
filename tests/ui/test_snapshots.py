"""Pictures of the main screen, compared cell by cell; `--snapshot-update` replaces them: review the changes."""

import pytest

from tests.ui import nodes, play, ranks, sessions, sweeps
from tests.ui.play import FakedApp
from tests.ui.screens.pictures import LARGE, MIDDLE, SMALL, Compare, drawn

TINY, HUGE = (60, 15), (250, 70)


def _drawn(compare: Compare, size: tuple[int, int], app: FakedApp, keys: str = "") -> bool:
    lines = f"{play.LOG_LINES} lines" if size != TINY else "Running at"
    return drawn(compare, app, size, keys, lines, first=(lines,))


@pytest.mark.parametrize("size", [TINY, SMALL, LARGE, HUGE], ids=lambda size: "{}x{}".format(*size))
def test_main_screen(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert _drawn(snap_compare, size, play.varied())


def test_cpu_slots(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, play.app_of(play.engine_of(sessions.cpu_snapshot(), cpus=2)), "t")


def test_64_slots(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, LARGE, play.busy(64))


def test_all_ended(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, MIDDLE, play.app_of(play.engine_of(sessions.ended_snapshot())))


def test_ascii(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, LARGE, play.app_of(play.engine_of(ranks.pairs()), ascii_only=True))


def test_groups(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, play.app_of(play.engine_of(ranks.pairs())))


def test_nodes(snap_compare: Compare) -> None:
    app = nodes.app_of(nodes.lost(nodes.varied(), "n2", sessions.NOW - 75))
    assert _drawn(snap_compare, LARGE, app, "t do:screen.fold")


def test_sweep(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, LARGE, sweeps.app())


def test_theme_of_the_terminal(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, play.app_of(play.engine_of(sessions.varied_snapshot()), theme="ansi"))
