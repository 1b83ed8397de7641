"""Pictures of the main screen, compared cell by cell; `--snapshot-update` makes them anew, after they were looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from gmg_tui.model import Snapshot
from tests.ui import play, sessions

Compare = Callable[..., bool]


async def _settled(pilot: Pilot[Any]) -> None:
    await play.sees(pilot, f"{play.LOG_LINES} lines")


def _drawn(
    compare: Compare,
    size: tuple[int, int],
    snapshot: Snapshot,
    *,
    cpus: int = 0,
    theme: str | None = None,
    ascii_only: bool = False,
) -> bool:
    app = play.app_of(play.engine_of(snapshot, cpus=cpus), theme=theme, ascii_only=ascii_only)
    return compare(app, terminal_size=size, run_before=_settled)


def test_table_on_80x24(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, (80, 24), sessions.varied_snapshot())


def test_trouble_on_80x24(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, (80, 24), sessions.troubled_snapshot())


def test_tiles_on_120x36(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, (120, 36), sessions.troubled_snapshot())


def test_tiles_on_160x48(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, (160, 48), sessions.varied_snapshot())


def test_tiles_on_200x60(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, (200, 60), sessions.varied_snapshot())


def test_cpu_slots(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, (100, 30), sessions.cpu_snapshot(), cpus=2)


def test_64_slots(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, (120, 36), sessions.busy_snapshot(64))


def test_ascii(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, (120, 36), sessions.varied_snapshot(), ascii_only=True)


@pytest.mark.parametrize("theme", ["ansi"])
def test_theme(snap_compare: Compare, theme: str) -> None:
    assert _drawn(snap_compare, (120, 36), sessions.varied_snapshot(), theme=theme)


def test_no_color(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert _drawn(snap_compare, (80, 24), sessions.varied_snapshot())


def test_all_ended(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, (120, 36), sessions.ended_snapshot())
