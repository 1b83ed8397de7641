"""Whatever was done to the program, in the end no process and no lock of it is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from .scale import FULL


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """At full length a test takes minutes."""
    for item in items:
        if FULL and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(autouse=True)
def _clean(nothing_is_left: None) -> None:
    """Every test of this folder is held to it."""
