"""Why an attempt failed, in one line, and what helps."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from gmg_tui.genesis import lines
from gmg_tui.genesis.failure_signs import FailureKind, sign_in, sign_of
from gmg_tui.text import clean

__all__ = ["Failure", "FailureKind", "explain"]

_MAX_TEXT = 200


@dataclass(frozen=True)
class Failure:
    """Why an attempt failed."""

    kind: FailureKind
    reason: str
    """One line."""
    advice: str
    """One line; empty where there is none to give."""


_EXCEPTION = re.compile(
    rb"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Fault|Warning)\b(?:: ?.*)?"
)
_AFTER_TRACEBACK = re.compile(rb"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: .*|:)?")
_TRACEBACK = b"Traceback (most recent call last)"
_USAGE = re.compile(rb"\S{1,200}: error: .+|.{1,200}: can't open file .+|.{1,200}: No module named .+")
_NATIVE = re.compile(rb"\[[EC] \d\d/\d\d/\d\d [\d:.]+ \d+\] (?P<text>.*)|what\(\):\s*(?P<what>.*)")

_SIGNALS = {
    signal.SIGKILL: ("the host may have run out of memory", "look for `Out of memory` in the kernel's log (dmesg)"),
    signal.SIGSEGV: ("segmentation fault", "its log ends with where each thread was"),
    signal.SIGABRT: ("aborted", "its log ends with what the library said"),
    signal.SIGBUS: ("bus error", "the shared memory, or the disk of a mapped file, may be full"),
    signal.SIGILL: ("illegal instruction", "a library was built for another processor"),
    signal.SIGFPE: ("arithmetic error", "its log ends with where each thread was"),
    signal.SIGINT: ("interrupted", ""),
    signal.SIGTERM: ("asked to end", "somebody else, or the system, ended it"),
    signal.SIGHUP: ("its terminal is gone", ""),
}


def explain(exit_code: int, tail: Sequence[bytes]) -> Failure:
    """Why an attempt ended.

    Args:
        exit_code: As `returncode`: negative is a signal's number.
        tail: Its last lines as written, both streams, oldest first.
    """
    texts = [lines.unmarked(lines.plain(line)) for line in tail]
    if exit_code < 0:
        return _killed(-exit_code, texts)
    found = _reason(texts, indented=[line[:1] in (b" ", b"\t") for line in tail])
    native = _native(texts)
    reason = found or native or _exit_text(exit_code, texts)
    sign = sign_of(reason) or sign_in(_errors(texts))
    if sign is not None:
        return Failure(sign.kind, _one_line(reason), sign.advice)
    if found is not None:
        return Failure(FailureKind.SCRIPT, _one_line(reason), "it will fail again in this way: see its log")
    return Failure(FailureKind.UNKNOWN, _one_line(reason), "see the end of its log")


def _killed(number: int, texts: Sequence[bytes]) -> Failure:
    sent = _signal(number)
    if sent is None:
        return Failure(FailureKind.KILLED, f"Killed by signal {number} (-{number})", "")
    meaning, advice = _SIGNALS.get(sent, ("", ""))
    if sent is signal.SIGABRT:
        # Libraries abort after saying what went wrong.
        said, sign = _native(texts), sign_in(_errors(texts))
        if said is not None:
            meaning = clean(said)
        if sign is not None:
            return Failure(sign.kind, _one_line_of(sent, meaning), sign.advice)
    return Failure(FailureKind.KILLED, _one_line_of(sent, meaning), advice)


def _signal(number: int) -> signal.Signals | None:
    """The signal of this number, when it has a name: real-time signals have none."""
    return next((each for each in signal.Signals if each.value == number), None)


def _one_line_of(sent: signal.Signals, meaning: str) -> str:
    text = f"Killed by {sent.name} (-{sent.value})"
    return f"{text}: {meaning}"[:_MAX_TEXT] if meaning else text


def _reason(texts: Sequence[bytes], indented: Sequence[bool]) -> bytes | None:
    """The line that names the exception: the last one, also of a chain; Genesis's `[ERROR] X: …` where it is the last."""
    for index in range(len(texts) - 1, -1, -1):
        text = texts[index]
        logged = lines.message(text)
        if logged is not None and logged[0] in (b"ERROR", b"CRITICAL"):
            return _of_traceback(logged[1], texts, indented, index) or _with_next(logged[1], texts, index)
        if text.startswith(_TRACEBACK):
            end = _after(texts, indented, index)
            if end is not None:
                return _with_next(texts[end], texts, end)
        elif not indented[index] and (_USAGE.fullmatch(text) or _EXCEPTION.fullmatch(text)):
            return _of_traceback(text, texts, indented, index) or _with_next(text, texts, index)
    return None


def _of_traceback(text: bytes, texts: Sequence[bytes], indented: Sequence[bool], index: int) -> bytes | None:
    """The last line of the traceback before `index`, when it names the exception of `text`: with its module."""
    start = next((i for i in range(index - 1, -1, -1) if texts[i].startswith(_TRACEBACK)), None)
    end = _after(texts, indented, start) if start is not None else None
    if end is None or _class(texts[end]) != _class(text):
        return None
    return _with_next(texts[end], texts, end)


def _class(text: bytes) -> bytes:
    """The exception's class, without its module."""
    return text.partition(b":")[0].rpartition(b".")[2]


def _after(texts: Sequence[bytes], indented: Sequence[bool], start: int) -> int | None:
    """The index of the line that names the exception of the traceback that begins at `start`."""
    for index in range(start + 1, len(texts)):
        if not indented[index]:
            return index if _AFTER_TRACEBACK.fullmatch(texts[index]) else None
    return None


def _with_next(text: bytes, texts: Sequence[bytes], index: int) -> bytes:
    """An exception's first line; where it says nothing, its next line too."""
    if not text.endswith(b":"):
        return text
    following = texts[index + 1] if index + 1 < len(texts) else b""
    return text + b" " + following if following and lines.message(following) is None else text[:-1]


def _native(texts: Sequence[bytes]) -> bytes | None:
    """The last error of Quadrants' or Taichi's native logger, or of a C++ exception that nobody caught."""
    for text in reversed(texts):
        match = _NATIVE.fullmatch(text)
        if match is not None:
            return match["text"] or match["what"]
    return None


def _exit_text(exit_code: int, texts: Sequence[bytes]) -> bytes:
    text = f"exit code {exit_code}"
    sent = _signal(exit_code - 128)
    if sent is not None:
        # A shell says so of a program that it ran.
        return f"{text} ({sent.name} in a child)".encode()
    if exit_code == 1:
        # `sys.exit("what is wrong")` ends with 1, its text on standard error.
        said = next((line for line in reversed(texts) if line and lines.message(line) is None), b"")
        return f"{text}: ".encode() + said if said and lines.FPS.search(said) is None else text.encode()
    return text.encode()


def _errors(texts: Sequence[bytes]) -> list[bytes]:
    """The lines that may tell of an error: remarks and warnings also speak of missing cards and EGL."""
    return [text for text in texts if not _is_remark(text)]


def _is_remark(text: bytes) -> bool:
    logged = lines.message(text)
    return logged[0] in (b"INFO", b"WARNING", b"DEBUG") if logged is not None else b"warning" in text.lower()


def _one_line(text: bytes) -> str:
    return clean(text).strip()[:_MAX_TEXT]
