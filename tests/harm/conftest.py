"""Whatever was done to the program, no process and no lock of it remains."""

import pytest


@pytest.fixture(autouse=True)
def _clean(nothing_is_left: None) -> None:
    """Applies to every test of this folder."""
