"""Selects free GPUs, and leases each to one session of gmg-tui, even before any process is running on it.

A lease is a listening UNIX socket with an abstract name (unix(7)): only one process, whoever its user, can hold
it, it needs no file or folder, and it ends with its process.
"""

import socket
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec import structs

from gmg_tui.machine.gpu.processes import MAX_NAMED_PROCESSES, Use, describe, process_text, use_of
from gmg_tui.machine.processes import peer_credentials
from gmg_tui.model import GpuProcess, GpuSample, Slot, units
from gmg_tui.model.errors import GmgError

Read = Callable[[Slot], GpuSample]
Pause = Callable[[str, Sequence[str]], None]
"""Shows the wait reason and any changes, then sleeps for a while."""

PREFIX = "gmg-tui-lease-"
_MAX_SHARES = 64
"""Maximum sessions that share a GPU's lease; further ones run without."""
_BACKLOG = 128
_RETRY_S = 0.01
_CHOOSING, _COLLECTING = "choosing", "collecting-"
"""The name and the prefix of leases that guard the choice itself."""
_CHOICE_TIMEOUT_S = 5.0
"""Seconds to wait for another session's choice, which usually takes a fraction of that."""


class Leases:
    """The leases that this process holds, by the GPUs' UUIDs."""

    def __init__(self) -> None:
        self._held: dict[str, socket.socket] = {}

    def acquire(self, uuid: str, *, shared: bool = False) -> bool:
        """Acquires the lease of a GPU, exclusively or `shared`. Returns False if another session has an exclusive one.

        An exclusive lease is also refused while others share it.
        """
        if (held := self._held.get(uuid)) is not None:
            _drain(held)
            return True
        exclusive, shares = f"\0{PREFIX}{uuid}", _shares(uuid)
        lease = _listen(shares if shared else (exclusive,))
        if lease is None:
            return False
        if any(map(_is_held, (exclusive,) if shared else shares)):
            lease.close()
            return False
        self._held[uuid] = lease
        return True

    def release(self, *uuids: str) -> None:
        """Releases the leases of these GPUs."""
        for uuid in uuids:
            if (lease := self._held.pop(uuid, None)) is not None:  # removed first: a thread may be collecting GPUs
                lease.close()

    @contextmanager
    def choice_lock(self) -> Iterator[None]:
        """Lets one session choose at a time, as two could both get too few; waits at most `_CHOICE_TIMEOUT_S`."""
        until = time.monotonic() + _CHOICE_TIMEOUT_S
        while not self.acquire(_CHOOSING) and time.monotonic() < until:
            time.sleep(_RETRY_S)
        try:
            yield
        finally:
            self.release(_CHOOSING)

    def try_collecting(self, uuids: Iterable[str]) -> bool:
        """Acquires the right to hold some of these GPUs while waiting for others. Returns False if another has it.

        Two sessions with that right could deadlock.
        """
        names = [_COLLECTING + uuid for uuid in uuids]
        if all(self.acquire(name) for name in names):
            return True
        self.release(*names)
        return False

    def end_collecting(self) -> None:
        """Releases that right."""
        self.release(*(name for name in self._held if name.startswith(_COLLECTING)))


