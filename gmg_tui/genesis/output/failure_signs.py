"""The texts that identify a failure, with advice: Genesis's, Quadrants', torch's, NCCL's, EGL's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class FailureKind(StrEnum):
    """The kind of failure, which decides whether a retry can help."""

    CACHE_RACE = "cache race"
    """Two workers wrote one mesh cache file at the same time."""
    FOLDER_RACE = "folder race"
    """Two workers made or removed one folder at the same time."""
    MEMORY = "out of memory"
    """Of the GPU."""
    HOST_MEMORY = "out of host memory"
    DEVICE = "device"
    """The wrong GPU, none, or one that has failed."""
    DRIVER = "driver"
    """The driver does not answer."""
    NCCL = "NCCL"
    PORT = "port"
    """The port of a group's store is taken."""
    PEER = "peer"
    """Another rank of the group is gone."""
    GROUP = "group"
    """Ended because another rank of the group has failed."""
    EGL = "EGL"
    SCRIPT = "script"
    """The script fails in this way every time."""
    KILLED = "killed"
    """By a signal."""
    CONFIG = "configuration"
    """Permissions, disk space, or something not installed."""
    UNKNOWN = "unknown"

    @property
    def heals(self) -> bool:
        """Whether an unchanged restart is likely to help."""
        return self in (FailureKind.CACHE_RACE, FailureKind.FOLDER_RACE, FailureKind.DRIVER)


class Sign(NamedTuple):
    """A text that identifies a kind of failure."""

    kind: FailureKind
    pattern: bytes
    """A regular expression, compiled when a failure is looked for."""
    advice: str
    vague: bool = False
    """Whether other lines may say more exactly what has failed."""


