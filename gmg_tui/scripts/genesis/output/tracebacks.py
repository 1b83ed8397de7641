"""Finds exceptions in a script's last lines: tracebacks of Python, Rich and loguru, and exception groups."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gmg_tui.model.text import TRACEBACK
from gmg_tui.scripts.genesis.output import line_patterns
from gmg_tui.scripts.genesis.output.failure_signs import table

_EXCEPTION = re.compile(
    rb"(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Fault|Warning)\b(?:: ?.*)?"
)
_AFTER_TRACEBACK = re.compile(rb"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: .*|:)?")
_PREFIX = re.compile(rb"^[^|+\"']{1,200}[\]:] (?=Traceback \(most recent call last\))")
"""A logger's prefix before a traceback, as in Isaac Sim."""
_BOX_TOP = re.compile(r"(?:╭|\+)(?:─|-){1,400} Traceback \(most recent call last\) (?:─|-){1,400}(?:╮|\+)".encode())
"""Rich's `╭─── Traceback (most recent call last) ───╮`, or its ASCII form."""
_BOX_SIDES, _BOX_CORNERS = ("│".encode(), b"|"), ("╰".encode(), b"+-")
_LOGURU_FRAME = b'> File "'
_IGNORED = re.compile(
    rb"(?:Exception ignored (?:in|while|on)\b|Error in atexit\._run_exitfuncs|--- Logging error ---).*"
)
"""Headings of exceptions that do not end the script."""
_CONCURRENT = re.compile(
    rb"Exception in (?:thread|callback) .*|Process \S{1,100}:|Task exception was never retrieved|exception calling callback .*"
)
"""Headings of exceptions that ended a thread, a child process or an asyncio task of the script."""
_WARNING = re.compile(rb"\S{1,400}:\d{1,7}: \w{0,60}Warning: ")
_CHAIN = (b"The above exception was the direct cause of", b"During handling of the above exception, another")
_GROUP = b"+ Exception Group Traceback (most recent call last):"
_GROUP_PART = re.compile(rb"(?:\+-)?\+-{10,}.*")
_GROUP_LINE = re.compile(rb"\| (?!\w*ExceptionGroup\b)((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: .*|:)?)")
_USAGE = re.compile(rb"\S{1,200}: error: .+|.{1,200}: can't open file .+|.{1,200}: No module named .+")


class Line(NamedTuple):
    """A line of output."""

    text: bytes
    """Without escape sequences, stripped."""
    indented: bool
    """True also for lines in a box, and frames that loguru marks."""


def parse(tail: Sequence[bytes]) -> list[Line]:
    """Returns lines of output without escape sequences, boxes, and prefixes of tracebacks."""
    texts = [_PREFIX.sub(b"", line_patterns.MARKUP.sub(b"", line_patterns.plain(raw))) for raw in tail]
    pairs = zip(tail, texts, strict=True)
    indented = (raw[:1] in (b" ", b"\t") or text.startswith(_LOGURU_FRAME) for raw, text in pairs)
    return list(_unbox([Line(*pair) for pair in zip(texts, indented, strict=True) if pair[0]]))


def _unbox(lines: Sequence[Line]) -> Iterator[Line]:
    """Replaces Rich's boxes with plain tracebacks, and joins the wrapped lines of the exception below."""
    index = 0
    while index < len(lines):
        text = lines[index].text
        index += 1
        if _BOX_TOP.fullmatch(text) is None:
            yield lines[index - 1]
            continue
        width = len(text.decode(errors="replace"))
        yield Line(TRACEBACK, indented=False)
        while index < len(lines) and lines[index].text.startswith((*_BOX_SIDES, *_BOX_CORNERS)):
            yield Line(lines[index].text, indented=True)
            index += 1
        wrapped = [line.text for line in lines[index : index + 1]]
        while wrapped and index + 1 < len(lines) and _may_wrap(wrapped[-1], lines[index + 1].text, width):
            index += 1
            wrapped.append(lines[index].text)
        if wrapped:
            yield Line(b" ".join(wrapped), indented=False)
        index += 1


def _may_wrap(text: bytes, following: bytes, width: int) -> bool:
    """True if Rich may have wrapped the line after `text`: the first word of `following` does not fit after it."""
    first = following.partition(b" ")[0]
    return len(f"{text.decode(errors='replace')} {first.decode(errors='replace')}") > width


def is_noise(text: bytes) -> bool:
    """True for lines that follow a failure without explaining it."""
    logged = line_patterns.message(text)
    if logged is not None:
        return logged[0] != b"INFO" or b"Exiting Genesis" in logged[1]
    return table().noise.search(text) is not None


def drop_ignored(lines: Sequence[Line]) -> list[Line]:
    """Removes ignored exceptions, and warnings with their source lines."""
    kept, index = list[Line](), 0
    while index < len(lines):
        ignored = _IGNORED.fullmatch(lines[index].text) is not None
        if not ignored and _WARNING.match(lines[index].text) is None:
            kept.append(lines[index])
        elif ignored and index + 1 < len(lines) and lines[index + 1].text.startswith(TRACEBACK):
            index = _exception_index(lines, index + 1) or index + 1
        else:
            while index + 1 < len(lines) and lines[index + 1].indented:
                index += 1
        index += 1
    return kept


