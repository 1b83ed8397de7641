"""Selects free GPUs, and leases each to one session of gmg-tui, even before a process is on it.

A lease is a lock by flock(2) on an empty file for each GPU, and ends with its process. The files are in a shared folder
that is root's and sticky, so that nobody can replace another user's file. Only plain files are used.
"""

import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import structs

from gmg_tui.machine.folders import distrust, make_private, state_folder, user_name
from gmg_tui.machine.gpu.processes import MAX_NAMED, Use, describe, process_text, use_of
from gmg_tui.model import GpuProcess, GpuSample, Slot, units
from gmg_tui.model.errors import GmgError

Read = Callable[[Slot], GpuSample]
Pause = Callable[[str, Sequence[str]], None]
"""Shows the wait reason and what has changed; returns after a while."""

SHARED_FOLDERS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 - the same for all users, whatever their TMPDIR
_LOCKS = Path("/proc/locks")
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_TRIES = 50
_READABLE = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
_NEW_S = 1.0
"""Age up to which a file may be incomplete."""
_RETRY_S = 0.01
_CHOOSING = "choosing"
_COLLECTING = "collecting-"
_CHOICE_S = 5.0
"""Maximum wait for another session's choice, which takes a fraction of that."""


class Leases:
    """The leases that this process holds, by the GPUs' UUIDs.

    Attributes:
        warning: The reason that some of them do not bind other users; None if all do.
    """

    def __init__(self) -> None:
        state = state_folder()
        is_own = state is not None and distrust(state / "gmg-tui") is None
        self._own = state / "gmg-tui" / "leases" if state is not None and is_own else None
        """The private folder, used if no shared folder supports locks."""
        self.warning: str | None = None
        self._held: dict[str, tuple[Path, int]] = {}
        """The file of each lease, and its locked descriptor."""

    def acquire(self, uuid: str, *, shared: bool = False) -> bool:
        """Acquires the lease of a GPU, exclusively or `shared`. Returns False if others have it.

        Returns True if no folder supports locks.
        """
        if uuid in self._held:
            return True
        lock, in_the_way = fcntl.LOCK_SH if shared else fcntl.LOCK_EX, self.warning
        for folder in (*filter(_is_common, SHARED_FOLDERS), *([self._own] if self._own is not None else [])):
            private = folder == self._own
            file = _file(folder, uuid)
            try:
                if private:
                    make_private(folder)
                self._held[uuid] = file, _lock(file, lock, private)
            except BlockingIOError:
                return False
            except OSError:
                in_the_way = self.warning or _warning(file)
                continue
            self.warning = in_the_way if private else self.warning
            return True
        self.warning = in_the_way
        return True

    def release(self, *uuids: str) -> None:
        """Releases the leases of these GPUs."""
        for uuid in uuids:
            held = self._held.pop(uuid, None)  # removed first: a thread may be collecting GPUs
            if held is None:
                continue
            file, descriptor = held
            if os.fstat(descriptor).st_uid == os.geteuid():  # else another user has replaced the file
                with suppress(OSError):  # shared with others
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    file.unlink()
            os.close(descriptor)

    @contextmanager
    def choosing(self) -> Iterator[None]:
        """Blocks other sessions' choice in the context: two that choose at once could both get too few."""
        until = time.monotonic() + _CHOICE_S
        while not self.acquire(_CHOOSING) and time.monotonic() < until:
            time.sleep(_RETRY_S)
        try:
            yield
        finally:
            self.release(_CHOOSING)

    def may_collect(self, uuids: Iterable[str]) -> bool:
        """True if this session may hold some of these GPUs while it waits for others; two at once could deadlock."""
        marks = [_COLLECTING + uuid for uuid in uuids]
        if all(self.acquire(mark) for mark in marks):
            return True
        self.release(*marks)
        return False

    def end_collecting(self) -> None:
        """Lets another session collect GPUs."""
        self.release(*(each for each in self._held if each.startswith(_COLLECTING)))


