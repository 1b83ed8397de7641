"""The reason for a failure, with advice."""

import re
import signal
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from gmg_tui.model.text import TRACEBACK, clean
from gmg_tui.scripts import torchrun
from gmg_tui.scripts.genesis.output import line_patterns, tracebacks
from gmg_tui.scripts.genesis.output.failure_signs import FailureKind, Sign, find_sign, sign_of, table

__all__ = ["SEE_LOG", "Failure", "FailureKind", "Tail", "explain", "explain_recorded", "uncaught_exception"]

_MAX_TEXT_CHARS = 200
MAX_LINES = 200
"""Last lines to search."""
_MIN_TAIL_BYTES = 128 << 10
_MAX_LINE_BYTES = 4096
SEE_LOG = "it will fail the same way again: see its log"
"""The advice on an exception without a sign."""
_SEE_FILE = "it will fail the same way again: its error.json, in the session's ranks folder, has the traceback"


class Failure(NamedTuple):
    """The reason why an attempt failed."""

    kind: FailureKind
    reason: str
    advice: str
    """One line; may be empty."""
    suspect: bool = False
    """True if a broken GPU may be the cause. Only `FailureKind.LOST`, or success of the job on another GPU, proves it."""
    of_contents: bool = False
    """True if the contents of a file that the script loaded are the cause, such as of a checkpoint of another kind."""
    others_mib: float = 0.0
    """The GPU memory that other processes used, according to torch's message for a lack of it."""


class Tail:
    """The last 128 to 256 KiB of output."""

    def __init__(self) -> None:
        self._text = bytearray()

    def add(self, block: bytes) -> None:
        """Appends the end of a block."""
        self._text += block[-_MIN_TAIL_BYTES:]
        if len(self._text) > 2 * _MIN_TAIL_BYTES:
            del self._text[:-_MIN_TAIL_BYTES]

    def lines(self) -> list[bytes]:
        """Returns the beginnings of the last non-blank lines, oldest first, without line ends."""
        return [line[:_MAX_LINE_BYTES] for line in bytes(self._text).splitlines() if line.strip()][-MAX_LINES:]


_CHILD_EXCEPTION = re.compile(
    rb"(?:[\w.]+\.)?(?:CalledProcessError|ChildFailedError|ProcessExitedException|BrokenProcessPool"
    rb"|TerminatedWorkerError|WorkerCrashedError|BrokenPipeError|ConnectionResetError|ActorDiedError|RayActorError"
    rb"|EOFError)\b.*|RuntimeError: DataLoader worker .*"
)
"""Exceptions that only report the failure of another process."""
_WITHOUT_TEXT = re.compile(rb"[\w.]+:?")
_NATIVE_ERROR = re.compile(rb"\[[EC] \d\d/\d\d/\d\d [\d:.]+ \d+\] (?P<text>.*)|what\(\):\s*(?P<what>.*)")
_TIMED_OUT = re.compile(
    rb"Watchdog caught collective operation timeout: Work\w{1,20}\(SeqNum=(\d{1,19}), OpType=(\w{1,40}).{0,400}?\)"
    rb" ran for (\d{1,15}) milliseconds"
)
"""Number (from 1), kind and wait (ms) of a collective that timed out (torch's `ProcessGroupNCCL.cpp`, 2.3 to 2.13)."""
_ENQUEUED = re.compile(rb"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,20})[,.]")
"""The last collective that a rank has entered. The others wait for the rank with the lowest number."""
_WATCHDOG = re.compile(rb"ProcessGroupNCCL's watchdog got stuck for (\d{1,9}) seconds")
_JOINED = re.compile(rb"Timed out after (\d{1,9}) seconds waiting for clients\. (\d{1,9})/(\d{1,9}) clients joined")
"""Seconds, ranks that joined, and size of the group (torch's `TCPStore.cpp`)."""
_TENSORFLOW_INFO = re.compile(rb"[\d-]{10} [\d:.]{8,18}: I ")
_LOAD_ERROR = re.compile(
    rb"state.dict|size mismatch|parameter group|SafetensorError|PytorchStreamReader|UnpicklingError|[Ii]nvalid magic number"
    rb"|BadZipFile|not a zip file"
)
"""Exceptions of loading calls."""
_CONTENTS_ERROR = re.compile(rb"(?:[\w.]{1,100}\.)?(?:Key|Attribute|Type|Index)Error\b")
"""Exceptions that unexpected contents cause, if the traceback has a call that loads."""
_PREFIXES = (b"gmg:result ", b"gmg:fps ")
"""Prefixes of lines with a script's figures."""
_NEGATIVE_STATUS = range(241, 253)
"""Exit statuses of `sys.exit(-signal)`, without -1 to -3, which scripts use as plain error codes."""
_SIZE = rb"(\d{1,9}(?:\.\d{1,9})?) (bytes|[KMG]iB)"
_TORCH_MESSAGE = re.compile(
    rb"total capacity of %b of which %b is free\..{0,2000}this process has %b memory in use" % ((_SIZE,) * 3)
)
"""torch's message for a lack of memory (torch 2.13, c10/cuda/CUDACachingAllocator.cpp)."""
_UNITS_MIB = {"bytes": 2.0**-20, "KiB": 2.0**-10, "MiB": 1.0, "GiB": 2.0**10}
_BOX_BORDERS = re.compile(b"|".join(map(str.encode, "─│╭╮╰╯")))
"""The borders of Rich's boxes."""