_SIGNS = (
    Sign(
        FailureKind.CACHE_RACE,
        rb"pickle data was truncated|Ran out of input|invalid load key|UnpicklingError|Corrupted cache for terrain",
        "workers wrote the mesh cache at the same time: start again, gated; delete the cache's gsd folder if it stays",
    ),
    Sign(
        FailureKind.MEMORY,
        rb"OutOfMemoryError|CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|CUDA error: out of memory"
        rb"|Cuda failure (?:\d+ )?'out of memory'|Out of CUDA pre-allocated memory|Failed to pre-allocate device memory|Device memory allocation \(\d+ B\) failed",
        "use fewer environments, or end other processes that use the GPU's memory",
    ),
    Sign(
        FailureKind.PORT,
        rb"server socket has failed to listen on any local network address",
        "another program listens there; --ddp takes another port by itself",
    ),
    Sign(
        FailureKind.PEER,
        rb"seconds waiting for clients\. \d+/\d+ clients joined",
        "the other ranks never came to init_process_group: look where their logs end",
    ),
    Sign(
        FailureKind.PEER,
        rb"The client socket has timed out after \S+ while trying to connect to",
        "rank 0 has opened no store there: look where its log ends, and whether the script sets MASTER_ADDR or MASTER_PORT",
    ),
    Sign(
        FailureKind.PEER,
        rb"Timed out waiting \d+ms for (?:recv|send) operation to complete|Application timeout caused pair closure",
        "another rank did not come to that collective: look at the rank that is behind, or prints nothing any more",
    ),
    Sign(
        FailureKind.PEER,
        rb"Connection closed by peer|Connection reset by peer|recvValue failed|Broken pipe.*c10d",
        "look at the rank that failed first",
    ),
    Sign(
        FailureKind.NCCL,
        rb"Cuda failure (?:\d+ )?'an illegal memory access"
        rb"|watchdog thread terminated with exception: CUDA error: an illegal memory access",
        "between consumer cards --env NCCL_SHM_DISABLE=1 --env NCCL_IB_DISABLE=1 --env NCCL_ALGO=Ring helps; "
        "else a kernel has written out of bounds",
    ),
    Sign(
        FailureKind.NCCL,
        rb"Watchdog caught collective operation timeout",
        "another rank did not come to that collective (look at the one that is behind), or the GPUs do not reach each other",
    ),
    Sign(
        FailureKind.NCCL,
        rb"ProcessGroupNCCL's watchdog got stuck for",
        "a CUDA call hangs, or a thread holds Python's lock: TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC is how long that may last",
    ),
    Sign(
        FailureKind.NCCL,
        rb"Duplicate GPU detected",
        "all ranks took the first GPU: with --virtual-local-rank each sees its own alone, as plain Genesis scripts want it",
    ),
    Sign(
        FailureKind.NCCL,
        rb"Device 'cuda:0' does not match expected device for local rank '[1-9]",
        "with --virtual-local-rank each rank sees its own GPU alone, as cuda:0 and local rank 0",
    ),
    Sign(
        FailureKind.NCCL,
        rb"Device 'cuda:\d+' does not match expected device for local rank",
        "this script counts GPUs as torchrun does: run it without --virtual-local-rank, and let it set no "
        "CUDA_VISIBLE_DEVICES",
    ),
    Sign(
        FailureKind.NCCL,
        rb"Device '.{1,40}' does not match expected device for local rank",
        "rsl_rl has ranks on GPUs alone: one worker on the CPU, or device cuda:LOCAL_RANK in each",
    ),
    Sign(
        FailureKind.NCCL,
        rb"NCCL error|nccl(?:InvalidUsage|InternalError|SystemError|UnhandledCudaError|RemoteError)|DistBackendError"
        rb"|we are taking the entire process down",
        "--env NCCL_DEBUG=WARN says more; the ranks of a group must start and stop as one (--ddp), each on its own GPU",
        vague=True,
    ),
    Sign(FailureKind.EGL, rb"No display detected", "there is no display here: show_viewer=False"),
    Sign(
        FailureKind.EGL,
        rb"Invalid device ID \(\d+\)|EGL context could not be initialized for EGL_DEVICE_ID",
        "unset EGL_DEVICE_ID: EGL counts its devices in its own way",
    ),
    Sign(
        FailureKind.EGL,
        rb"EGL is required to create|eglQueryString|No EGL context could|GLError|egl: failed to create"
        rb"|Invalid OpenGL context",
        "no rendering here: install the EGL library (NVIDIA's for a GPU, libegl1 for a CPU), or render nothing",
    ),
    Sign(
        FailureKind.DEVICE,
        rb"CUDA_ERROR_ILLEGAL_ADDRESS|invalid device ordinal",
        "the script must not choose a GPU by itself (torch.cuda.set_device, CUDA_VISIBLE_DEVICES): it sees one, number 0",
    ),
    Sign(
        FailureKind.DEVICE,
        rb"CUDA_ERROR_NO_DEVICE|No Torch GPU device available|not available for backend|Backend <?gs\.\w+>? not available"
        rb"|cuda device not available|libcuda\.so lib not found|No CUDA GPUs are available",
        "check the driver with nvidia-smi, and that the interpreter has a torch built for CUDA",
    ),
    Sign(
        FailureKind.DEVICE,
        rb"CUDA_ERROR_(?!OUT_OF_MEMORY)\w+|uncorrectable ECC error|device-side assert|GPU is lost"
        rb"|Unexpected error from cudaGetDeviceCount|CUDA error: (?!out of memory)",
        "the GPU may have failed: look for Xid in the kernel's log (dmesg) before starting again",
    ),
    Sign(
        FailureKind.CONFIG,
        rb"No space left on device|Errno 28|Disk quota exceeded",
        "free space, or move the caches: GS_CACHE_FILE_PATH and QD_OFFLINE_CACHE_FILE_PATH",
    ),
    Sign(
        FailureKind.CONFIG,
        rb"PermissionError|Permission denied|Errno 13|Read-only file system|Errno 30",
        "make it writable, or move the caches: GS_CACHE_FILE_PATH and QD_OFFLINE_CACHE_FILE_PATH",
    ),
    Sign(
        FailureKind.CONFIG,
        rb"No module named '?(?:genesis|torch)\b",
        "install Genesis for that interpreter (pip install genesis-world torch), or name another with --python",
    ),
    Sign(
        FailureKind.CONFIG,
        rb"[Aa]ddress already in use|errno: 98",
        "another run on this host has the port: give each its own --master-port",
    ),
    Sign(
        FailureKind.CONFIG,
        rb"filelock\.\w*Timeout|The file lock '",
        "another process holds that lock; USD files are baked by one process at a time",
    ),
    Sign(
        FailureKind.FOLDER_RACE,
        rb"FileExistsError|Errno 17|Errno 39|Directory not empty"
        rb"|Errno 2\].*/?(?:logs?|runs?|outputs?|checkpoints?|\.cache)/",
        "workers share a folder: give each its own, with {i} or {slot} in the arguments",
    ),
    Sign(
        FailureKind.SCRIPT,
        rb"Genesis already initialized|Genesis hasn't been initialized",
        "the script must call gs.init() once",
    ),
    Sign(
        FailureKind.SCRIPT,
        rb"causing 'nan'|Exceeding max number of",
        "the simulation is not stable or its limits are too low: a smaller time step, or higher limits in RigidOptions",
    ),
    Sign(
        FailureKind.HOST_MEMORY, rb"\bMemoryError|Cannot allocate memory", "the host has too little memory for this run"
    ),
)
_GENERIC = frozenset({FailureKind.CONFIG, FailureKind.FOLDER_RACE, FailureKind.SCRIPT})
"""Kinds whose signs also occur in harmless lines: looked for in the reason alone."""


def sign_of(text: bytes) -> Sign | None:
    """The first sign that occurs in `text`."""
    return next((sign for sign in _SIGNS if re.search(sign.pattern, text)), None)


def sign_in(texts: Sequence[bytes]) -> Sign | None:
    """A sign in any of the last lines, newest first; only of a kind that does not occur in harmless ones."""
    signs = [sign for sign in map(sign_of, reversed(texts)) if sign is not None and sign.kind not in _GENERIC]
    return next((sign for sign in signs if not sign.vague), signs[0] if signs else None)