class FreeGpus:
    """The GPUs that a session leases as they become free.

    Args:
        slots: The GPUs to choose from.
        number: The number to take; None for all free ones.
        free_mib: The maximum memory in use on a free GPU.
        leases: The session's leases.
        read: Reads a GPU.
    """

    def __init__(self, slots: Sequence[Slot], number: int | None, free_mib: float, leases: Leases, read: Read) -> None:
        self._slots, self._number, self._free_mib, self._leases, self._read = slots, number, free_mib, leases, read
        self._taken: dict[str, Slot] = {}
        self._reported: dict[str, Hashable] = {}

    @property
    def taken(self) -> tuple[Slot, ...]:
        """The GPUs taken so far."""
        return tuple(slot for slot in self._slots if slot.name in self._taken)

    @property
    def complete(self) -> bool:
        """True if no more GPUs are wanted."""
        return len(self._taken) == (self._number or len(self._slots))

    def wait(self, need: int, wait_s: float, pause: Pause) -> tuple[Slot, ...]:
        """Waits until `need` GPUs are free, then takes and returns them, and other wanted ones that are free.

        Raises `GmgError`, which names the GPUs' users, if too few are free after `wait_s`.
        """
        until = time.monotonic() + wait_s
        while True:
            uses = self._choose(need, collect=wait_s > 0)
            if len(self._taken) >= need:
                self._leases.end_collecting()
                return self.taken
            if time.monotonic() >= until:
                raise self._too_few(need, uses, wait_s)
            free = min(need, len(self._slots) - len(uses))
            text = f"{free} of {units.count(need, 'GPU')} {'is' if free == 1 else 'are'} free; waiting (ctrl+c cancels)"
            pause(text, [*([] if self._reported else [text]), *self._news(uses)])

    def acquire(self) -> dict[str, str]:
        """Takes the wanted GPUs that are free now. Returns the reasons that the others were not taken, by UUID."""
        uses, reasons = self._choose(0, collect=False), dict[str, str]()
        for slot in self._slots:
            if slot.name not in self._taken:
                used = f"for its GPU: {uses[slot.name].text}" if slot.name in uses else ""
                enough = f"not needed: {units.count(len(self._taken), 'GPU')} are taken"
                reasons[_uuid(slot)] = enough if self.complete else used
        return reasons

    def _choose(self, need: int, *, collect: bool) -> dict[str, Use]:
        """Takes free GPUs; if there are too few, keeps them only if it may collect. Returns the uses of the others."""
        uses: dict[str, Use] = {}
        with self._leases.choosing():
            for slot in self._slots:
                if len(self._taken) == self._number:
                    break
                if slot.name not in self._taken and (use := self._try(slot)) is not None:
                    uses[slot.name] = use
            if len(self._taken) < need and not (collect and self._leases.may_collect(map(_uuid, self._slots))):
                self._leases.release(*map(_uuid, self._taken.values()))
                self._taken.clear()
        return uses

    def _try(self, slot: Slot) -> Use | None:
        """Takes a GPU, or returns its use by others."""
        uuid = _uuid(slot)
        if not self._leases.acquire(uuid):
            return use_of(self._read(slot), self._free_mib) or _lease_of(uuid)
        use = use_of(self._read(slot), self._free_mib)  # with the lease, no other session can start there
        if use is None:
            self._taken[slot.name] = slot
        else:
            self._leases.release(uuid)
        return use

    def _news(self, uses: Mapping[str, Use]) -> list[str]:
        """Returns a line for each changed use."""
        reported, self._reported = self._reported, {name: use.key for name, use in uses.items()}
        lines = [f"{name}: {use.text}" for name, use in uses.items() if reported.get(name) != use.key]
        return lines + [f"{name}: free" for name in reported if name not in uses]

    def _too_few(self, need: int, uses: Mapping[str, Use], waited_s: float) -> GmgError:
        wanted = "free" if self._number is None else f"free:{self._number}"
        free = len(self._slots) - len(uses)
        count = f"{free or 'none'} of {units.count(len(self._slots), 'GPU')} {'is' if free == 1 else 'are'} free"
        end = f" after {units.span(waited_s)}" if waited_s else "; --wait waits for them"
        first = f"--gpus {wanted}: {count}{end}"
        return GmgError("\n".join([first, *(f"  {name}: {use.text}" for name, use in uses.items())]), 1)