class FreeGpus:
    """The GPUs that a session leases as they become free.

    Args:
        slots: The GPUs to choose from.
        number: The number to take; None for all free ones.
        free_mib: The maximum memory in use on a free GPU.
        leases: The session's leases.
        read: Returns a sample of a GPU.
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
        """Waits until `need` GPUs are free, then takes them and other wanted ones that are free. Returns all taken.

        Raises `GmgError`, which names the GPUs' users, if too few are free after `wait_s`.
        """
        until = time.monotonic() + wait_s
        while True:
            uses = self._choose(need, collect=wait_s > 0)
            if len(self._taken) >= need:
                self._leases.end_collecting()
                return self.taken
            if time.monotonic() >= until:
                raise self._too_few_error(need, uses, wait_s)
            free = min(need, len(self._slots) - len(uses))
            text = f"{free} of {units.count(need, 'GPU')} {'is' if free == 1 else 'are'} free; waiting (ctrl+c cancels)"
            pause(text, [*([] if self._reported else [text]), *self._changes(uses)])

    def acquire(self) -> dict[str, str]:
        """Takes the wanted GPUs that are free now. Returns the reasons that the others were not taken, by UUID."""
        uses, reasons = self._choose(0, collect=False), dict[str, str]()
        for slot in self._slots:
            if slot.name not in self._taken:
                in_use = f"for its GPU: {uses[slot.name].text}" if slot.name in uses else ""
                not_needed = f"not needed: already using {units.count(len(self._taken), 'GPU')}"
                reasons[_uuid(slot)] = not_needed if self.complete else in_use
        return reasons

    def _choose(self, need: int, *, collect: bool) -> dict[str, Use]:
        """Takes free GPUs; if they are too few, keeps them only if allowed to `collect`. Returns the uses of the others."""
        uses: dict[str, Use] = {}
        with self._leases.choice_lock():
            for slot in self._slots:
                if len(self._taken) == self._number:
                    break
                if slot.name not in self._taken and (use := self._try_to_take(slot)) is not None:
                    uses[slot.name] = use
            if len(self._taken) < need and not (collect and self._leases.try_collecting(map(_uuid, self._slots))):
                self._leases.release(*map(_uuid, self._taken.values()))
                self._taken.clear()
        return uses

    def _try_to_take(self, slot: Slot) -> Use | None:
        """Takes a GPU, or returns its use by others."""
        uuid = _uuid(slot)
        if not self._leases.acquire(uuid):
            return use_of(self._read(slot), self._free_mib) or _lease_use(uuid)
        use = use_of(self._read(slot), self._free_mib)  # while this session holds the lease, no other can start there
        if use is None:
            self._taken[slot.name] = slot
        else:
            self._leases.release(uuid)
        return use

    def _changes(self, uses: Mapping[str, Use]) -> list[str]:
        """Returns a line for each changed use."""
        reported, self._reported = self._reported, {name: use.key for name, use in uses.items()}
        lines = [f"{name}: {use.text}" for name, use in uses.items() if reported.get(name) != use.key]
        return lines + [f"{name}: free" for name in reported if name not in uses]

    def _too_few_error(self, need: int, uses: Mapping[str, Use], waited_s: float) -> GmgError:
        wanted = "free" if self._number is None else f"free:{self._number}"
        free = len(self._slots) - len(uses)
        count = f"{free or 'none'} of {units.count(len(self._slots), 'GPU')} {'is' if free == 1 else 'are'} free"
        ending = f" after {units.span(waited_s)}" if waited_s else "; --wait waits for them"
        headline = f"--gpus {wanted}: {count}{ending}"
        return GmgError("\n".join([headline, *(f"  {name}: {use.text}" for name, use in uses.items())]), 1)


def _uuid(slot: Slot) -> str:
    return slot.gpu.uuid if slot.gpu is not None else ""


def _lease_use(uuid: str) -> Use:
    """Returns the use of a GPU by the sessions that hold its lease, but have no process there yet."""
    pids = holders(uuid)
    sessions = describe(tuple(GpuProcess(pid) for pid in pids[:MAX_NAMED_PROCESSES]))
    texts = [process_text(structs.replace(process, command="a session of gmg-tui")) for process in sessions]
    return Use(("lease", pids), "; ".join(texts) or "a session of gmg-tui")


def holders(uuid: str) -> tuple[int, ...]:
    """Returns the PIDs, if visible here, of the processes that hold the lease of a GPU."""
    pids = []
    for name in (f"\0{PREFIX}{uuid}", *_shares(uuid)):
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:  # released, or too many ask at once
            client.setblocking(False)
            client.connect(name)
            pids.append(peer_credentials(client)[0])
    return tuple(dict.fromkeys(filter(None, pids)))


def _shares(uuid: str) -> list[str]:
    """Returns the names of shared leases of a GPU: few, as reading all names in use takes long if another user has many."""
    return [f"\0{PREFIX}{uuid}+{number}" for number in range(_MAX_SHARES)]


def _listen(names: Iterable[str]) -> socket.socket | None:
    """Returns a socket that listens at the first name not in use; None if all are."""
    lease = socket.socket(socket.AF_UNIX)
    lease.setblocking(False)
    for name in names:
        with suppress(OSError):
            lease.bind(name)
            lease.listen(_BACKLOG)
            return lease
    lease.close()
    return None


def _is_held(name: str) -> bool:
    """True if a process holds the lease with this name."""
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(name)
        except ConnectionRefusedError:
            return False
        except OSError:  # too many ask at once
            return True
        return True


def _drain(lease: socket.socket) -> None:
    """Closes the connections of processes that asked who holds a lease; at most one backlog, as they may never stop."""
    with suppress(OSError):
        for _ in range(_BACKLOG):
            lease.accept()[0].close()
