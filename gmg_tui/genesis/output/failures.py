"""Why an attempt failed, in one line, with advice."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import NamedTuple

from gmg_tui.ddp.observations import Observations
from gmg_tui.genesis.output import lines, torchrun
from gmg_tui.genesis.output.failure_signs import FailureKind, Sign, sign_in, sign_of
from gmg_tui.text import clean

__all__ = ["SEE_LOG", "Failure", "FailureKind", "explain"]

_MAX_TEXT = 200
SEE_LOG = "it will fail again in this way: see its log"
"""The advice where nothing is known of a script's own exception."""


class Failure(NamedTuple):
    """Why an attempt failed."""

    kind: FailureKind
    reason: str
    """One line."""
    advice: str
    """One line; may be empty."""


_EXCEPTION = re.compile(
    rb"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Fault|Warning)\b(?:: ?.*)?"
)
_AFTER_TRACEBACK = re.compile(rb"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: .*|:)?")
_TRACEBACK = b"Traceback (most recent call last)"
_USAGE = re.compile(rb"\S{1,200}: error: .+|.{1,200}: can't open file .+|.{1,200}: No module named .+")
_NATIVE = re.compile(rb"\[[EC] \d\d/\d\d/\d\d [\d:.]+ \d+\] (?P<text>.*)|what\(\):\s*(?P<what>.*)")

_BOX = re.compile(b"|".join(map(str.encode, "─│╭╮╰╯")))

_SIGNALS: dict[int, tuple[str, str]] = {
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
    """Why an attempt ended with `exit_code` (negative: a signal's number), from its last lines as written."""
    first = torchrun.first_failure(tail)
    if first is not None:
        failure = explain(first.exit_code, first.tail)
        return failure._replace(reason=f"rank {first.rank}: {failure.reason}"[:_MAX_TEXT])
    texts = [lines.unmarked(lines.plain(line)) for line in tail]
    if exit_code < 0:
        return _killed(-exit_code, texts)
    found = _reason(texts, indented=[line[:1] in (b" ", b"\t") for line in tail])
    native = _native(texts)
    reason = found or native or _exit_text(exit_code, texts)
    sign = sign_of(reason)
    if sign is None or sign.vague:
        sign = sign_in(_errors(texts)) or sign
    if sign is not None:
        return Failure(sign.kind, _of_collective(sign, texts) or _one_line(reason), sign.advice)
    if found is not None:
        return Failure(FailureKind.SCRIPT, _one_line(reason), SEE_LOG)
    return Failure(FailureKind.UNKNOWN, _one_line(reason), "see the end of its log")


def _killed(number: int, texts: Sequence[bytes]) -> Failure:
    kind = FailureKind.KILLED
    meaning, advice = _SIGNALS.get(number, ("", ""))
    if number == signal.SIGSEGV and _holds_two_llvms(texts):
        kind, meaning = FailureKind.SCRIPT, "triton's LLVM was loaded after Genesis' own"
        advice = "import torch._dynamo before genesis, at the top of the script"
    if number == signal.SIGABRT:
        # Libraries print what went wrong before they abort.
        said, sign = _native(texts), sign_in(_errors(texts))
        if said is not None:
            meaning = clean(said)
        if sign is not None:
            kind, advice, meaning = sign.kind, sign.advice, _of_collective(sign, texts) or meaning
    reason = f"Killed by {_signal(number) or f'signal {number}'} (-{number})"
    return Failure(kind, f"{reason}: {meaning}"[:_MAX_TEXT] if meaning else reason, advice)


def _holds_two_llvms(texts: Sequence[bytes]) -> bool:
    """Whether the faulthandler's trace shows triton's import by torch._dynamo, which DistributedDataParallel imports."""
    return any(b"/triton/" in text for text in texts) and any(b"/torch/_dynamo/" in text for text in texts)


def _of_collective(sign: Sign, texts: Sequence[bytes]) -> str | None:
    """Which collective did not end, or that the ranks did not meet, where the lines say it."""
    if sign.kind not in (FailureKind.NCCL, FailureKind.PEER):
        return None
    seen = Observations()
    seen.feed(b"\n".join(texts))
    if seen.timed_out:
        first = min(seen.timed_out.values(), key=lambda each: each.number)
        return f"{first.operation} #{first.number} did not end within {first.ms / 1000:.0f} s"
    if seen.joined is not None:
        ranks, size, waited_s = seen.joined
        return f"only {ranks} of {size} ranks came to the group's store within {waited_s} s"
    if seen.watchdog_stuck_s is not None:
        return f"NCCL's watchdog has not moved for {seen.watchdog_stuck_s} s"
    return None


def _signal(number: int) -> str | None:
    """The name of a signal; real-time signals have none."""
    return next((each.name for each in signal.Signals if each == number), None)


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
    found = next(filter(None, map(_NATIVE.fullmatch, reversed(texts))), None)
    return (found["text"] or found["what"]) if found is not None else None


def _exit_text(exit_code: int, texts: Sequence[bytes]) -> bytes:
    text = f"exit code {exit_code}"
    sent = _signal(exit_code - 128)
    if sent is not None:
        # A shell reports a child's signal in this way.
        return f"{text} ({sent} in a child)".encode()
    if exit_code in (1, 2):
        # `sys.exit("what is wrong")` ends with 1, its text on standard error; click ends with 2 after `Error: …`.
        said = next((line for text in reversed(texts) if (line := _unboxed(text)) and lines.message(line) is None), b"")
        return f"{text}: ".encode() + said if said and lines.FPS.search(said) is None else text.encode()
    return text.encode()


def _unboxed(text: bytes) -> bytes:
    """`text` without the box that Rich draws around messages; empty for a line of the box alone."""
    return _BOX.sub(b"", text).strip()


def _errors(texts: Sequence[bytes]) -> list[bytes]:
    """The lines that may report an error: remarks and warnings also mention missing GPUs and EGL."""
    return [text for text in texts if not _is_remark(text)]


def _is_remark(text: bytes) -> bool:
    logged = lines.message(text)
    return logged[0] in (b"INFO", b"WARNING", b"DEBUG") if logged is not None else b"warning" in text.lower()


def _one_line(text: bytes) -> str:
    return clean(text).strip()[:_MAX_TEXT]
