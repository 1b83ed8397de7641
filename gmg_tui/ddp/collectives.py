"""What the ranks of a group print about their collectives, and which rank is at fault when one does not end.

Texts of torch 2.3 to 2.13: `torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp` (`checkTimeout`, `watchdogHandler`,
`getNCCLWatchdogTimeoutErrorMsg`) and `TCPStore.cpp` (`waitForWorkers`).

The others wait for the rank with the lowest last enqueued collective. A rank counts a collective as enqueued once the call
of NCCL has returned, so one that "never entered" may also hang within that call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_MAX_READ = 4096
"""Bytes of a line that are read."""
_MAX_KEPT = 64
"""Collectives and process groups that are remembered."""
_NAMED = 8
"""How many ranks are named; of more, the others are counted."""

_TRIGGERS = (
    b"Watchdog caught collective operation timeout: ",
    b", last completed ",
    b"ProcessGroupNCCL's watchdog got stuck for ",
    b" seconds waiting for clients. ",
)
"""A line without any of these is skipped. They are long, for the longer a literal, the more of a block a search skips."""

_TIMEOUT = re.compile(
    rb"Watchdog caught collective operation timeout: "
    rb"Work\w{1,20}\(SeqNum=(?P<number>\d{1,19}), OpType=(?P<operation>\w{1,40}).{0,400}?\)"
    rb" ran for (?P<ms>\d{1,15}) milliseconds"
)
_ENQUEUED = re.compile(rb"[Ll]ast enqueued (?:NCCL )?work: (?P<number>-?\d{1,20})[,.]")
_DETECTED = re.compile(rb"failure detected by watchdog at work sequence id: (?P<number>\d{1,19}) ")
_PROCESS_GROUP = re.compile(rb"\[PG (?:ID \d{1,9} PG GUID )?(?P<name>[\w.:()+/-]{1,80}) Rank \d{1,9}\]")
_STUCK = re.compile(rb"ProcessGroupNCCL's watchdog got stuck for (?P<s>\d{1,9}) seconds")
_JOINED = re.compile(
    rb"Timed out after (?P<s>\d{1,9}) seconds waiting for clients\. (?P<joined>\d{1,9})/(?P<size>\d{1,9}) clients joined"
)


class TimedOut(NamedTuple):
    """A collective that a rank has entered and that did not end in its time."""

    number: int
    """Collectives are counted from 1 in each process group."""
    operation: str
    """`BROADCAST`, `ALLREDUCE` …"""
    ms: int
    """How long the rank has waited."""


@dataclass
class Observations:
    """What one rank's output has reported so far.

    Attributes:
        timed_out: The collectives that have timed out, by their number, in the order of the lines.
        enqueued: The number of the last collective that it has entered, by process group; -1 for none.
        failed: The collective at which the watchdog has detected a failure, by process group.
        watchdog_stuck_s: How long its watchdog has not moved, seconds; None where that was not reported.
        not_met: Set, in one line, where the ranks did not meet.
    """

    timed_out: dict[int, TimedOut] = field(default_factory=dict)
    enqueued: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    watchdog_stuck_s: int | None = None
    not_met: str | None = None

    @property
    def any(self) -> bool:
        """Whether it has reported anything."""
        return self != Observations()

    @property
    def failure(self) -> str | None:
        """Which collective did not end, or that the ranks did not meet, in one line; None where the lines report neither."""
        if self.timed_out:
            first = min(self.timed_out.values())
            return f"{first.operation} #{first.number} did not end within {first.ms / 1000:.0f} s"
        stuck = f"NCCL's watchdog has not moved for {self.watchdog_stuck_s} s"
        return self.not_met or (stuck if self.watchdog_stuck_s is not None else None)

    def feed(self, block: bytes) -> None:
        """Read whole lines; a block without a relevant line costs four searches for a literal."""
        if any(trigger in block for trigger in _TRIGGERS):
            for line in block.splitlines():
                short = line[:_MAX_READ]
                if any(trigger in short for trigger in _TRIGGERS):
                    self._read(short)

    def _read(self, line: bytes) -> None:
        if (timeout := _TIMEOUT.search(line)) is not None and len(self.timed_out) < _MAX_KEPT:
            collective = TimedOut(int(timeout["number"]), timeout["operation"].decode(), int(timeout["ms"]))
            self.timed_out.setdefault(collective.number, collective)
        if (enqueued := _ENQUEUED.search(line)) is not None:
            name = _PROCESS_GROUP.search(line)
            group = name["name"].decode() if name is not None else ""
            if group in self.enqueued or len(self.enqueued) < _MAX_KEPT:
                self.enqueued[group] = int(enqueued["number"])
                if (detected := _DETECTED.search(line)) is not None:
                    self.failed[group] = int(detected["number"])
        if (stuck := _STUCK.search(line)) is not None:
            self.watchdog_stuck_s = int(stuck["s"])
        if (joined := _JOINED.search(line)) is not None:
            count, size, waited_s = int(joined["joined"]), int(joined["size"]), int(joined["s"])
            self.not_met = f"only {count} of {size} ranks came to the group's store within {waited_s} s"


def at_fault(observations_by_rank: Mapping[int, Observations]) -> str | None:
    """Which rank is at fault, or that none is, in one sentence; None where the ranks have reported nothing.

    Args:
        observations_by_rank: Of all ranks of the group, also of those that have printed nothing.
    """
    ranks = dict(sorted(observations_by_rank.items()))
    stuck_s = {rank: seen.watchdog_stuck_s for rank, seen in ranks.items() if seen.watchdog_stuck_s is not None}
    cause = _in_collective(ranks) or next((seen.not_met for seen in ranks.values() if seen.not_met), None)
    if cause is None and stuck_s:
        what = f"NCCL's watchdog has not moved for {max(stuck_s.values())} s, as a CUDA call or Python's lock holds it"
        cause = f"{_named(stuck_s)}: {what}"
    return cause


def _in_collective(ranks: Mapping[int, Observations]) -> str | None:
    group = _process_group(ranks)
    numbers = [seen.failed[group] for seen in ranks.values() if group in seen.failed]
    numbers = numbers or [number for seen in ranks.values() for number in seen.timed_out]
    if not numbers:
        return None
    number = min(numbers)
    # Process groups count alike: this number of another one is another collective.
    waits = {
        rank: seen.timed_out[number]
        for rank, seen in ranks.items()
        if number in seen.timed_out and (not seen.failed or seen.failed.get(group) == number)
    }
    operations = dict.fromkeys(each.operation for each in waits.values())
    if len(operations) > 1:
        texts = [f"{_named(r for r, each in waits.items() if each.operation == op)} {op}" for op in operations]
        return f"the ranks have entered different collectives as #{number}: {', '.join(texts)}"
    collective = f"{next(iter(operations), 'collective')} #{number}"
    waited_s = max((each.ms for each in waits.values()), default=0) / 1000
    entered = {
        rank: max(seen.enqueued[group], number if rank in waits else -1)
        for rank, seen in ranks.items()
        if group in seen.enqueued
    }
    lowest, highest = min(entered.values(), default=0), max(entered.values(), default=0)
    late = [rank for rank, enqueued in entered.items() if enqueued == lowest]
    silent = [rank for rank, seen in ranks.items() if not (seen.enqueued or seen.timed_out)]
    if late and lowest < number:
        return f"{_named(late)} never entered {collective}{_others(ranks, late, waited_s)}"
    if lowest < highest:
        verb, whose = ("is", "its") if len(late) == 1 else ("are", "their")
        behind = f"{_named(late)} {verb} behind: {whose} last collective is #{lowest}, others have entered #{highest}"
        return f"{behind}; {collective} has timed out{f' after {waited_s:.0f} s' if waited_s else ''}"
    if silent:
        return f"{_named(silent)} did not report {collective}{_others(ranks, silent, waited_s)}"
    within = f" within {waited_s:.0f} s" if waited_s else ""
    return f"all ranks entered {collective}, and it did not end{within}: the GPUs do not reach each other, or the sizes differ"


def _process_group(ranks: Mapping[int, Observations]) -> str:
    """The process group in which most ranks have seen a failure, else in which most have reported their progress."""
    failed = Counter(group for seen in ranks.values() for group in seen.failed)
    counts = failed or Counter(group for seen in ranks.values() for group in seen.enqueued)
    return max(sorted(counts), key=lambda group: counts[group], default="")


def _others(ranks: Collection[int], late: Collection[int], waited_s: float) -> str:
    """How long the other ranks have waited; empty where none has reported that."""
    whose = "others have" if len(ranks) - len(late) > 1 else "other has"
    return f"; the {whose} waited {waited_s:.0f} s" if waited_s else ""


def _named(ranks: Iterable[int]) -> str:
    """`rank 1`, `ranks 1 and 3`, `ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 others`."""
    names = [str(rank) for rank in ranks]
    if len(names) == 1:
        return f"rank {names[0]}"
    if len(names) > _NAMED:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} others"]
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"
