"""The answer of a tuning as plain lines, for standard output."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import join

from gmg_tui import tables, units
from gmg_tui.model import Answer, Best, TuneSpec, Tuning
from gmg_tui.tune import words


def lines(tuning: Tuning) -> list[str]:
    """The answer as a short table for each model, and the command line of the fastest value."""
    found = [line for one in tuning.answers for line in _answer(tuning, one)]
    if not any(one.fastest for one in tuning.answers):
        return [*found, f"no value of {tuning.spec.variable} was measured"]
    found.append(words.caution(tuning.spec))
    return [*found, f"run it: {join(tuning.command)}"] if tuning.command else found


def _answer(tuning: Tuning, one: Answer) -> list[str]:
    spec = tuning.spec
    found = words.values_of(one, spec)
    model = [f"{words.model(one)}, {units.count(len(one.slots), 'slot')}:"] if len(tuning.answers) > 1 else []
    rows: list[Sequence[str]] = [
        ("", spec.variable, words.unit(spec), "±", "VRAM", "GPU %", "W", words.watt_unit(spec)),
        *((name, *_cells(best, spec)) for name, best in found),
    ]
    notes = [
        ("next", words.why_not_more(one)),
        ("together", words.together(one, spec)),
        ("slots", words.factors(one)),
        *(("warning", warning) for warning in one.warnings),
    ]
    table = tables.lines(rows, "lrrrrrrr") if found else []
    return [*model, *table, *(f"{name}: {text}" for name, text in notes if text)]


def _cells(best: Best, spec: TuneSpec) -> tuple[str, ...]:
    per_watt = words.per_watt(best, spec)
    return (
        f"{best.value:,}",
        units.fps(best.rate),
        words.spread(best).removeprefix("±"),
        units.mib(best.memory_mib) if best.memory_mib is not None else units.NOT_KNOWN,
        units.whole(best.gpu_util_pct) if best.gpu_util_pct is not None else units.NOT_KNOWN,
        units.whole(best.power_w) if best.power_w is not None else units.NOT_KNOWN,
        units.short(per_watt),
    )
