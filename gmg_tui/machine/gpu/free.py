"""Selects free GPUs, and reports the users of the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gmg_tui.machine.gpu.leases import Leases, holders
from gmg_tui.machine.gpu.processes import describe
from gmg_tui.model import GpuProcess, GpuSample, Slot, units
from gmg_tui.model.errors import GmgError

_MAX_PROCESSES = 3
_MAX_COMMAND = 60
"""Characters of a command line."""

Read = Callable[[Slot], GpuSample]
Pause = Callable[[str, Sequence[str]], None]
"""Shows the wait reason and the news about it; returns after a while."""


class Use(NamedTuple):
    """The use of a GPU by others."""

    key: Hashable
    """Identifies the users."""
    text: str


class FreeGpus:
    """The GPUs that a session leases as they become free.

    Args:
        slots: The GPUs to choose from.
        number: The number to take; None for all free ones.
        free_mib: The most memory in use on a free GPU.
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
        """Waits until `need` GPUs are free. Takes and returns the wanted ones that are free.

        Raises:
            GmgError: Too few are free after `wait_s`; the text lists their users.
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
        """Takes free GPUs; keeps too few only if they may be collected. Returns the uses of the others."""
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


def use_of(sample: GpuSample, free_mib: float, own: Set[int | None] = frozenset()) -> Use | None:
    """Returns the use of a GPU by other processes than `own`; None if there is none."""
    if sample.error is not None:
        return Use(sample.error, sample.error)
    used_mib = sample.memory_used_mib
    is_full = used_mib is not None and used_mib > free_mib and not own
    others = [each for each in sample.processes or () if (is_full or not each.graphics) and each.own_pid not in own]
    if others:
        named = [process_text(each) for each in describe(tuple(others[:_MAX_PROCESSES]))]
        more = [f"{len(others) - _MAX_PROCESSES} more"] if len(others) > _MAX_PROCESSES else []
        return Use(frozenset(each.pid for each in others), "; ".join([*named, *more]))
    return Use("memory", f"{units.mib(used_mib)} in use by no known process") if is_full else None


def process_text(process: GpuProcess) -> str:
    """Describes a process: user, command, memory and start, without unknown ones."""
    hidden = f"PID {process.pid}{' of the host' if process.foreign else ''}"
    command = process.command or process.name or ""
    first, _, rest = command.partition(" ")
    command = f"{Path(first).name} {rest}".strip()
    if len(command) > _MAX_COMMAND:
        command = f"{command[: _MAX_COMMAND - 1]}…"
    texts = [process.user or hidden, command]
    texts += [units.mib(process.memory_mib)] if process.memory_mib is not None else []
    texts += [f"since {units.since(time.time() - process.age_s)}"] if process.age_s is not None else []
    return ", ".join(filter(None, texts))


def _lease_of(uuid: str) -> Use:
    """Returns the use of a GPU by the sessions that have its lease, without a process yet."""
    pids = holders(uuid)
    sessions = describe(tuple(GpuProcess(pid) for pid in pids[:_MAX_PROCESSES]))
    texts = [process_text(structs.replace(each, command="a session of gmg-tui")) for each in sessions]
    return Use(("lease", pids), "; ".join(texts) or "a session of gmg-tui")
