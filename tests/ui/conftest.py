"""What the tests of the interface share: Textual with its switches, and pictures of one version of it."""

import os
import time
from collections.abc import Callable, Iterator

import pytest

os.environ["TEXTUAL_FPS"] = "500"  # read when Textual is imported: a test waits a frame after most keys
import textual.constants

del os.environ["TEXTUAL_FPS"]  # programs that tests start draw as they do for a user

from gmg_tui import ui
from tests.ui.idle import IdleSelector, wait_for_idle

ui.load()

PICTURED = "8.2.8"
"""The version of Textual that the pictures were taken with; another may draw its own widgets otherwise."""


@pytest.fixture(autouse=True)
def _at_the_time_of_the_snapshots() -> Iterator[None]:
    """Clocks show the same everywhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def _patient_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pilot's pauses and key presses last until the app has done everything, on a busy machine too; messages stay."""
    monkeypatch.setattr("gmg_tui.ui.session_app.MESSAGE_TIMEOUT_S", 600.0)
    monkeypatch.setattr("selectors.DefaultSelector", IdleSelector)  # what every loop is made with from now on
    for module in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{module}.wait_for_idle", wait_for_idle)


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool]) -> Callable[..., bool]:
    """Compares a screen with its picture, in the version of Textual that it was taken with."""
    if textual.__version__ != PICTURED:
        pytest.skip(f"the pictures are of Textual {PICTURED}, this is {textual.__version__}")
    return snap_compare
