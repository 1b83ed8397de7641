"""Which tests run, in which order, and in how many processes.

`pytest` alone runs the fast ones, `--all` every one. Where much is asked for, worker processes share it (pytest-xdist).
"""

from __future__ import annotations

import os

import pytest

_LATER = ("slow", "terminal", "genesis")
"""Markers of tests that `pytest` alone leaves out, in the order in which `--all` runs them in a single process."""
_MOST_WORKERS = 4
"""More would disturb the tests that measure time; the tests of Genesis, which run one by one, bound the time anyway."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked slow, terminal and genesis as well")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes `-n auto`, which pyproject.toml sets, means: none for a file, a test, or a look at output."""
    by_name = any(arg.partition("::")[0].endswith(".py") for arg in config.args)
    options = config.option
    if by_name or options.keyword or options.capture == "no" or getattr(options, "update_snapshots", False):
        return 0
    return min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


def _place(item: pytest.Item) -> int:
    return max((number for number, name in enumerate(_LATER, 1) if item.get_closest_marker(name)), default=0)


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A single process shows early what the fast ones say. Several are done soonest when the longest begin first.
    items.sort(key=_place, reverse=hasattr(config, "workerinput"))
    for item in items:
        if item.get_closest_marker("genesis"):
            item.add_marker(pytest.mark.xdist_group("genesis"))  # they share a cache, and one of them fills two cores
    if config.getoption("--all") or config.getoption("-m"):
        return
    chosen_by_name = any("::" in arg for arg in config.args)
    if not chosen_by_name:
        left_out = [item for item in items if _place(item)]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not _place(item)]
