"""Why an attempt failed, in one line, and what helps."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gmg_tui.genesis import lines
from gmg_tui.text import clean

_MAX_TEXT = 200


class FailureKind(StrEnum):
    """What sort of failure it is, which decides whether a retry can heal it."""

    CACHE_RACE = "cache race"
    """Two workers wrote one mesh cache file at the same time."""
    FOLDER_RACE = "folder race"
    """Two workers made or removed one folder at the same time."""
    MEMORY = "out of memory"
    """Of the card or, where the text says so, of the host."""
    DEVICE = "device"
    """The wrong card, none, or one that has failed."""
    NCCL = "NCCL"
    EGL = "EGL"
    SCRIPT = "script"
    """The script fails in this way each time."""
    KILLED = "killed"
    """By a signal."""
    CONFIG = "configuration"
    """Permissions, space, or something that is not installed."""
    UNKNOWN = "unknown"

    @property
    def heals(self) -> bool:
        """Whether starting again, unchanged, is likely to help."""
        return self in (FailureKind.CACHE_RACE, FailureKind.FOLDER_RACE)


@dataclass(frozen=True)
class Failure:
    """Why an attempt failed."""

    kind: FailureKind
    reason: str
    """One line."""
    advice: str
    """One line; empty where there is none to give."""


@dataclass(frozen=True)
class _Sign:
    kind: FailureKind
    pattern: re.Pattern[bytes]
    advice: str


def _sign(kind: FailureKind, pattern: bytes, advice: str) -> _Sign:
    return _Sign(kind, re.compile(pattern), advice)


_SIGNS = (
    _sign(
        FailureKind.CACHE_RACE,
        rb"pickle data was truncated|Ran out of input|invalid load key|UnpicklingError|Corrupted cache for terrain",
        "workers wrote the mesh cache at the same time: start again, gated; delete the cache's gsd folder if it stays",
    ),
    _sign(
        FailureKind.MEMORY,
        rb"OutOfMemoryError|CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|CUDA error: out of memory"
        rb"|Out of CUDA pre-allocated memory|Failed to pre-allocate device memory|Device memory allocation \(\d+ B\) failed",
        "use fewer environments, or end other processes that hold the card's memory",
    ),
    _sign(
        FailureKind.NCCL,
        rb"NCCL error|nccl(?:InvalidUsage|InternalError|SystemError|UnhandledCudaError|RemoteError)|DistBackendError"
        rb"|Duplicate GPU detected|Watchdog caught collective operation timeout"
        rb"|does not match expected device for local rank",
        "the workers of a group must start and stop as one, each on a card of its own, with LOCAL_RANK=0 in each",
    ),
    _sign(
        FailureKind.EGL,
        rb"EGL is required to create|eglQueryString|No EGL context could|Invalid device ID \(\d+\)|GLError"
        rb"|egl: failed to create|Invalid OpenGL context|No display detected",
        "no rendering on this card: install NVIDIA's EGL library, unset EGL_DEVICE_ID, or use show_viewer=False",
    ),
    _sign(
        FailureKind.DEVICE,
        rb"CUDA_ERROR_ILLEGAL_ADDRESS|invalid device ordinal",
        "the script must not choose a card by itself (torch.cuda.set_device, CUDA_VISIBLE_DEVICES): it sees one, number 0",
    ),
    _sign(
        FailureKind.DEVICE,
        rb"CUDA_ERROR_NO_DEVICE|No Torch GPU device available|not available for backend|Backend <?gs\.\w+>? not available"
        rb"|cuda device not available|libcuda\.so lib not found|No CUDA GPUs are available",
        "check the driver with nvidia-smi, and that the interpreter has a torch built for CUDA",
    ),
    _sign(
        FailureKind.DEVICE,
        rb"CUDA_ERROR_(?!OUT_OF_MEMORY)\w+|uncorrectable ECC error|device-side assert|GPU is lost"
        rb"|Unexpected error from cudaGetDeviceCount|CUDA error: (?!out of memory)",
        "the card may have failed: look for Xid in the kernel's log (dmesg) before starting again",
    ),
    _sign(
        FailureKind.CONFIG,
        rb"No space left on device|Errno 28|Disk quota exceeded",
        "free space, or move the caches: GS_CACHE_FILE_PATH and QD_OFFLINE_CACHE_FILE_PATH",
    ),
    _sign(
        FailureKind.CONFIG,
        rb"PermissionError|Permission denied|Errno 13|Read-only file system|Errno 30",
        "make it writable, or move the caches: GS_CACHE_FILE_PATH and QD_OFFLINE_CACHE_FILE_PATH",
    ),
    _sign(
        FailureKind.CONFIG,
        rb"No module named '?(?:genesis|torch)\b",
        "install Genesis for that interpreter (pip install genesis-world torch), or name another with --python",
    ),
    _sign(
        FailureKind.CONFIG,
        rb"[Aa]ddress already in use|errno: 98",
        "another run on this host has the port: give each its own --master-port",
    ),
    _sign(
        FailureKind.CONFIG,
        rb"filelock\.\w*Timeout|The file lock '",
        "another process holds that lock; USD files are baked by one process at a time",
    ),
    _sign(
        FailureKind.FOLDER_RACE,
        rb"FileExistsError|Errno 17|Errno 39|Directory not empty"
        rb"|Errno 2\].*/?(?:logs?|runs?|outputs?|checkpoints?|\.cache)/",
        "workers share a folder: give each its own, with {i} or {slot} in the arguments",
    ),
    _sign(
        FailureKind.SCRIPT,
        rb"Genesis already initialized|Genesis hasn't been initialized",
        "the script must call gs.init() once",
    ),
    _sign(
        FailureKind.SCRIPT,
        rb"causing 'nan'|Exceeding max number of",
        "the simulation is not stable or its limits are too low: a smaller time step, or higher limits in RigidOptions",
    ),
    _sign(FailureKind.MEMORY, rb"\bMemoryError|Cannot allocate memory", "the host has too little memory for this run"),
)
_GENERIC = frozenset({FailureKind.CONFIG, FailureKind.FOLDER_RACE, FailureKind.SCRIPT})
"""Kinds whose signs also stand in harmless lines: looked for in the reason alone."""

_EXCEPTION = re.compile(
    rb"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Fault|Warning)\b(?:: ?.*)?"
)
_AFTER_TRACEBACK = re.compile(rb"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: .*|:)?")
_TRACEBACK = b"Traceback (most recent call last)"
_USAGE = re.compile(rb"\S{1,200}: error: .+|.{1,200}: can't open file .+|.{1,200}: No module named .+")
_NATIVE = re.compile(rb"\[[EC] \d\d/\d\d/\d\d [\d:.]+ \d+\] (?P<text>.*)|(?:\s*what\(\): )(?P<what>.*)")

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
    texts = [lines.plain(line) for line in tail]
    if exit_code < 0:
        return _killed(-exit_code, texts)
    found = _reason(texts, indented=[line[:1] in (b" ", b"\t") for line in tail])
    native = _native(texts)
    reason = found or native or _exit_text(exit_code, texts)
    sign = _sign_of(reason) or _sign_in(texts)
    if sign is not None:
        return Failure(sign.kind, _one_line(reason), sign.advice)
    if found is not None:
        return Failure(FailureKind.SCRIPT, _one_line(reason), "it will fail again in this way: see its log")
    return Failure(FailureKind.UNKNOWN, _one_line(reason), "see the end of its log")


def _killed(number: int, texts: Sequence[bytes]) -> Failure:
    try:
        sent = signal.Signals(number)
    except ValueError:
        return Failure(FailureKind.KILLED, f"Killed by signal {number} (-{number})", "")
    meaning, advice = _SIGNALS.get(sent, ("", ""))
    if sent is signal.SIGABRT:
        # Libraries abort after saying what went wrong.
        said, sign = _native(texts), _sign_in(texts)
        if said is not None:
            meaning = clean(said)
        if sign is not None:
            return Failure(sign.kind, _one_line_of(sent, meaning), sign.advice)
    return Failure(FailureKind.KILLED, _one_line_of(sent, meaning), advice)


def _one_line_of(sent: signal.Signals, meaning: str) -> str:
    text = f"Killed by {sent.name} (-{sent.value})"
    return f"{text}: {meaning}"[:_MAX_TEXT] if meaning else text


def _reason(texts: Sequence[bytes], indented: Sequence[bool]) -> bytes | None:
    """The line that names the exception: the last one, also of a chain; Genesis's `[ERROR] X: …` where it is the last."""
    for index in range(len(texts) - 1, -1, -1):
        text = texts[index]
        logged = lines.message(text)
        if logged is not None and logged[0] in (b"ERROR", b"CRITICAL"):
            return _with_next(logged[1], texts, index)
        if text.startswith(_TRACEBACK):
            end = _after(texts, indented, index)
            if end is not None:
                return _with_next(texts[end], texts, end)
        elif not indented[index] and (_USAGE.fullmatch(text) or _EXCEPTION.fullmatch(text)):
            start = _traceback_before(texts, index)
            end = _after(texts, indented, start) if start is not None else None
            return _with_next(texts[end or index], texts, end or index)
    return None


