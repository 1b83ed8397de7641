"""gmg-tui beside its peers: CPU, bytes, first frame and memory with 8 slots, without a client, and with 64 slots."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tests.benchmarks.ground import Ground
from tests.benchmarks.programs import Program, gmg, label
from tests.benchmarks.report import Row, progress
from tests.benchmarks.trial import Case, Measurement, measure, start

MAIN = Case("8 slots, 160×48")
UNWATCHED = Case("8 slots, nobody attached", keys="d")
MANY = Case("64 slots", slots=64, settle_s=8)


class Effort(NamedTuple):
    """How thoroughly is measured."""

    rounds: int
    starts: int
    seconds: float


FULL, QUICK = Effort(rounds=3, starts=9, seconds=12), Effort(rounds=1, starts=1, seconds=5)


def run(ground: Ground, peers: Sequence[Program], effort: Effort) -> list[Row]:
    """The rows of one machine, all programs in turn; medians."""
    programs = (gmg(), label(), *peers)
    main = _medians(ground, programs, MAIN, effort)
    ours, one_label = main["gmg-tui"], main[label().name]
    alone = _medians(ground, [gmg()], UNWATCHED, effort)["gmg-tui"]
    many = _medians(ground, [gmg(), *(peer for peer in peers if peer.name.startswith("nvitop"))], MANY, effort)

    def row(what: str, requirement: str, figure: Callable[[Measurement], str], note: str = "") -> Row:
        return Row(what, requirement, figure(ours) + note, *_of_peers(main, figure))

    parts = " (" + " + ".join(f"{name} {pct:.2f}" for name, pct in ours.parts_pct.items()) + ")"
    first, label_first = ours.first_frame_s, one_label.first_frame_s
    ratio = f" (×{first / label_first:.2f} of {label_first:.2f})" if first and label_first else ""
    many_nvitop = _of_peers(many, lambda taken: f"{taken.cpu_pct:.2f}")[0]
    return [
        row("8 slots: engine and UI, CPU, % of a core", "≤ nvitop", lambda taken: f"{taken.cpu_pct:.2f}", parts),
        Row("– engine alone, nobody attached, CPU, %", "≤ 0.5", f"{alone.cpu_pct:.2f}"),
        row("– bytes/s to the terminal, 160×48", "≤ 3,000", lambda taken: f"{taken.bytes_s:,.0f}"),
        row("– first frame, s", "≤ 1.3 × one label", lambda taken: _seconds(taken.first_frame_s), ratio),
        row("– memory, MiB RSS (PSS)", "≤ 100", lambda taken: f"{taken.rss_mib:.0f} ({taken.pss_mib:.0f})"),
        Row("64 slots: engine and UI, CPU, % of a core", "≤ nvitop", f"{many['gmg-tui'].cpu_pct:.2f}", many_nvitop),
    ]


def _of_peers(taken: dict[str, Measurement], figure: Callable[[Measurement], str]) -> tuple[str, str]:
    """A figure of nvitop and of mprocs; a dash for a program that was not measured."""
    by_word = {name.partition(" ")[0]: measurement for name, measurement in taken.items()}
    nvitop, mprocs = (figure(by_word[name]) if name in by_word else "–" for name in ("nvitop", "mprocs"))
    return nvitop, mprocs


def _medians(ground: Ground, programs: Sequence[Program], case: Case, effort: Effort) -> dict[str, Measurement]:
    """The programs in turn, so that what happens to the machine happens to all of them."""
    taken: dict[str, list[Measurement]] = {program.name: [] for program in programs}
    starts: dict[str, list[float | None]] = {program.name: [] for program in programs}
    with ground.gpus(case.slots) as env:
        for _ in range(effort.starts if case is MAIN else 0):
            for program in programs:
                starts[program.name].append(start(program, ground, env, case))
        for _ in range(effort.rounds):
            for program in programs:
                taken[program.name].append(measure(program, ground, env, case, effort.seconds))
                progress(f"{case.name}: {program.name}: {taken[program.name][-1]}")
    return {name: _median(measurements, starts[name]) for name, measurements in taken.items()}


def _median(taken: Sequence[Measurement], starts: Iterable[float | None]) -> Measurement:
    firsts = [first for first in (*starts, *(each.first_frame_s for each in taken)) if first is not None]
    return Measurement(
        cpu_pct=statistics.median(each.cpu_pct for each in taken),
        parts_pct={
            name: statistics.median(each.parts_pct.get(name, 0.0) for each in taken) for name in taken[0].parts_pct
        },
        bytes_s=statistics.median(each.bytes_s for each in taken),
        first_frame_s=statistics.median(firsts) if firsts else None,
        pss_mib=statistics.median(each.pss_mib for each in taken),
        rss_mib=statistics.median(each.rss_mib for each in taken),
    )


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f}"
