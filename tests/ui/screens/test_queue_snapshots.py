"""Pictures of a sweep, compared cell by cell; `--snapshot-update` makes them anew, after they were looked at."""

from __future__ import annotations

import pytest

from tests.ui import play, sweeps
from tests.ui.fake_engine import FakeEngine
from tests.ui.screens.pictures import LARGE, MIDDLE, SMALL, Compare, drawn

SIZES = pytest.mark.parametrize("size", [SMALL, MIDDLE, LARGE], ids=["80x24", "120x36", "160x48"])


def _drawn(
    compare: Compare,
    size: tuple[int, int],
    keys: str,
    *texts: str,
    engine: FakeEngine | None = None,
    ascii_only: bool = False,
) -> bool:
    app = sweeps.app(engine, ascii_only=ascii_only)
    return drawn(compare, app, size, keys, *texts, first=(f"{play.LOG_LINES} lines",))


@SIZES
def test_main_screen(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert _drawn(snap_compare, size, "", "12/30 jobs")


def test_main_screen_in_ascii(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, MIDDLE, "", "12/30 jobs", ascii_only=True)


def test_main_screen_at_the_end(snap_compare: Compare) -> None:
    engine = sweeps.engine()
    records = sweeps.jobs(30, 30)
    engine.welcome = type(engine.welcome)(1, engine.welcome.session, sweeps.ended_snapshot(records), ())
    assert _drawn(snap_compare, MIDDLE, "", "speed-up", engine=engine)
