"""The lines of a log as text: their head and severity. Small on purpose: the screen imports it before its first frame."""

import re
from typing import Final, NamedTuple

from gmg_tui.model.alert import Severity

_DATE: Final = r"(?:\d\d-\d\d-\d\d )?"
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:\.\d{3})?"
HEAD: Final = (
    rf"\[Genesis(?:\] \[{_DATE}(?P<clock>{_CLOCK})\] \[(?P<level>[A-Z]+)\]"
    rf"| {_DATE}(?P<raw_clock>{_CLOCK})(?: (?P<raw_level>[A-Z]+))?\]) "
)
"""The beginning of a line of Genesis' logger, in all themes and versions, with and without the verbose time."""
_HEAD: Final = re.compile(HEAD)
_ERROR: Final = re.compile(
    r"Traceback \(most recent call last\)|(?:ERROR|CRITICAL|FATAL)\b|[\w.]{0,100}(?:Error|Exception)\b"
)
_WARNING: Final = re.compile(r"WARNING\b|(?:\S.{0,400}?:\d{1,9}: )?\w{0,60}Warning: |\[W \d\d/")
"""Python's logging and `warnings`, and the native logger of Quadrants and Taichi."""


_LEVELS: Final = {"WARNING": Severity.WARNING, "ERROR": Severity.ERROR, "CRITICAL": Severity.ERROR}


class Head(NamedTuple):
    """The head of a line of Genesis' logger."""

    clock: str
    """The time of day, as printed: `12:34:56`."""
    level: str
    """`INFO`, `WARNING` …"""
    length: int
    """Characters before the text."""


def head(text: str) -> Head | None:
    """Returns the head of a line of Genesis' logger; None for other lines."""
    match = _HEAD.match(text)
    if match is None:
        return None
    return Head(match["clock"] or match["raw_clock"], match["level"] or match["raw_level"] or "INFO", match.end())


def without_head(text: str) -> str:
    """Returns a line without the head of Genesis' logger."""
    start = head(text)
    return text if start is None else text[start.length :]


def severity(text: str) -> Severity:
    """Returns a line's severity, by its level or by the form of Python's warnings and exceptions."""
    start = head(text)
    if start is not None:
        return _LEVELS.get(start.level, Severity.INFO)
    if _ERROR.match(text):
        return Severity.ERROR
    return Severity.WARNING if _WARNING.match(text) else Severity.INFO
