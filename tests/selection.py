"""Which tests run, in which order, and in how many processes.

`pytest` alone runs the tests that need no second process; `--all` runs every test but those of `tests/hardware`, which
`-m gpu` runs. Tests that start a process are found by their code (`starts_process`) and
get the marker `process`; a test without it that starts one anyway fails.
"""

import functools
import os
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

_EXCLUDED = ("process", "slow", "terminal", "genesis")
"""Markers of tests that `pytest` alone leaves out, in the order in which `--all` runs them in a single process."""
_MOST_WORKERS = 4
"""More would disturb each other. With `--all` there are two for each core: most tests of processes wait."""
_MODULES = frozenset({"subprocess", "pexpect", "pty", "multiprocessing"})
_NAMES = frozenset({"create_subprocess_exec", "create_subprocess_shell", "Popen", "fork", "forkpty", "posix_spawn"})
_AUDITED = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run every test, also those that start processes")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes `-n auto`, which pyproject.toml sets, means: none for a file, a test, or a look at output."""
    by_name = any(arg.partition("::")[0].endswith(".py") for arg in config.args)
    options = config.option
    if by_name or options.keyword or options.capture == "no" or getattr(options, "update_snapshots", False):
        return 0
    cores = len(os.sched_getaffinity(0))
    return min(2 * cores if options.all else cores, _MOST_WORKERS)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@functools.cache
def _function_starts_process(function: FunctionType) -> bool:
    """Whether a function of the tests, or one of the tests' that it calls, starts a process."""
    seen, queue = {function}, [function]
    while queue:
        current = queue.pop()
        names = set(_names(current.__code__))
        if names & _NAMES:
            return True
        for name in names:
            value = current.__globals__.get(name)
            if isinstance(value, ModuleType):
                if value.__name__ in _MODULES:
                    return True
                if value.__name__.startswith("tests."):
                    queue += _unseen(seen, *(getattr(value, attribute, None) for attribute in names))
            else:
                queue += _unseen(seen, value)
    return False


def _unseen(seen: set[FunctionType], *values: Any) -> list[FunctionType]:
    """The functions of the tests among `values`, or methods of classes among them, that are not in `seen` yet."""
    functions = []
    for value in values:
        members = vars(value).values() if isinstance(value, type) else (value,)
        for member in members:
            plain = getattr(member, "__func__", member)
            plain = getattr(plain, "__wrapped__", plain)
            if isinstance(plain, FunctionType) and plain.__module__.startswith("tests.") and plain not in seen:
                seen.add(plain)
                functions.append(plain)
    return functions


def starts_process(item: pytest.Item) -> bool:
    """Whether the code of a test, of its fixtures, or of the functions of the tests that these call, starts a process."""
    if not isinstance(item, pytest.Function):
        return False
    definitions = item._fixtureinfo.name2fixturedefs.values()
    functions = [item.function, *(definition.func for each in definitions for definition in each)]
    plain = (getattr(function, "__func__", function) for function in functions)
    return any(
        _function_starts_process(function)
        for function in plain
        if isinstance(function, FunctionType) and function.__module__.startswith("tests.")
    )


def _order(item: pytest.Item) -> int:
    return max((number for number, name in enumerate(_EXCLUDED, 1) if item.get_closest_marker(name)), default=0)


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("genesis"):
            item.add_marker(pytest.mark.xdist_group("genesis"))  # they share a cache, and one of them fills two cores
        if starts_process(item):
            item.add_marker(pytest.mark.process)
    # A single process runs the fastest first. Several are done soonest when the longest begin first.
    items.sort(key=_order, reverse=hasattr(config, "workerinput"))
    if config.getoption("-m") or any("::" in arg for arg in config.args):
        return
    everything = config.getoption("--all")
    excluded = [item for item in items if item.get_closest_marker("gpu") or (_order(item) and not everything)]
    if excluded:
        config.hook.pytest_deselected(items=excluded)
        left_out = set(excluded)
        items[:] = [item for item in items if item not in left_out]


_current: pytest.Item | None = None


def _refuse(event: str, _: tuple[Any, ...]) -> None:
    """Fail a test that starts a process without being recognised as one that does."""
    if event in _AUDITED and _current is not None and not _order(_current) and not _current.config.getoption("--all"):
        raise RuntimeError(f"{_current.nodeid} starts a process: give it the marker `process`")


sys.addaudithook(_refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _current
    _current = item
    try:
        return (yield)
    finally:
        _current = None
