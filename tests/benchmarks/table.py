"""The comparison: all programs in turn, and gmg-tui in all its cases."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from tests.benchmarks.ground import Ground
from tests.benchmarks.programs import Program, gmg, label
from tests.benchmarks.report import markdown, say
from tests.benchmarks.trial import Case, Measurement, measure, start

MAIN = Case("8 slots, 160×48")
CASES = (
    Case("1 slot", slots=1),
    Case("64 slots", slots=64, settle_s=8),
    Case("80×24 (table)", columns=80, rows=24),
    Case("200×60", columns=200, rows=60),
    Case("table on 160×48", keys="t"),
    Case("log paused", keys="f"),
)
"""Of gmg-tui. The log pane cannot be closed; paused, it draws nothing."""
IDLE = Case("idle: nothing changes but clocks", living=False, settle_s=45)
_ONE_LINE_IN_A_DAY = "0.00001"

_T = TypeVar("_T")


class Effort(NamedTuple):
    """How thoroughly is measured."""

    rounds: int
    starts: int
    seconds: float


FULL, QUICK = Effort(rounds=3, starts=9, seconds=12), Effort(rounds=1, starts=1, seconds=5)


def compare(ground: Ground, peers: Sequence[Program], effort: Effort) -> list[tuple[str, Measurement]]:
    """gmg-tui beside its peers in the main case; the medians, gmg-tui's first."""
    programs = (gmg(), label(), *peers)
    with ground.gpus(MAIN.slots) as env:
        starts = _by_program(
            (program.name, start(program, ground, env, MAIN)) for _ in range(effort.starts) for program in programs
        )
        metrics = _by_program(
            (program.name, measure(program, ground, env, MAIN, effort.seconds))
            for _ in range(effort.rounds)
            for program in programs
        )
    return [(name, _median(taken, starts[name])) for name, taken in metrics.items()]


def cases(ground: Ground, peers: Sequence[Program], effort: Effort) -> list[tuple[str, str, Measurement]]:
    """gmg-tui in its cases, and the peers with other numbers of slots: case, program, measurements."""
    found = []
    for case in (*CASES, IDLE):
        program = gmg() if case.living else gmg(_ONE_LINE_IN_A_DAY)
        with ground.gpus(case.slots, living=case.living) as env:
            for one in (program, *(peers if case.slots != MAIN.slots else ())):
                say(f"{case.name}: {one.name}")
                found.append((case.name, one.name, measure(one, ground, env, case, effort.seconds)))
    return found


def print_comparison(rows: Sequence[tuple[str, Measurement]]) -> None:
    """The main case, each figure also as a ratio of gmg-tui's to it."""
    ours = rows[0][1]
    head = ["8 slots, 160×48", "CPU, % of a core", "bytes/s", "first frame, s", "memory, MiB PSS (RSS)"]
    lines = []
    for name, metrics in rows:
        pairs = [
            (f"{metrics.cpu_pct:.2f}", ours.cpu_pct, metrics.cpu_pct),
            (f"{metrics.bytes_s:,.0f}", ours.bytes_s, metrics.bytes_s),
            (_seconds(metrics.first_frame_s), ours.first_frame_s, metrics.first_frame_s),
            (f"{metrics.pss_mib:.0f} ({metrics.rss_mib:.0f})", ours.pss_mib, metrics.pss_mib),
        ]
        lines.append([name, *(text + ("" if metrics is ours else _ratio(mine, its)) for text, mine, its in pairs)])
    print(markdown(head, lines))
    print("\nIn brackets after ×: gmg-tui's figure divided by that program's.\n")
    print("gmg-tui's CPU by process: " + _parts(ours))


def print_cases(rows: Sequence[tuple[str, str, Measurement]]) -> None:
    """All other cases."""
    head = ["case", "program", "CPU, % of a core", "bytes/s", "first frame, s", "memory, MiB PSS (RSS)"]
    lines = [
        [
            case,
            name,
            f"{metrics.cpu_pct:.2f}",
            f"{metrics.bytes_s:,.0f}",
            _seconds(metrics.first_frame_s),
            f"{metrics.pss_mib:.0f} ({metrics.rss_mib:.0f})",
        ]
        for case, name, metrics in rows
    ]
    print(markdown(head, lines))
    idle = next(metrics for case, _, metrics in rows if case == IDLE.name)
    print(f"\nIdle: {idle.others} characters beside the clocks changed. By process: {_parts(idle)}")


def _by_program(pairs: Iterable[tuple[str, _T]]) -> dict[str, list[_T]]:
    taken: dict[str, list[_T]] = {}
    for name, metrics in pairs:
        say(f"{name}: {metrics}")
        taken.setdefault(name, []).append(metrics)
    return taken


def _median(taken: Sequence[Measurement], starts: Sequence[float | None]) -> Measurement:
    firsts = [first for first in (*starts, *(metrics.first_frame_s for metrics in taken)) if first is not None]
    return Measurement(
        cpu_pct=statistics.median(metrics.cpu_pct for metrics in taken),
        parts_pct={
            name: statistics.median(metrics.parts_pct.get(name, 0.0) for metrics in taken)
            for name in taken[0].parts_pct
        },
        bytes_s=statistics.median(metrics.bytes_s for metrics in taken),
        first_frame_s=statistics.median(firsts) if firsts else None,
        pss_mib=statistics.median(metrics.pss_mib for metrics in taken),
        rss_mib=statistics.median(metrics.rss_mib for metrics in taken),
        others=max(metrics.others for metrics in taken),
    )


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f}"


def _ratio(mine: float | None, its: float | None) -> str:
    return f" (×{mine / its:.2f})" if mine and its else ""


def _parts(metrics: Measurement) -> str:
    return ", ".join(f"{name} {pct:.2f} %" for name, pct in metrics.parts_pct.items())
