"""What a rank's output reports of its group's collectives: which have timed out, and how far it has come.

Texts of torch 2.3 to 2.13: `torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp` (`checkTimeout`, `watchdogHandler`,
`getNCCLWatchdogTimeoutErrorMsg`) and `TCPStore.cpp` (`waitForWorkers`). Where a process has a rank, torch writes
`[rank1]:` before each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

_MAX_READ = 4096
"""Bytes of a line that are looked at."""
_MAX_PROCESS_GROUPS = 64

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
_WORKS = re.compile(
    rb"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,20})(?:, last started work: [^,\r\n]{1,80})?"
    rb", last completed (?:NCCL )?work: (?P<completed>-?\d{1,20})"
)
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


class Works(NamedTuple):
    """How far a rank has come in a process group; -1 stands for none."""

    enqueued: int
    """The number of the last collective that it has entered."""
    completed: int
    """The number of the last collective that has ended."""


class Joined(NamedTuple):
    """How many ranks had come to the group's store when rank 0 gave up."""

    ranks: int
    size: int
    waited_s: int


@dataclass
class Observations:
    """What one rank's output has reported so far.

    Attributes:
        timed_out: The collectives that have timed out, by their number, in the order of the lines.
        works: How far it has come, by process group, as reported last.
        failed: The collective at which the watchdog has detected a failure, by process group.
        watchdog_stuck_s: How long its watchdog has not moved, seconds; None where that was not reported.
        joined: Set when the ranks did not meet.
    """

    timed_out: dict[int, TimedOut] = field(default_factory=dict)
    works: dict[str, Works] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    watchdog_stuck_s: int | None = None
    joined: Joined | None = None

    @property
    def any(self) -> bool:
        """Whether it has reported anything of its collectives."""
        return bool(self.timed_out or self.works or self.watchdog_stuck_s is not None or self.joined)

    @property
    def failure(self) -> str | None:
        """Which collective did not end, or that the ranks did not meet, in one line; None where the lines report neither."""
        if self.timed_out:
            first = min(self.timed_out.values(), key=lambda each: each.number)
            return f"{first.operation} #{first.number} did not end within {first.ms / 1000:.0f} s"
        if self.joined is not None:
            ranks, size, waited_s = self.joined
            return f"only {ranks} of {size} ranks came to the group's store within {waited_s} s"
        if self.watchdog_stuck_s is not None:
            return f"NCCL's watchdog has not moved for {self.watchdog_stuck_s} s"
        return None

    def feed(self, block: bytes) -> None:
        """Read whole lines; a block without a relevant line costs four searches for a literal."""
        for trigger in _TRIGGERS:
            if trigger in block:
                break
        else:
            return
        for line in block.splitlines():
            short = line[:_MAX_READ]
            if any(trigger in short for trigger in _TRIGGERS):
                self._read(short)

    def _read(self, line: bytes) -> None:
        timed_out = _TIMEOUT.search(line)
        if timed_out is not None and len(self.timed_out) < _MAX_PROCESS_GROUPS:
            collective = TimedOut(int(timed_out["number"]), timed_out["operation"].decode(), int(timed_out["ms"]))
            self.timed_out.setdefault(collective.number, collective)
        works = _WORKS.search(line)
        if works is not None:
            self._read_works(line, Works(int(works["enqueued"]), int(works["completed"])))
        stuck = _STUCK.search(line)
        if stuck is not None:
            self.watchdog_stuck_s = int(stuck["s"])
        joined = _JOINED.search(line)
        if joined is not None:
            self.joined = Joined(int(joined["joined"]), int(joined["size"]), int(joined["s"]))

    def _read_works(self, line: bytes, works: Works) -> None:
        name = _PROCESS_GROUP.search(line)
        group = name["name"].decode() if name is not None else ""
        if group not in self.works and len(self.works) >= _MAX_PROCESS_GROUPS:
            return
        # torch 2.3 writes whatever lies in memory where no collective has ended.
        completed = works.completed if works.completed <= works.enqueued else -1
        self.works[group] = Works(works.enqueued, completed)
        detected = _DETECTED.search(line)
        if detected is not None:
            self.failed[group] = int(detected["number"])
