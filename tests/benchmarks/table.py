"""gmg-tui beside its peers: CPU, bytes, first frame and memory with 8 slots, without a client, and with 64 slots."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from tests.benchmarks.ground import Ground
from tests.benchmarks.programs import GMG, LABEL, Program
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
    main = _medians(ground, [GMG, LABEL, *peers], MAIN, effort)
    alone = _medians(ground, [GMG], UNWATCHED, effort)["gmg-tui"]
    many = _medians(ground, [GMG, *(peer for peer in peers if peer.name.startswith("nvitop"))], MANY, effort)

    def row(what: str, requirement: str, figure: Callable[[Measurement], str], note: str = "") -> Row:
        return Row(what, requirement, figure(main["gmg-tui"]) + note, *_of_peers(main, figure))

    parts = " (" + " + ".join(f"{name} {pct:.2f}" for name, pct in main["gmg-tui"].parts_pct.items()) + ")"
    label_s = main["Textual"].first_frame_s
    ratio = f" (×{main['gmg-tui'].first_frame_s / label_s:.2f} of {label_s:.2f})"
    many_nvitop, _ = _of_peers(many, lambda taken: f"{taken.cpu_pct:.2f}")
    return [
        row("8 slots: engine and UI, CPU, % of a core", "≤ nvitop", lambda taken: f"{taken.cpu_pct:.2f}", parts),
        Row("– engine alone, nobody attached, CPU, %", "≤ 0.5", f"{alone.cpu_pct:.2f}"),
        row("– bytes/s to the terminal, 160×48", "≤ 3,000", lambda taken: f"{taken.bytes_s:,.0f}"),
        row("– first frame, s", "≤ 1.3 × one label", lambda taken: f"{taken.first_frame_s:.2f}", ratio),
        row("– memory, MiB RSS", "≤ 100", lambda taken: f"{taken.rss_mib:.0f}"),
        Row("64 slots: engine and UI, CPU, % of a core", "≤ nvitop", f"{many['gmg-tui'].cpu_pct:.2f}", many_nvitop),
    ]


def _of_peers(taken: dict[str, Measurement], figure: Callable[[Measurement], str]) -> tuple[str, str]:
    """A figure of nvitop and of mprocs; a dash for a program that was not measured."""
    nvitop, mprocs = (figure(taken[name]) if name in taken else "–" for name in ("nvitop", "mprocs"))
    return nvitop, mprocs


def _medians(ground: Ground, programs: Sequence[Program], case: Case, effort: Effort) -> dict[str, Measurement]:
    """Medians by the first word of each program's name; in turn, so that all of them meet the same disturbances."""
    taken: dict[str, list[Measurement]] = defaultdict(list)
    starts: dict[str, list[float]] = defaultdict(list)
    with ground.gpus(case.slots) as env:
        for _ in range(effort.starts if case is MAIN else 0):
            for program in programs:
                starts[_word(program)].append(start(program, ground, env, case))
        for _ in range(effort.rounds):
            for program in programs:
                taken[_word(program)].append(measure(program, ground, env, case, effort.seconds))
                progress(f"{case.name}: {program.name}: {taken[_word(program)][-1]}")
    return {name: _median(each, starts[name]) for name, each in taken.items()}


def _word(program: Program) -> str:
    return program.name.split(" ")[0].rstrip(",")


def _median(taken: Sequence[Measurement], starts_s: Sequence[float]) -> Measurement:
    parts_pct = {name: median(each.parts_pct.get(name, 0.0) for each in taken) for name in taken[0].parts_pct}
    first_s = median([*starts_s, *(each.first_frame_s for each in taken)])
    return Measurement(
        parts_pct, median(each.bytes_s for each in taken), first_s, median(each.rss_mib for each in taken)
    )
