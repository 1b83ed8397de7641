"""Which tests run: the fast ones, or with `--all` every one, the fast ones first."""

from __future__ import annotations

import pytest

_LATER = ("slow", "terminal", "genesis")
"""Markers of tests that `pytest` alone leaves out, in the order in which `--all` runs them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked slow, terminal and genesis as well")


def _place(item: pytest.Item) -> int:
    return max((number for number, name in enumerate(_LATER, 1) if item.get_closest_marker(name)), default=0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_place)
    if config.getoption("--all") or config.getoption("-m"):
        return
    chosen_by_name = any("::" in arg for arg in config.args)
    if not chosen_by_name:
        left_out = [item for item in items if _place(item)]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not _place(item)]
