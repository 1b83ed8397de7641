"""Pictures of the screens, compared cell by cell; `--snapshot-update` replaces them: review the changes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.ui.fake_engine import FakeEngine
from tests.ui.screens import stage
from tests.ui.screens.pictures import SMALL, Compare, drawn


@pytest.fixture(autouse=True)
def universal_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock at the end of the time axis is the same everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _drawn(
    compare: Compare,
    size: tuple[int, int],
    keys: str,
    *texts: str,
    engine: FakeEngine | None = None,
    ascii_only: bool = False,
) -> bool:
    return drawn(compare, stage.app(engine, ascii_only=ascii_only), size, keys, *texts)


def test_edit(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, "e 0", "Edit gpu0", "gpu0 restarts")


def test_quit(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, "q", "Quit franka-1")