def _traceback_before(texts: Sequence[bytes], index: int) -> int | None:
    return next((i for i in range(index - 1, -1, -1) if texts[i].startswith(_TRACEBACK)), None)


def _after(texts: Sequence[bytes], indented: Sequence[bool], start: int) -> int | None:
    """The index of the line that names the exception of the traceback that begins at `start`."""
    for index in range(start + 1, len(texts)):
        if not indented[index]:
            return index if _AFTER_TRACEBACK.fullmatch(texts[index]) else None
    return None


def _with_next(text: bytes, texts: Sequence[bytes], index: int) -> bytes:
    """An exception's first line; where it says nothing, its next line too."""
    if text.endswith(b":") and index + 1 < len(texts):
        return text + b" " + texts[index + 1]
    return text


def _native(texts: Sequence[bytes]) -> bytes | None:
    """The last error of Quadrants' or Taichi's native logger, or of a C++ exception that nobody caught."""
    for text in reversed(texts):
        match = _NATIVE.fullmatch(text)
        if match is not None:
            return match["text"] or match["what"]
    return None


def _exit_text(exit_code: int, texts: Sequence[bytes]) -> bytes:
    text = f"exit code {exit_code}"
    if exit_code > 128 and exit_code - 128 in signal.valid_signals():
        return f"{text} ({signal.Signals(exit_code - 128).name} in a child)".encode()
    if exit_code == 1:
        # `sys.exit("what is wrong")` ends with 1, its text on standard error.
        said = next((line for line in reversed(texts) if line and lines.message(line) is None), b"")
        return f"{text}: ".encode() + said if said and lines.FPS.search(said) is None else text.encode()
    return text.encode()


def _sign_of(text: bytes) -> _Sign | None:
    return next((sign for sign in _SIGNS if sign.pattern.search(text)), None)


def _sign_in(texts: Sequence[bytes]) -> _Sign | None:
    """A sign in any of the last lines, the newest first; only of a kind that does not stand in harmless ones."""
    for text in reversed(texts):
        sign = _sign_of(text)
        if sign is not None and sign.kind not in _GENERIC:
            return sign
    return None


def _one_line(text: bytes) -> str:
    return clean(text).strip()[:_MAX_TEXT]
