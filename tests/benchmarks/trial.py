"""One program, run once: its first frame, then what it takes while it runs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.benchmarks import usage
from tests.benchmarks.ground import ROOT, Ground
from tests.benchmarks.programs import Program, is_worker
from tests.pseudo_terminal import PseudoTerminal

_WHOLE_S = 20.0
"""How long a program may take to show all slots."""


class Case(NamedTuple):
    name: str
    slots: int = 8
    keys: str = ""
    """Pressed once the first frame is there."""
    settle_s: float = 4.0
    """Between the first frame (or the keys) and the measuring."""


class Measurement(NamedTuple):
    parts_pct: dict[str, float]
    """CPU of each process except the workers, per cent of one core."""
    bytes_s: float
    first_frame_s: float
    rss_mib: float

    @property
    def cpu_pct(self) -> float:
        return sum(self.parts_pct.values())


@contextmanager
def running(program: Program, ground: Ground, env: dict[str, str], case: Case) -> Iterator[tuple[PseudoTerminal, str]]:
    """The program on its terminal, and the mark of its processes; at the end none of them remains."""
    mark = ground.mark()
    command = program.command(ground, case.slots)
    with PseudoTerminal(command, columns=160, rows=48, env=env | {usage.MARK: mark}, cwd=str(ROOT)) as terminal:
        try:
            yield terminal, mark
        finally:
            usage.end(mark)


def _first_frame_s(program: Program, terminal: PseudoTerminal, slots: int) -> float:
    """Seconds from the start to the first complete frame: all slots that fit, with metrics; NaN without one."""
    terminal.wait_for(lambda text: program.metrics(text) >= min(slots, 1), timeout_s=_WHOLE_S)
    time.sleep(1.5)
    most = program.metrics(terminal.text())
    at = terminal.first(lambda text: program.metrics(text) >= most) if most else None
    return float("nan") if at is None else at - terminal.started


def start(program: Program, ground: Ground, env: dict[str, str], case: Case) -> float:
    """Only the first frame, seconds."""
    with running(program, ground, env, case) as (terminal, _):
        return _first_frame_s(program, terminal, case.slots)


def measure(program: Program, ground: Ground, env: dict[str, str], case: Case, seconds: float) -> Measurement:
    with running(program, ground, env, case) as (terminal, mark):
        first_s = _first_frame_s(program, terminal, case.slots)
        terminal.press(*case.keys)
        time.sleep(case.settle_s)
        before, sent = usage.usage(mark, is_worker), terminal.bytes
        time.sleep(seconds)
        after = usage.usage(mark, is_worker)
        bytes_s = (terminal.bytes - sent) / (after.at - before.at)
        return Measurement(after.cpu_pct(before), bytes_s, first_s, after.rss_mib)