def explain(exit_code: int, tail: Sequence[bytes]) -> Failure:
    """Returns the failure of an attempt that ended with `exit_code` (negative for a signal), from its last raw lines."""
    lines = tracebacks.parse(torchrun.rank_output(tail))
    texts = [line.text for line in lines]
    if exit_code < 0:
        return _signal_failure(-exit_code, texts)
    relevant = tracebacks.drop_ignored(lines)
    exception = (
        tracebacks.group_exception(lines) or tracebacks.last_exception(relevant) or tracebacks.last_exception(lines)
    )
    reason = exception or _native_error(texts) or _exit_text(exit_code, [line.text for line in relevant])
    sign = sign_of(reason)
    is_child_report = exception is not None and _CHILD_EXCEPTION.fullmatch(exception) is not None
    is_uninformative = exception is None or is_child_report or _WITHOUT_TEXT.fullmatch(exception) is not None
    cause = None
    if sign is None or sign.vague or is_uninformative:
        # The script may have survived the errors of earlier lines: they count only if the reason is vague.
        vague = is_uninformative or sign is not None
        found = find_sign(_error_lines(texts) if vague else list(tracebacks.causes(lines)))
        sign, cause = found if found is not None else (sign, None)
    if sign is None or (is_uninformative and sign.kind in (FailureKind.PEER, FailureKind.KILLED)):
        killed = _child_failure(exit_code, exception, texts if is_uninformative else [reason])
        if killed is not None:
            return killed
        own_exceptions = (name for name in tracebacks.exceptions(lines) if not _CHILD_EXCEPTION.fullmatch(name))
        if (
            is_child_report
            and (sign is None or sign.kind is FailureKind.KILLED)
            and (earlier := next(own_exceptions, None)) is not None
        ):
            return Failure(FailureKind.SCRIPT, _with_cause(reason, earlier), SEE_LOG)
    if sign is not None:
        text = _describe_collective(sign, texts) or _with_cause(reason, cause)
        others_mib = _used_by_others_mib(texts) if sign.kind is FailureKind.MEMORY else 0.0
        return Failure(sign.kind, text, sign.advice, sign.suspect, others_mib=others_mib)
    if exception is not None:
        return Failure(FailureKind.SCRIPT, _one_line(reason), SEE_LOG, of_contents=_is_of_contents(reason, lines))
    return Failure(FailureKind.UNKNOWN, _one_line(reason), "see the end of its log")


def _used_by_others_mib(texts: Sequence[bytes]) -> float:
    """Returns the memory that other processes used according to torch's last message for a lack of it; 0 without one."""
    for match in filter(None, map(_TORCH_MESSAGE.search, reversed(texts))):
        words = [word.decode("ascii") for word in match.groups()]
        sizes_mib = [float(size) * _UNITS_MIB[unit] for size, unit in zip(words[::2], words[1::2], strict=True)]
        total_mib, free_mib, own_mib = sizes_mib
        return total_mib - free_mib - own_mib
    return 0.0


def is_load_error(reason: str) -> bool:
    """True for the exception of a call that loads a file."""
    return _LOAD_ERROR.search(reason.encode()) is not None


