"""Progress lines in a script's own words, which regular expressions with named groups describe (`--pattern`).

Python's `re` may take a time that grows exponentially with the line for an expression with a repetition inside a
repetition, such as `(a+)+b`. So those are refused, and of a line only the first `LINE` characters are matched. An
expression that takes longer than `SLOW_S` for a line all the same, as `.*.*.*.*x` may, is interrupted and not used any
more in that attempt, which is told: `re` looks for signals while it matches, and a timer of the process sends one.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator, Sequence
from re import _constants, _parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

from gmg_tui.errors import GmgError
from gmg_tui.readers.interface import Figures, figures, number
from gmg_tui.text import strip_ansi

LINE = 500
"""Characters of a line that are matched."""
SLOW_S = 0.05
"""As much CPU time may one expression take for one line, seconds."""
NAMES = ("fps", "n_envs", "done", "total")
METRIC = "metric_"
_BLOCK = 1 << 16
"""Bytes of a block that are matched, the last ones: in a flood the newest lines count."""
_REPEATS = frozenset({_constants.MAX_REPEAT, _constants.MIN_REPEAT})
_FEW = 8
"""A repetition up to so many times is no danger inside another."""


def check(patterns: Sequence[str], where: str = "--pattern") -> tuple[str, ...]:
    """The patterns, each of which can be used.

    Args:
        patterns: Regular expressions.
        where: What said them, for the errors: an option, or a key of a file and its line.

    Raises:
        GmgError: One is no regular expression, has none of the groups, an unknown one, or may take for ever.
    """
    for pattern in patterns:
        try:
            compiled, parsed = re.compile(pattern), _parser.parse(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise GmgError(f"{where} {pattern!r}: no regular expression: {error}") from error
        groups = tuple(compiled.groupindex)
        wrong = [name for name in groups if name not in NAMES and not _is_metric(name)]
        if not groups or wrong:
            unknown = f"the group {wrong[0]} has no meaning" if wrong else "no named group"
            raise GmgError(
                f"{where} {pattern!r}: {unknown}; use (?P<fps>…), (?P<n_envs>…), (?P<done>…), (?P<total>…) or (?P<metric_NAME>…)"
            )
        if "total" in groups and "done" not in groups and not any("(?P<done>" in one for one in patterns):
            raise GmgError(f"{where} {pattern!r}: total needs done, as in (?P<done>\\d+)/(?P<total>\\d+)")
        if _nested(parsed, inside=False):
            raise GmgError(
                f"{where} {pattern!r}: a repetition inside a repetition may take for ever on a long line; write it without"
            )
    return tuple(patterns)


def _is_metric(name: str) -> bool:
    return name.startswith(METRIC) and len(name) > len(METRIC)


def _nested(parsed: Any, *, inside: bool) -> bool:
    """Whether a part that is repeated without limit repeats something without limit itself."""
    for operation, argument in parsed:
        repeats = operation in _REPEATS and argument[1] > _FEW
        if repeats and inside:
            return True
        if any(_nested(part, inside=inside or repeats) for part in _parts(argument)):
            return True
    return False


def _parts(argument: Any) -> Iterator[Any]:
    """The expressions in the argument of an operation."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, list | tuple):
        for one in argument:
            yield from _parts(one)


class Patterns:
    """Reads the lines that patterns match, of which `check` has approved. All patterns are tried on each line."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [re.compile(pattern) for pattern in patterns]
        self._slow: list[str] = []

    def read(self, block: bytes) -> Iterator[Figures]:
        """The figures of each match."""
        for raw in block[-_BLOCK:].splitlines():
            if not self._patterns:
                return
            text = strip_ansi(raw[: 8 * LINE]).decode("utf-8", "replace")[:LINE]
            for pattern in tuple(self._patterns):
                try:
                    match = _search(pattern, text)
                except _TooLongError:
                    self._patterns.remove(pattern)
                    self._slow.append(pattern.pattern)
                    continue
                if match is not None:
                    yield _of(match)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which patterns are not used any more."""
        return tuple(
            f"--pattern {pattern!r} takes too long for a line and is not used any more" for pattern in self._slow
        )


class _TooLongError(Exception):
    """A line takes an expression too long."""


class _Timer:
    """The timer of this process's CPU time; only the main thread, in which the engine reads, may have it."""

    armed = False

    @classmethod
    def ring(cls, number: int, frame: FrameType | None) -> None:
        """End the search, unless it has just ended."""
        del number, frame
        if cls.armed:
            raise _TooLongError


def _search(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """What `pattern` finds. Raises `_TooLongError`."""
    if threading.current_thread() is not threading.main_thread():
        return pattern.search(text)
    if signal.getsignal(signal.SIGVTALRM) != _Timer.ring:
        signal.signal(signal.SIGVTALRM, _Timer.ring)
    try:
        _Timer.armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, SLOW_S)
        return pattern.search(text)
    finally:
        _Timer.armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _of(match: re.Match[str]) -> Figures:
    said = {name: value for name, text in match.groupdict().items() if text and (value := number(text)) is not None}
    metrics = {name.removeprefix(METRIC): value for name, value in said.items() if _is_metric(name)}
    return figures(said, metrics)
