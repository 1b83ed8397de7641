"""One program, run once: its first frame, then what it takes while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.benchmarks import usage
from tests.benchmarks.ground import ROOT, Ground
from tests.benchmarks.programs import Program, is_worker
from tests.pseudo_terminal import PseudoTerminal

WHOLE_S = 20.0
"""How long a program may take to show all slots."""


class Case(NamedTuple):
    """What is measured."""

    name: str
    slots: int = 8
    columns: int = 160
    rows: int = 48
    keys: str = ""
    """Pressed once the first frame is there."""
    settle_s: float = 4.0
    """Between the first frame (or the keys) and the measuring."""


class Measurement(NamedTuple):
    """What was measured."""

    cpu_pct: float
    """Of one core, all processes but the workers."""
    parts_pct: dict[str, float]
    """The same by process."""
    bytes_s: float
    first_frame_s: float | None
    pss_mib: float
    rss_mib: float


@contextmanager
def running(program: Program, ground: Ground, env: dict[str, str], case: Case) -> Iterator[tuple[PseudoTerminal, str]]:
    """The program on its terminal, and the mark of its processes; at its end nothing of it is left."""
    mark = ground.mark()
    command = program.command(ground, case.slots)
    size = {"columns": case.columns, "rows": case.rows}
    with PseudoTerminal(command, **size, env=env | {usage.MARK: mark}, cwd=str(ROOT)) as terminal:
        try:
            yield terminal, mark
        finally:
            usage.end(mark)


def first_frame_s(program: Program, terminal: PseudoTerminal, *, slots: int) -> float | None:
    """Seconds from the start to the first complete frame: all slots that fit, with metrics; None where there is none."""
    terminal.wait_for(lambda text: program.metrics(text) >= min(slots, 1), timeout_s=WHOLE_S)
    time.sleep(1.5)
    most = program.metrics(terminal.text())
    if not most:
        return None
    at = terminal.first(lambda text: program.metrics(text) >= most)
    return None if at is None else at - terminal.started


def start(program: Program, ground: Ground, env: dict[str, str], case: Case) -> float | None:
    """Only the first frame."""
    with running(program, ground, env, case) as (terminal, _):
        return first_frame_s(program, terminal, slots=case.slots)


def measure(program: Program, ground: Ground, env: dict[str, str], case: Case, seconds: float) -> Measurement:
    """Run `program` and measure it for so long."""
    with running(program, ground, env, case) as (terminal, mark):
        first = first_frame_s(program, terminal, slots=case.slots)
        if case.keys:
            terminal.press(case.keys)
        time.sleep(case.settle_s)
        before, sent = usage.usage(mark, is_worker), terminal.bytes
        began = time.monotonic()
        time.sleep(seconds)
        bytes_s = (terminal.bytes - sent) / (time.monotonic() - began)
        after = usage.usage(mark, is_worker)
        return Measurement(
            cpu_pct=after.cpu_pct(before),
            parts_pct=after.cpu_pct_by_part(before),
            bytes_s=bytes_s,
            first_frame_s=first,
            pss_mib=after.pss_mib,
            rss_mib=after.rss_mib,
        )