def _is_of_contents(reason: bytes, lines: Sequence[tracebacks.Line]) -> bool:
    """True if an exception is due to a file's contents; all others may pass, such as of a taken port or an absent server."""
    start = max((index for index, line in enumerate(lines) if line.text.startswith(TRACEBACK)), default=len(lines))
    loads = any(b"load" in line.text or b"restore" in line.text for line in lines[start:])
    return _LOAD_ERROR.search(reason) is not None or (loads and _CONTENTS_ERROR.match(reason) is not None)


def uncaught_exception(tail: Sequence[bytes], *, main_ended_cleanly: bool = False) -> str | None:
    """Returns the exception if the last lines end with its traceback; None otherwise, or if the main thread caught it.

    A script can print one and still exit with 0, by `os._exit(0)` as in Isaac Sim's fast shutdown.
    """
    lines = tracebacks.drop_ignored(tracebacks.parse(torchrun.rank_output(tail)))
    exception = tracebacks.uncaught_exception(lines, main_ended_cleanly=main_ended_cleanly)
    return _one_line(exception) if exception is not None else None


def _with_cause(reason: bytes, cause: bytes | None) -> str:
    """Returns the reason, followed by the cause unless that adds nothing."""
    if cause is None or cause in reason or ((sign := sign_of(cause)) is not None and sign_of(reason) == sign):
        return _one_line(reason)
    return f"{_one_line(reason)[: _MAX_TEXT_CHARS // 2]}, after {_one_line(cause)}"[:_MAX_TEXT_CHARS]


def _child_failure(exit_code: int, exception: bytes | None, texts: Sequence[bytes]) -> Failure | None:
    """Returns the failure if a signal killed a child of the script, from the newest line that reports it; else None."""
    found = (match for text in reversed(texts) for pattern in table().child_signal if (match := pattern.search(text)))
    name = next(filter(None, map(_reported_signal, found)), None) or _signal_of_status(exit_code)
    if name is None:
        return None
    meaning, advice = table().signals.get(name, ("", ""))
    if exception is not None:
        return Failure(FailureKind.KILLED, _one_line(exception), ": ".join(filter(None, (meaning, advice))))
    reason = f"exit code {exit_code}: a child was killed by {name}"
    return Failure(FailureKind.KILLED, ": ".join(filter(None, (reason, meaning))), advice)


def _reported_signal(match: re.Match[bytes]) -> str | None:
    """Returns the name of the signal in a match of `Table.child_signal`; None if unknown."""
    groups = match.groupdict()
    if status := groups.get("status"):
        return _signal_of_status(int(status))
    text = groups["signal"].decode(errors="replace")
    if text.isdigit():
        return _signal_name(int(text))
    texts = {known.name: (signal.strsignal(known) or "-").lower() for known in signal.Signals}
    found = (
        name for name, signal_text in texts.items() if name in (text, f"SIG{text}") or _names_signal(text, signal_text)
    )
    return next(found, None)


def _names_signal(text: str, signal_text: str) -> bool:
    """True if a shell's text for a signal matches libc's, which zsh shortens and others extend."""
    return len(text) > 4 and (text.lower().startswith(signal_text) or signal_text.startswith(text.lower()))


def _signal_of_status(status: int) -> str | None:
    """Returns the signal behind a wrapper's exit status: 128 + n (a shell's) or 256 - n (`sys.exit(-n)`); else None."""
    return _signal_name(status - 128) or (_signal_name(256 - status) if status in _NEGATIVE_STATUS else None)


def explain_recorded(recorded: torchrun.RecordedError) -> Failure:
    """Returns the failure that an `error.json` describes."""
    texts: list[bytes] = []
    for text in (recorded.traceback, recorded.message):
        lines = (line.encode(errors="replace")[:_MAX_LINE_BYTES] for line in text.splitlines() if line.strip())
        texts += deque(lines, MAX_LINES)
    failure = explain(1, texts)
    if failure.kind is FailureKind.UNKNOWN:
        first = next((line for line in recorded.message.splitlines() if line.strip()), "")
        failure = Failure(FailureKind.SCRIPT, _one_line(first.encode(errors="replace")), SEE_LOG)
    return failure._replace(advice=_SEE_FILE) if failure.advice == SEE_LOG else failure


