"""Why an attempt failed, in one line, with advice."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from gmg_tui.model.text import clean
from gmg_tui.scripts import torchrun
from gmg_tui.scripts.genesis.output import line_patterns
from gmg_tui.scripts.genesis.output.failure_signs import (
    FailureKind,
    Sign,
    child_signals,
    noise,
    sign_in,
    sign_of,
    table,
)

__all__ = ["SEE_LOG", "Failure", "FailureKind", "Tail", "explain", "explain_recorded", "uncaught"]

_MAX_TEXT = 200
LINES = 200
"""How many of the last lines are searched."""
_BYTES = 128 << 10
SEE_LOG = "it will fail again in this way: see its log"
"""The advice for an exception of the script that no table names."""
_SEE_FILE = "it will fail again in this way: its error.json, in the session's folder ranks, has the traceback"


class Failure(NamedTuple):
    """Why an attempt failed."""

    kind: FailureKind
    reason: str
    """One line."""
    advice: str
    """One line; may be empty."""
    suspect: bool = False
    """True if a broken GPU may be the cause. A text proves nothing: the proof is `FailureKind.LOST`, or that the same job
    then succeeds on another GPU."""


class Tail:
    """The last 128 to 256 KiB of output."""

    def __init__(self) -> None:
        self._text = bytearray()

    def add(self, block: bytes) -> None:
        """Append a block, or its last part where it is long."""
        self._text += block[-_BYTES:]
        if len(self._text) > 2 * _BYTES:
            del self._text[:-_BYTES]

    def lines(self) -> list[bytes]:
        """Returns the last lines that are not blank, without their ends, oldest first."""
        return [line for line in bytes(self._text).splitlines() if line.strip()][-LINES:]


_EXCEPTION = re.compile(
    rb"(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Fault|Warning)\b(?:: ?.*)?"
)
_AFTER_TRACEBACK = re.compile(rb"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: .*|:)?")
_TRACEBACK = b"Traceback (most recent call last)"
_VAGUE_REASON = re.compile(
    rb"[\w.]+:?|(?:[\w.]+\.)?(?:CalledProcessError|ChildFailedError|ProcessExitedException|BrokenProcessPool"
    rb"|TerminatedWorkerError|WorkerCrashedError|BrokenPipeError|ConnectionResetError)\b.*"
    rb"|RuntimeError: DataLoader worker .*"
)
"""An exception without a text, or one that reports only that another process has failed."""
_LOGGED_TRACEBACK = re.compile(rb"^[^|+\"']{1,200}[\]:] (?=Traceback \(most recent call last\))")
"""What a logger puts before a traceback, as Isaac's does."""
_IGNORED = re.compile(
    rb"(?:Exception ignored (?:in|while|on)\b|Error in atexit\._run_exitfuncs|--- Logging error ---).*"
)
"""How Python introduces an exception that does not end the script."""
_CHAIN = (b"The above exception was the direct cause of", b"During handling of the above exception, another")
_GROUP = b"+ Exception Group Traceback (most recent call last):"
_GROUP_PART = re.compile(rb"(?:\+-)?\+-{10,}.*")
_GROUP_LINE = re.compile(rb"\| (?!\w*ExceptionGroup\b)((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: .*|:)?)")
_USAGE = re.compile(rb"\S{1,200}: error: .+|.{1,200}: can't open file .+|.{1,200}: No module named .+")
_NATIVE = re.compile(rb"\[[EC] \d\d/\d\d/\d\d [\d:.]+ \d+\] (?P<text>.*)|what\(\):\s*(?P<what>.*)")
_LONG_LINE = 4096
_TIMED_OUT = re.compile(
    rb"Watchdog caught collective operation timeout: Work\w{1,20}\(SeqNum=(\d{1,19}), OpType=(\w{1,40}).{0,400}?\)"
    rb" ran for (\d{1,15}) milliseconds"
)
"""torch's `ProcessGroupNCCL.cpp` (2.3 to 2.13): which collective, counted from 1, a rank has waited for."""
_ENQUEUED = re.compile(rb"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,20})[,.]")
"""Likewise: the last that it has entered. The others wait for the rank with the lowest."""
_WATCHDOG = re.compile(rb"ProcessGroupNCCL's watchdog got stuck for (\d{1,9}) seconds")
_JOINED = re.compile(rb"Timed out after (\d{1,9}) seconds waiting for clients\. (\d{1,9})/(\d{1,9}) clients joined")
"""torch's `TCPStore.cpp`."""
_REPORTED = (b"gmg:result ", b"gmg:fps ")
"""How lines begin by which a script reports figures."""
_BOX = re.compile(b"|".join(map(str.encode, "─│╭╮╰╯")))
"""What Rich draws around messages."""


