"""Pictures of the screens, compared cell by cell; `--snapshot-update` makes them anew, after they were looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.ui.fake_engine import FakeEngine
from tests.ui.screens import stage
from tests.ui.screens.pictures import MIDDLE, SMALL, Compare, drawn


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
    assert _drawn(snap_compare, SMALL, "e alt+up", "Edit gpu0", "gpu0 will restart")


def test_quit(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, "q", "Quit franka-1")


def test_help(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, "question_mark", "Keys")


def test_help_on_120x36(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, MIDDLE, "question_mark end", "n/a")


def test_processes(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, "p down", "Xorg")


def test_confirm(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, "X", "Kill gpu0 now?")


SECTIONS = {"1": "07:00:27", "2": "stopped by a person", "3": "folder", "4": "UUID"}


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("size", [SMALL, MIDDLE], ids=["80x24", "120x36"])
def test_details(snap_compare: Compare, size: tuple[int, int], section: str) -> None:
    assert _drawn(snap_compare, size, f"enter {section}", SECTIONS[section])


def test_details_of_a_worker_in_trouble(snap_compare: Compare) -> None:
    engine = stage.engine(stuck="no output and no CPU time for 74 s", warnings=("the log is not written: disk full",))
    assert _drawn(snap_compare, SMALL, "enter", "disk full", "07:00:27", engine=engine)


def test_details_in_ascii(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, MIDDLE, "enter", "07:00:27", ascii_only=True)


def test_edit_in_ascii(snap_compare: Compare) -> None:
    assert _drawn(snap_compare, SMALL, "e", "Nothing has been changed", ascii_only=True)
