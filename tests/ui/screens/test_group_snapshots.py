"""Pictures of groups of ranks on the main screen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gmg_tui.model import Snapshot
from tests.ui import play, ranks
from tests.ui.screens.pictures import Compare, drawn

_SIZES = ((160, 48), (100, 30), (80, 24), (60, 12))


def _named(size: tuple[int, int]) -> str:
    return "{}x{}".format(*size)


@pytest.mark.parametrize("size", _SIZES, ids=_named)
@pytest.mark.parametrize("made", [ranks.summed, ranks.whole, ranks.pairs])
def test_groups(snap_compare: Compare, made: Callable[[], Snapshot], size: tuple[int, int]) -> None:
    assert drawn(snap_compare, play.app_of(play.engine_of(made())), size, "", f"{play.LOG_LINES} lines")


def test_groups_that_have_ended(snap_compare: Compare) -> None:
    assert drawn(snap_compare, play.app_of(play.engine_of(ranks.ended())), (100, 30), "", f"{play.LOG_LINES} lines")


@pytest.mark.parametrize("size", [(160, 48), (80, 24)], ids=_named)
def test_groups_in_ascii(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = play.app_of(play.engine_of(ranks.pairs()), ascii_only=True)
    assert drawn(snap_compare, app, size, "", f"{play.LOG_LINES} lines")