def _uuid(slot: Slot) -> str:
    return slot.gpu.uuid if slot.gpu is not None else ""


def _lease_of(uuid: str) -> Use:
    """Returns the use of a GPU by the sessions that hold its lease, but have no process there yet."""
    pids = holders(uuid)
    sessions = describe(tuple(GpuProcess(pid) for pid in pids[:MAX_NAMED]))
    texts = [process_text(structs.replace(each, command="a session of gmg-tui")) for each in sessions]
    return Use(("lease", pids), "; ".join(texts) or "a session of gmg-tui")


def holders(uuid: str) -> tuple[int, ...]:
    """Returns the PIDs of the processes that hold the lease of a GPU, from /proc/locks."""
    pids = []
    for folder in filter(_is_common, SHARED_FOLDERS):
        with suppress(OSError, ValueError):
            about = _file(folder, uuid).lstat()
            file = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
            for line in _LOCKS.read_text("ascii").splitlines():
                fields = line.split()
                if fields[1] == "FLOCK" and fields[5] == file and int(fields[4]) > 0:
                    pids.append(int(fields[4]))
    return tuple(dict.fromkeys(pids))


def _file(folder: Path, uuid: str) -> Path:
    return folder / f"gmg-tui-{re.sub('[^A-Za-z0-9-]', '_', uuid)}.lock"


def _warning(file: Path) -> str | None:
    """Returns the warning about another user's file in place of a lease's; None without one."""
    with suppress(OSError):
        if (owner := file.lstat().st_uid) != os.geteuid():
            return f"leases of GPUs do not bind other users: {file} of {user_name(owner)} is in the way"
    return None


def _is_common(folder: Path) -> bool:
    """True for a root-owned folder where all users can create files and nobody can replace another's."""
    with suppress(OSError):
        mode = folder.lstat().st_mode
        is_open = stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & stat.S_IWOTH
        return bool(is_open) and distrust(folder, shared=True) is None
    return False


def _lock(path: Path, lock: int, private: bool) -> int:
    """Locks an empty file, which is created if missing. Returns its descriptor.

    Raises `BlockingIOError` if another process has the lock, and `OSError` if locks are not supported, or if the file is not
    an empty plain file that all users can read.
    """
    for _ in range(_MAX_TRIES):
        with ExitStack() as stack, suppress(PermissionError, FileNotFoundError):  # not readable yet; or just removed
            descriptor = _open(path, private)
            stack.callback(os.close, descriptor)
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1 or about.st_size:
                break
            if not private and about.st_mode & _READABLE != _READABLE:  # root could open it, but other users could not
                raise PermissionError
            fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
            if os.path.samestat(about, path.lstat()):
                stack.pop_all()
                return descriptor
        with suppress(FileNotFoundError):
            if time.time() - path.lstat().st_ctime > _NEW_S:
                break
        time.sleep(_RETRY_S)  # another process creates or has removed the file
    raise FileExistsError(f"{path} is not a lease")


def _open(path: Path, private: bool) -> int:
    """Opens or creates a lease's file: for reading, as other users' files allow, but a private one for writing, for NFS."""
    access, mode = (os.O_RDWR, 0o600) if private else (os.O_RDONLY, 0o444)
    with suppress(FileNotFoundError):
        # Without O_CREAT: with it, the kernel's `protected_regular` refuses another user's file.
        return os.open(path, _FLAGS | access)
    with suppress(FileExistsError):
        descriptor = os.open(path, _FLAGS | access | os.O_CREAT | os.O_EXCL, mode)
        os.fchmod(descriptor, mode)  # independent of the umask
        return descriptor
    return os.open(path, _FLAGS | access)