def last_exception(lines: Sequence[Line]) -> bytes | None:
    """Returns the line that names the last exception, from a traceback or Genesis' `[ERROR] X: …`, if any."""
    for index in range(len(lines) - 1, -1, -1):
        text = lines[index].text
        logged = line_patterns.message(text)
        if logged is not None and logged[0] in (b"ERROR", b"CRITICAL"):
            text = logged[1]
        elif text.startswith(TRACEBACK):
            end = _exception_index(lines, index)
            if end is not None:
                return _with_next(lines[end].text, lines, end)
            continue
        elif lines[index].indented or not (
            _EXCEPTION.fullmatch(text) or (_USAGE.fullmatch(text) and not is_noise(text))
        ):
            continue
        # The traceback before it names the exception with its module.
        start = next((i for i in range(index - 1, -1, -1) if lines[i].text.startswith(TRACEBACK)), None)
        end = _exception_index(lines, start) if start is not None else None
        if end is not None and short_class(lines[end].text) == short_class(text):
            return _with_next(lines[end].text, lines, end)
        return _with_next(text, lines, index)
    return None


def uncaught_exception(lines: Sequence[Line], *, main_ended_cleanly: bool = False) -> bytes | None:
    """Returns the exception if the lines end with its traceback; None otherwise, or for ctrl+c or `SystemExit`.

    If the main thread is known to have ended without an exception, only one of a thread, child process or task counts.
    """
    starts = (index for index, line in enumerate(lines) if line.text.startswith(TRACEBACK) or line.text == _GROUP)
    start = max(starts, default=None)
    if start is None:
        return None
    grouped = lines[start].text == _GROUP
    end = start if grouped else _exception_index(lines, start)
    reason = group_exception(lines) if grouped else None if end is None else _with_next(lines[end].text, lines, end)
    if end is None or reason is None or short_class(reason) in (b"KeyboardInterrupt", b"SystemExit"):
        return None
    rest = lines[end + 1 :]
    continued = any(not (line.indented or line.text in reason or is_noise(line.text)) for line in rest)
    is_caught = main_ended_cleanly and not _is_concurrent(lines, start)
    return None if continued or is_caught else reason


def _is_concurrent(lines: Sequence[Line], start: int) -> bool:
    """True if the traceback at `start`, or the first of its chain, has a heading of `_CONCURRENT`."""
    for line in reversed(lines[:start]):
        is_of_chain = line.indented or line.text.startswith((TRACEBACK, *_CHAIN, b"future: <"))
        if not is_of_chain and _AFTER_TRACEBACK.fullmatch(line.text) is None:
            return _CONCURRENT.fullmatch(line.text) is not None
    return False


def causes(lines: Sequence[Line]) -> Iterator[bytes]:
    """Yields the lines that name the causes in a chain of exceptions."""
    for index, line in enumerate(lines):
        if line.text.startswith(_CHAIN):
            yield next((line.text for line in reversed(lines[:index]) if _EXCEPTION.fullmatch(line.text)), b"")


def exceptions(lines: Sequence[Line]) -> Iterator[bytes]:
    """Yields the lines that name the exceptions of all tracebacks, newest first."""
    for start in reversed(range(len(lines))):
        if lines[start].text.startswith(TRACEBACK) and (end := _exception_index(lines, start)) is not None:
            yield _with_next(lines[end].text, lines, end)


def group_exception(lines: Sequence[Line]) -> bytes | None:
    """Returns the first exception of the innermost `ExceptionGroup`; None if the attempt did not end with one."""
    texts = [line.text for line in lines]
    start = next((index for index in reversed(range(len(texts))) if texts[index] == _GROUP), len(texts))
    parts = [index for index in range(start, len(texts)) if _GROUP_PART.fullmatch(texts[index])]
    if not parts or any(text.startswith(TRACEBACK) for text in texts[parts[-1] :]):
        return None
    for first, end in pairwise(parts):
        messages = [match[1] for match in map(_GROUP_LINE.fullmatch, texts[first:end]) if match is not None]
        if messages:
            return messages[-1]
    return None


def short_class(text: bytes) -> bytes:
    """Returns the exception's class, without its module."""
    return text.partition(b":")[0].rpartition(b".")[2]


def _exception_index(lines: Sequence[Line], start: int) -> int | None:
    """Returns the index of the line that names the exception of the traceback at `start`; None if it is missing."""
    end = next((index for index in range(start + 1, len(lines)) if not lines[index].indented), None)
    return end if end is not None and _AFTER_TRACEBACK.fullmatch(lines[end].text) else None


def _with_next(text: bytes, lines: Sequence[Line], index: int) -> bytes:
    """Returns an exception's line, with the next one if it has no text of its own."""
    if not text.endswith(b":"):
        return text
    following = lines[index + 1].text if index + 1 < len(lines) else b""
    return text + b" " + following if following and line_patterns.message(following) is None else text[:-1]