def explain(exit_code: int, tail: Sequence[bytes]) -> Failure:
    """Returns why an attempt ended with `exit_code` (negative: a signal's number), from its last lines as written."""
    tail = torchrun.of_the_ranks(tail)
    texts, indented = _plain(tail)
    if exit_code < 0:
        return _killed(-exit_code, texts)
    lasting = _without_ignored(texts, indented)
    exception = _of_group(texts) or _reason(*lasting) or _reason(texts, indented)
    reason = exception or _native(texts) or _exit_text(exit_code, lasting[0])
    sign = sign_of(reason)
    empty = exception is None or _VAGUE_REASON.fullmatch(exception) is not None
    if sign is None or sign.vague or empty:
        # Earlier lines may be of errors that the script survived: they count only where the reason is vague.
        vague = empty or sign is not None
        sign = sign_in(_errors(texts) if vague else _chain(texts)) or sign
    if sign is None or (empty and sign.kind is FailureKind.PEER):
        killed = _of_child(exit_code, exception, texts if empty else [reason])
        if killed is not None:
            return killed
    if sign is not None:
        return Failure(sign.kind, _of_collective(sign, texts) or _one_line(reason), sign.advice, sign.suspect)
    if exception is not None:
        return Failure(FailureKind.SCRIPT, _one_line(reason), SEE_LOG)
    meaning, advice = table().signals.get(_signal(exit_code - 128) or "", ("", "see the end of its log"))
    return Failure(FailureKind.UNKNOWN, _one_line(reason), f"{meaning}: {advice}" if meaning else advice)


def uncaught(tail: Sequence[bytes]) -> str | None:
    """Returns the exception with whose traceback the last lines end, in one line; None where the script went on after it.

    With exit code 0 that is a script which ended by `os._exit(0)`, as Isaac Sim's fast shutdown does.
    """
    texts, indented = _without_ignored(*_plain(torchrun.of_the_ranks(tail)))
    starts = (at for at, text in enumerate(texts) if text.startswith(_TRACEBACK) or text == _GROUP)
    start = max(starts, default=None)
    if start is None:
        return None
    grouped = texts[start] == _GROUP
    end = start if grouped else _after(texts, indented, start)
    reason = _of_group(texts) if grouped else None if end is None else _with_next(texts[end], texts, end)
    if end is None or reason is None or _class(reason) in (b"KeyboardInterrupt", b"SystemExit"):
        return None
    after = zip(texts[end + 1 :], indented[end + 1 :], strict=True)
    goes_on = any(not (space or text in reason or _is_noise(text)) for text, space in after)
    return None if goes_on else _one_line(reason)


def _plain(tail: Sequence[bytes]) -> tuple[list[bytes], list[bool]]:
    """Returns the lines without escape sequences and loggers' prefixes of tracebacks, and which are indented."""
    texts = [_LOGGED_TRACEBACK.sub(b"", line_patterns.unmarked(line_patterns.plain(line))) for line in tail]
    return texts, [line[:1] in (b" ", b"\t") for line in tail]


def _without_ignored(texts: Sequence[bytes], indented: Sequence[bool]) -> tuple[list[bytes], list[bool]]:
    """Returns the lines without the exceptions that Python ignores, and without warnings and their source lines."""
    kept, index = list[int](), 0
    while index < len(texts):
        ignored = _IGNORED.fullmatch(texts[index]) is not None
        if not ignored and not _is_warning(texts[index]):
            kept.append(index)
        elif ignored and index + 1 < len(texts) and texts[index + 1].startswith(_TRACEBACK):
            index = _after(texts, indented, index + 1) or index + 1
        else:
            while index + 1 < len(texts) and indented[index + 1]:
                index += 1
        index += 1
    return [texts[index] for index in kept], [indented[index] for index in kept]


def _is_warning(text: bytes) -> bool:
    return re.match(rb"\S{1,400}:\d{1,7}: \w{0,60}Warning: ", text) is not None


def _is_noise(text: bytes) -> bool:
    """True for lines behind a failure that do not explain it."""
    logged = line_patterns.message(text)
    if logged is not None:
        return logged[0] != b"INFO" or b"Exiting Genesis" in logged[1]
    return noise().search(text) is not None


