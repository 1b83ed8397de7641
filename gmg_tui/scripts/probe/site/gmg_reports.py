"""Reports metrics and saved files of this process to the engine.

Metrics go through a ring in the file `PID.reports`: `HEADER` and records, which only this process writes and the engine reads
once a second. A full ring drops its oldest records. Saved files are lines of `SAVED`, a file of all processes, as some
trainers save each checkpoint in a process of its own. Nothing here raises into the script, prints, or waits for long.
"""

import os
import sys
from _thread import allocate_lock
from contextlib import suppress
from struct import Struct
from time import monotonic_ns

SUFFIX = ".reports"
MAGIC = 0x474D_4752_4550_5402
"""The first word of a readable file: `GMGREPT` and the version of its layout."""
HEADER = Struct("<4q")
"""Magic, bytes ever written, offset of the oldest intact record, records ever written."""
CAPACITY = 512 << 10
"""Bytes in the ring; a multiple of 8, as all records are."""
RECORD = Struct("<H6xqqdq")
"""Size with padding, sequence number, step, value, CLOCK_MONOTONIC in ns. The name follows."""
NO_STEP = -(2**63)
"""The step of a metric without a step."""
MAX_NAME_BYTES = 200
SAVED = "saved"
"""Lines of text: kind, size in bytes, environment steps, inode, mtime and CLOCK_MONOTONIC in ns, and the path's bytes in hex.

Kinds are `state` and `export`. Lines with `CLEAN` or `RAISED` alone tell how a Python ended.
"""
CLEAN, RAISED = "clean", "raised"
"""The attempt's first Python ended without an uncaught exception; a Python ended with one."""
UNKNOWN = -1
"""The size of a file that the script opened itself, and may not have completed."""
MAX_SAVED_BYTES = 1 << 20
"""The size at which `SAVED` starts again."""
_SPARE_FOLDER = os.environ.get("GMG_PROBE_SPARE_DIR")
"""The folder for `SAVED` once the first was removed."""
_LOCK_TIMEOUT_S = 0.001
"""Seconds to wait for the lock; a report cannot release it while a signal handler interrupts it."""


class Ring:
    """This process's file, created with its first record."""

    def __init__(self, open_file=None):
        self.open_file = open_file
        self.memory = None  # False if there can be no file
        self.words = None
        self.lock = allocate_lock()

    def restart(self):
        """Starts another file in a forked child."""
        self.__init__(self.open_file)

    def open(self):
        """Creates the file, or continues it after an `exec`."""
        self.memory = False
        import mmap

        size = HEADER.size + CAPACITY
        descriptor = self.open_file(str(os.getpid()) + SUFFIX, os.O_RDWR)
        try:
            os.posix_fallocate(descriptor, 0, size)  # raises on a full disk, where a write would be a SIGBUS
            memory = memoryview(mmap.mmap(descriptor, size))
        finally:
            os.close(descriptor)
        self.words = memory[: HEADER.size].cast("q")
        self.words[0] = MAGIC
        self.memory = memory[HEADER.size :]

    def write(self, name, step, value):
        """Appends a metric; drops the oldest ones if the ring is full."""
        size = (RECORD.size + len(name) + 7) & ~7
        if not self.lock.acquire(True, _LOCK_TIMEOUT_S):
            return
        try:
            if self.memory is None:
                self.open()
            if not self.memory:
                return
            _, end, oldest, count = self.words
            while end + size - oldest > CAPACITY:
                oldest += int.from_bytes(self.memory[oldest % CAPACITY :][:2], "little")
            self.words[2] = oldest  # first, so that the engine reads no record that is being overwritten
            record = RECORD.pack(size, count, step, value, monotonic_ns()) + name
            record += bytes(size - len(record))
            offset = end % CAPACITY
            fitting = min(size, CAPACITY - offset)
            self.memory[offset : offset + fitting] = record[:fitting]
            if fitting < size:
                self.memory[: size - fitting] = record[fitting:]
            self.words[3] = count + 1
            self.words[1] = end + size
        finally:
            self.lock.release()


ring = Ring()


def _report_metric(name, value, step):
    if hasattr(value, "item"):
        value = value.item()  # `float` warns on a tensor that requires gradients
    if isinstance(value, (int, float)):
        name = str(name).encode("utf-8", "replace")[:MAX_NAME_BYTES]
        ring.write(name, NO_STEP if step is None else int(step), float(value))


def scalar(_, tag, scalar_value, global_step=None, *__, **___):
    """Reports a metric of `SummaryWriter.add_scalar`."""
    _report_metric(tag, scalar_value, global_step)


def keywords(_, *, tag, value, timestep=None, **__):
    """Reports a metric of skrl's `SummaryWriter.add_scalar`."""
    _report_metric(tag, value, timestep)


def scalars(_, main_tag, tag_scalar_dict, global_step=None, *__, **___):
    """Reports the metrics of `SummaryWriter.add_scalars`."""
    for tag, value in tag_scalar_dict.items():
        _report_metric(f"{main_tag}/{tag}", value, global_step)


def mapping(_, data, step=None, *__, **___):
    """Reports the metrics of `wandb`'s `Run.log`."""
    for name, value in data.items():
        with suppress(Exception):  # an array
            _report_metric(name, value, step)


METRICS = {"scalar": scalar, "keywords": keywords, "scalars": scalars, "mapping": mapping}


def report_saved(kind, env_steps, target, suffix=""):
    """Reports a file that a call has saved; `target` is its path, or a file object. A path without a suffix gets `suffix`.

    Looks at no other file: in a folder of all users, another one may have made it.
    """
    is_path = isinstance(target, (str, bytes, os.PathLike))
    path = os.path.abspath(os.fsdecode(target if is_path else target.name))
    if is_path and not os.path.splitext(path)[1]:
        path += suffix
    if os.path.isfile(path):
        status = os.stat(path)
        size = status.st_size if is_path else UNKNOWN
        numbers = f"{size} {env_steps} {status.st_ino} {status.st_mtime_ns} {monotonic_ns()}"
        _append(f"\n{kind} {numbers} {os.fsencode(path).hex()}\n".encode())


def report_end(first_pid):
    """Reports how this Python ends, at its exit; not if `os._exit` ends it. `first_pid` is the attempt's first."""
    with suppress(Exception):
        if hasattr(sys, "last_type"):  # set before `sys.excepthook`, which the script may have replaced
            _append(f"\n{RAISED}\n".encode())
        elif os.getpid() == first_pid:  # not a fork
            _append(f"\n{CLEAN}\n".encode())


def _append(line):
    """Appends a line to `SAVED` with one write, beside other processes; starts the file again if there is no room for more.

    Uses the spare folder if the first was removed.
    """
    flags = os.O_WRONLY | os.O_APPEND
    try:
        descriptor = ring.open_file(SAVED, flags)
    except OSError:
        descriptor = ring.open_file(SAVED, flags, _SPARE_FOLDER)
    try:
        has_room = os.fstat(descriptor).st_size < MAX_SAVED_BYTES
        with suppress(OSError):  # the disk is full
            if has_room and os.write(descriptor, line) == len(line):
                return
        os.ftruncate(descriptor, 1)  # keeps the file's first page, for which there was room
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
