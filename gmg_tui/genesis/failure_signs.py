"""The texts by which a failure is known, and what helps against each: Genesis's, Quadrants', torch's, NCCL's, EGL's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


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
class Sign:
    """A text that tells what sort of failure it is (Genesis's, torch's, Quadrants' and NCCL's own words)."""

    kind: FailureKind
    pattern: re.Pattern[bytes]
    advice: str


def _sign(kind: FailureKind, pattern: bytes, advice: str) -> Sign:
    return Sign(kind, re.compile(pattern), advice)


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


def sign_of(text: bytes) -> Sign | None:
    """The first sign that stands in `text`."""
    return next((sign for sign in _SIGNS if sign.pattern.search(text)), None)


def sign_in(texts: Sequence[bytes]) -> Sign | None:
    """A sign in any of the last lines, the newest first; only of a kind that does not stand in harmless ones."""
    for text in reversed(texts):
        sign = sign_of(text)
        if sign is not None and sign.kind not in _GENERIC:
            return sign
    return None