def _of_child(exit_code: int, exception: bytes | None, texts: Sequence[bytes]) -> Failure | None:
    """Returns the failure of a script whose child was killed by a signal, as the newest such line reports."""
    found = (match["signal"] for text in reversed(texts) for each in child_signals() if (match := each.search(text)))
    name = next(filter(None, map(_signal_called, found)), None)
    if name is None:
        return None
    meaning, advice = table().signals.get(name, ("", ""))
    reason = _one_line(exception) if exception is not None else f"exit code {exit_code}: a child was killed by {name}"
    if exception is None:
        return Failure(FailureKind.KILLED, ": ".join(filter(None, (reason, meaning))), advice)
    return Failure(FailureKind.KILLED, reason, ": ".join(filter(None, (meaning, advice))))


def _signal_called(text: bytes) -> str | None:
    """Returns the name of a signal by its name, its number, or what a shell prints for it."""
    called = text.decode(errors="replace")
    if called.isdigit():
        return _signal(int(called))
    texts = {each.name: (signal.strsignal(each) or "-").lower() for each in signal.Signals}
    return next((name for name, shown in texts.items() if called == name or called.lower().startswith(shown)), None)


def explain_recorded(recorded: torchrun.Recorded) -> Failure:
    """Returns why a script failed that wrote an `error.json`."""
    texts = [line.encode(errors="replace") for line in f"{recorded.traceback}\n{recorded.message}".splitlines()]
    failure = explain(1, [text for text in texts if text.strip()])
    if failure.kind is FailureKind.UNKNOWN:
        first = next((line for line in recorded.message.splitlines() if line.strip()), "")
        failure = Failure(FailureKind.SCRIPT, _one_line(first.encode(errors="replace")), SEE_LOG)
    return failure._replace(advice=_SEE_FILE) if failure.advice == SEE_LOG else failure


def _killed(number: int, texts: Sequence[bytes]) -> Failure:
    kind, suspect = FailureKind.KILLED, False
    name = _signal(number)
    meaning, advice = table().signals.get(name or "", ("", ""))
    if number == signal.SIGSEGV and all(any(part in text for text in texts) for part in (b"/triton/", b"/_dynamo/")):
        # The faulthandler's trace shows triton's import by torch._dynamo, which DistributedDataParallel imports.
        kind, meaning = FailureKind.SCRIPT, "triton's LLVM was loaded after Genesis' own"
        advice = "import torch._dynamo before genesis, at the top of the script"
    if number == signal.SIGABRT:
        # Libraries print what went wrong before they abort.
        message = _native(texts)
        sign = sign_of(message) if message is not None else None
        if message is None or (sign is not None and sign.vague):
            sign = sign_in(_errors(texts)) or sign
        meaning = clean(message) if message is not None else meaning
        if sign is not None:
            kind, advice, suspect = sign.kind, sign.advice, sign.suspect
            meaning = _of_collective(sign, texts) or meaning
    reason = f"Killed by {name or f'signal {number}'} (-{number})"
    return Failure(kind, f"{reason}: {meaning}"[:_MAX_TEXT] if meaning else reason, advice, suspect)


def _of_collective(sign: Sign, texts: Sequence[bytes]) -> str | None:
    """Returns which collective did not end, or that the ranks did not meet; None where no line reports it."""
    if sign.kind not in (FailureKind.NCCL, FailureKind.PEER):
        return None
    text = b"\n".join(line[:_LONG_LINE] for line in texts)
    if (late := min(_TIMED_OUT.findall(text), key=lambda groups: int(groups[0]), default=None)) is not None:
        number, operation, ms = late
        newest = f", and this rank's last is #{int(last[-1])}" if (last := _ENQUEUED.findall(text)) else ""
        return f"{operation.decode()} #{int(number)} did not end within {int(ms) / 1000:.0f} s{newest}"
    if (joined := _JOINED.search(text)) is not None:
        seconds, count, size = map(int, joined.groups())
        return f"only {count} of {size} ranks came to the group's store within {seconds} s"
    stuck = _WATCHDOG.search(text)
    return f"NCCL's watchdog has not moved for {int(stuck[1])} s" if stuck is not None else None


def _signal(number: int) -> str | None:
    """Returns the name of a signal; None for real-time signals."""
    return next((each.name for each in signal.Signals if each == number), None)