def _signal_failure(number: int, texts: Sequence[bytes]) -> Failure:
    kind, suspect = FailureKind.KILLED, False
    name = _signal_name(number)
    meaning, advice = table().signals.get(name or "", ("", ""))
    if number == signal.SIGSEGV and all(any(part in text for text in texts) for part in (b"/triton/", b"/_dynamo/")):
        # DistributedDataParallel imports torch._dynamo, which imports triton, as the faulthandler's trace shows.
        kind, meaning = FailureKind.SCRIPT, "triton's LLVM was loaded after Genesis' own"
        advice = "import torch._dynamo before genesis, at the top of the script"
    if number == signal.SIGABRT:
        # Libraries print the error before they abort.
        message = _native_error(texts)
        sign = sign_of(message) if message is not None else None
        if (message is None or (sign is not None and sign.vague)) and (
            found := find_sign(_error_lines(texts))
        ) is not None:
            sign, line = found
            message = line if message is None else message
        meaning = clean(message) if message is not None else meaning
        if sign is not None:
            kind, advice, suspect = sign.kind, sign.advice, sign.suspect
            meaning = _describe_collective(sign, texts) or meaning
    reason = f"Killed by {name or f'signal {number}'} (-{number})"
    return Failure(kind, f"{reason}: {meaning}"[:_MAX_TEXT_CHARS] if meaning else reason, advice, suspect)


def _describe_collective(sign: Sign, texts: Sequence[bytes]) -> str | None:
    """Describes the collective or the rendezvous that failed; None if no line reports it."""
    if sign.kind not in (FailureKind.NCCL, FailureKind.PEER):
        return None
    text = b"\n".join(texts)
    if (late := min(_TIMED_OUT.findall(text), key=lambda groups: int(groups[0]), default=None)) is not None:
        number, operation, ms = late
        newest = f", and this rank's last is #{int(last[-1])}" if (last := _ENQUEUED.findall(text)) else ""
        return f"{operation.decode()} #{int(number)} did not end within {int(ms) / 1000:.0f} s{newest}"
    if (joined := _JOINED.search(text)) is not None:
        seconds, count, size = map(int, joined.groups())
        return f"only {count} of {size} ranks joined the group's store within {seconds} s"
    stuck = _WATCHDOG.search(text)
    return f"NCCL's watchdog was stuck for {int(stuck[1])} s" if stuck is not None else None


def _signal_name(number: int) -> str | None:
    """Returns the name of a signal; None for real-time signals."""
    return next((known.name for known in signal.Signals if known == number), None)


def _native_error(texts: Sequence[bytes]) -> bytes | None:
    """Returns the last error of Quadrants' or Taichi's native logger, or an uncaught C++ exception."""
    native = next(filter(None, map(_NATIVE_ERROR.fullmatch, reversed(texts))), None)
    return (native["text"] or native["what"]) if native is not None else None


def _exit_text(exit_code: int, texts: Sequence[bytes]) -> bytes:
    text = f"exit code {exit_code}"
    # `sys.exit("message")` prints the message and exits with 1; click prints `Error: …` and exits with 2.
    unboxed = (_BOX_BORDERS.sub(b"", line).strip() for line in reversed(texts) if exit_code in (1, 2))
    script_lines = (
        line for line in unboxed if line and not line.startswith(_PREFIXES) and line_patterns.message(line) is None
    )
    last_line = next((line for line in script_lines if not tracebacks.is_noise(line)), b"")
    return (
        f"{text}: ".encode() + last_line if last_line and line_patterns.FPS.search(last_line) is None else text.encode()
    )


def _error_lines(texts: Sequence[bytes]) -> list[bytes]:
    """Returns the lines that may report an error, without warnings, which mention missing GPUs and EGL too."""

    def is_error(text: bytes) -> bool:
        if (logged := line_patterns.message(text)) is not None:
            return logged[0] in (b"ERROR", b"CRITICAL")
        if b"is not a failure" in text or _TENSORFLOW_INFO.match(text):
            return False
        return b"warning" not in text.lower() and (line_patterns.COMPILER.match(text) is None or text[1:2] in b"EC")

    return list(filter(is_error, texts))


def _one_line(text: bytes) -> str:
    return clean(text.strip()).strip()[:_MAX_TEXT_CHARS]
