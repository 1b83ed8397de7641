"""Where sessions cannot be compared, or not without a doubt, in one sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gmg_tui import units
from gmg_tui.model import WorkerState
from gmg_tui.model.tried import SETTLE_S
from gmg_tui.report.compare.comparison import Comparison, Setting
from gmg_tui.report.compare.settings import given
from gmg_tui.report.compare.sides import Side

_NAMED = 4
"""How many slots or jobs a sentence names."""
_FAILED = 5
"""How many failures of a session have a sentence."""
_DERIVED = {"n_envs", "slots", "--gpus", "--cpu", "--simulate", "power limit"}
"""What follows from another difference."""


def remarks(made: Comparison) -> list[str]:
    """All of them, those that matter most first."""
    said = [*_scripts(made), *_simulated(made)]
    for side in made.sides:
        said += _of_session(side)
    return [*said, *_totals(made), *_doubts(made)]


def _scripts(made: Comparison) -> Iterator[str]:
    for one in made.differences:
        if one.name.kind == "script":
            scripts = listed(dict.fromkeys(value or "an unknown one" for value in one.values))
            yield f"not a comparison: the scripts are different ({scripts}), and so is the work that a step is"


def _simulated(made: Comparison) -> Iterator[str]:
    simulated = [side.name for side in made.sides if side.simulated]
    if simulated and len(simulated) < len(made.sides):
        are = "is" if len(simulated) == 1 else "are"
        yield f"not a comparison: {listed(simulated)} {are} simulated, the rest is not"
    elif simulated:
        yield "simulated: no GPU was measured, the rates are made up"


def _of_session(side: Side) -> Iterator[str]:
    name = side.name
    if side.state == "running":
        yield f"{name} still runs: its rates are those of now"
    elif side.state == "lost":
        yield f"{name} was lost: its rates are the last that were written"
    if not side.settings:
        yield f"{name}: its engine died before it wrote what it ran with"
    yield from (f"{name} found {answer}" for answer in side.answers)
    failed = [rate.job for rate in side.rates.values() if rate.job.state is WorkerState.FAILED]
    for job in failed[:_FAILED]:
        yield f"{name}: {job.name} failed: {job.reason or 'no reason known'}"
    if len(failed) > _FAILED:
        yield f"{name}: {len(failed) - _FAILED:,} more failed"
    short = [(key, rate.unsettled) for key, rate in side.rates.items() if rate.unsettled is not None]
    if short:
        rates = ", ".join(f"{key} {units.fps(fps)}" for key, fps in short[:_NAMED])
        yield (
            f"{name}: too short to be settled, and left out: {rates}{_more(len(short))} FPS (it takes {SETTLE_S:.0f} s)"
        )
    brief = [
        key
        for key, rate in side.rates.items()
        if rate.fps is not None and rate.running_s is not None and rate.running_s < SETTLE_S
    ]
    if brief and not side.tuned:
        yield f"{name}: {_named(brief)} ran for less than {SETTLE_S:.0f} s: where a loop stalls, such a rate may be off by 10 %"
    unknown = [
        key
        for key, rate in side.rates.items()
        if rate.fps is None and rate.unsettled is None and rate.job.state is not WorkerState.FAILED
    ]
    if unknown and not side.tuned:
        yield f"{name}: no rate is known of {_named(unknown)}"
    if not side.queued and len(set(given(side.data).values())) > 1:
        yield f"{name}: its slots ran with different arguments in the end; the table of `gmg-tui report {name}` has them"


def _totals(made: Comparison) -> Iterator[str]:
    first = made.sides[0]
    for side, change in zip(made.sides[1:], made.changes[1:], strict=True):
        if change is None or not (first.known and side.known):
            continue
        if not change.pairs:
            yield f"{first.name} and {side.name} have no {made.unit} in common whose rate is known"
        elif first.known.keys() != side.known.keys() and not (first.queued or side.queued):
            apart = sorted(first.known.keys() ^ side.known.keys())
            yield f"only one of {first.name} and {side.name} has a rate of {_named(apart)}: their totals are not of the same"
    if any(side.queued for side in made.sides):
        kinds = {"trials of a tuning" if side.tuned else "jobs of a sweep" for side in made.sides if side.queued}
        yield f"{listed(sorted(kinds))} run one after another: there is no total"


def _doubts(made: Comparison) -> Iterator[str]:
    apart = [one.name.name for one in made.differences if one.name.name not in _DERIVED and _is_known(one)]
    if len(apart) > 1:
        yield f"{len(apart)} things differ at once ({_named(apart)}): the change cannot be put down to one of them"
    for side, change in zip(made.sides, made.changes, strict=True):
        if change is None or change.mean_pct is None:
            continue
        if change.pairs == 1:
            yield f"{side.name}: one {made.unit} in common: how much the change varies is not known"
        elif change.margin_pct is not None and abs(change.mean_pct) <= change.margin_pct:
            yield f"{side.name}: the change is within the spread of the {change.pairs} {made.unit}s: it may be none"


def _is_known(setting: Setting) -> bool:
    """Whether a difference is one, and not a gap in what was recorded."""
    return setting.name.kind not in ("version", "hardware") or len({*setting.values} - {None}) > 1


def listed(names: Iterable[str]) -> str:
    """Names as a sentence lists them."""
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def _named(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + _more(len(names))


def _more(count: int) -> str:
    return f" and {count - _NAMED:,} more" if count > _NAMED else ""