def _reason(texts: Sequence[bytes], indented: Sequence[bool]) -> bytes | None:
    """Returns the line that names the last exception, also of a chain, or Genesis's `[ERROR] X: …` where that is the last."""
    for index in range(len(texts) - 1, -1, -1):
        text = texts[index]
        logged = line_patterns.message(text)
        if logged is not None and logged[0] in (b"ERROR", b"CRITICAL"):
            text = logged[1]
        elif text.startswith(_TRACEBACK):
            end = _after(texts, indented, index)
            if end is not None:
                return _with_next(texts[end], texts, end)
            continue
        elif indented[index] or not (_EXCEPTION.fullmatch(text) or (_USAGE.fullmatch(text) and not _is_noise(text))):
            continue
        # The last line of the traceback before it has the exception's module too.
        start = next((i for i in range(index - 1, -1, -1) if texts[i].startswith(_TRACEBACK)), None)
        end = _after(texts, indented, start) if start is not None else None
        if end is not None and _class(texts[end]) == _class(text):
            return _with_next(texts[end], texts, end)
        return _with_next(text, texts, index)
    return None


def _class(text: bytes) -> bytes:
    """Returns the exception's class, without its module."""
    return text.partition(b":")[0].rpartition(b".")[2]


def _after(texts: Sequence[bytes], indented: Sequence[bool], start: int) -> int | None:
    """Returns the index of the line that names the exception of the traceback that begins at `start`."""
    end = next((index for index in range(start + 1, len(texts)) if not indented[index]), None)
    return end if end is not None and _AFTER_TRACEBACK.fullmatch(texts[end]) else None


def _with_next(text: bytes, texts: Sequence[bytes], index: int) -> bytes:
    """Returns an exception's first line; where that has no text, with the next line."""
    if not text.endswith(b":"):
        return text
    following = texts[index + 1] if index + 1 < len(texts) else b""
    return text + b" " + following if following and line_patterns.message(following) is None else text[:-1]


def _chain(texts: Sequence[bytes]) -> list[bytes]:
    """Returns the lines that name the exceptions from which the last one was raised."""
    return [
        next((text for text in reversed(texts[:index]) if _EXCEPTION.fullmatch(text)), b"")
        for index, text in enumerate(texts)
        if text.startswith(_CHAIN)
    ]


def _of_group(texts: Sequence[bytes]) -> bytes | None:
    """Returns the first exception of the innermost `ExceptionGroup`; None where the attempt did not end with one."""
    start = next((index for index in reversed(range(len(texts))) if texts[index] == _GROUP), len(texts))
    parts = [index for index in range(start, len(texts)) if _GROUP_PART.fullmatch(texts[index])]
    if not parts or any(text.startswith(_TRACEBACK) for text in texts[parts[-1] :]):
        return None
    for first, end in pairwise(parts):
        messages = [match[1] for match in map(_GROUP_LINE.fullmatch, texts[first:end]) if match is not None]
        if messages:
            return messages[-1]
    return None


def _native(texts: Sequence[bytes]) -> bytes | None:
    """Returns the last error of Quadrants' or Taichi's native logger, or an uncaught C++ exception."""
    native = next(filter(None, map(_NATIVE.fullmatch, reversed(texts))), None)
    return (native["text"] or native["what"]) if native is not None else None


def _exit_text(exit_code: int, texts: Sequence[bytes]) -> bytes:
    text = f"exit code {exit_code}"
    sent = _signal(exit_code - 128)
    if sent is not None:
        # A shell reports a child's signal in this way.
        return f"{text} ({sent} in a child)".encode()
    # `sys.exit("what is wrong")` ends with 1, its text on standard error; click ends with 2 after `Error: …`.
    unboxed = (_BOX.sub(b"", line).strip() for line in reversed(texts) if exit_code in (1, 2))
    texts_of_script = (
        line
        for line in unboxed
        if line and not line.startswith(_REPORTED) and line_patterns.message(line) is None and not _is_noise(line)
    )
    last = next(texts_of_script, b"")
    return f"{text}: ".encode() + last if last and line_patterns.FPS.search(last) is None else text.encode()


def _errors(texts: Sequence[bytes]) -> list[bytes]:
    """Returns the lines that may report an error: warnings, too, mention missing GPUs and EGL."""

    def is_error(text: bytes) -> bool:
        if (logged := line_patterns.message(text)) is not None:
            return logged[0] in (b"ERROR", b"CRITICAL")
        return b"warning" not in text.lower() and (line_patterns.COMPILER.match(text) is None or text[1:2] in b"EC")

    return list(filter(is_error, texts))


def _one_line(text: bytes) -> str:
    return clean(text).strip()[:_MAX_TEXT]
