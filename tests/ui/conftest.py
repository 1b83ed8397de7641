"""What the tests of the interface share: Textual with its switches, and pictures of one version of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import textual

from gmg_tui import ui

ui.load()

PICTURED = "8.2.8"
"""The version of Textual that the pictures were taken with; another may draw its own widgets otherwise."""


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool]) -> Callable[..., bool]:
    """Compares a screen with its picture, in the version of Textual that it was taken with."""
    if textual.__version__ != PICTURED:
        pytest.skip(f"the pictures are of Textual {PICTURED}, this is {textual.__version__}")
    return snap_compare
