"""What each slot of a tuning measures now, and how far it is. Pure functions, no widget."""

from __future__ import annotations

from typing import Final

from textual.strip import Strip

from gmg_tui import units
from gmg_tui.model import Snapshot, Trial, TrialState, Tuning, Worker
from gmg_tui.tune import words
from gmg_tui.tune.settling import TARGET_PCT
from gmg_tui.ui.drawing import graphs
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.words import phase_of, phase_s, sign_of, style_of, usual

_VALUE: Final = 10
_KIND: Final = 10
_BAR: Final = 10
_PAST: Final = frozenset({TrialState.MEASURED, TrialState.FAILED, TrialState.SKIPPED})


def slot_rows(tuning: Tuning, snapshot: Snapshot, width: int, height: int, appearance: Appearance) -> list[Strip]:
    """A row for each slot, busy ones first where not all have room; at most `height` rows."""
    slots = list(tuning.slots)
    running = {trial.slot: trial for trial in tuning.trials if trial.state is TrialState.RUNNING}
    idle: dict[str, str] = {}
    for trial in tuning.trials:
        if trial.state in _PAST:
            idle[trial.slot] = f"{trial.value:,} {trial.kind.value} {trial.state.value}{_rate(trial, tuning)}"
    for trial in reversed(tuning.trials):
        if trial.state is TrialState.WAITING:
            idle[trial.slot] = f"{trial.value:,} {trial.kind.value} is next"
    shown, more = slots, 0
    if len(slots) > height:
        room = max(0, height - 1)
        chosen = set(sorted(slots, key=lambda slot: (slot not in running, slots.index(slot)))[:room])
        shown, more = [slot for slot in slots if slot in chosen], len(slots) - room
    name = max((len(slot) for slot in slots), default=4) + 1
    rows = [
        _row(tuning, slot, running.get(slot), idle.get(slot, ""), snapshot, name, width, appearance).strip()
        for slot in shown
    ]
    if more:
        rows.append(Row(appearance, width).add(f" {appearance.signs.ellipsis} {more} more", "dim").strip())
    return rows[:height]


def _row(
    tuning: Tuning,
    slot: str,
    trial: Trial | None,
    otherwise: str,
    snapshot: Snapshot,
    name: int,
    width: int,
    appearance: Appearance,
) -> Row:
    line = Row(appearance, width).add(" ").add(slot, "title" if trial is not None else "dim").to(1 + name)
    if trial is None:
        return line.to(1 + name + _VALUE + 2).add(otherwise or "idle", "dim")
    line.right(f"{trial.value:,}", 1 + name + _VALUE, "strong").add("  ")
    line.add(trial.kind.value, "dim").to(1 + name + _VALUE + 2 + _KIND)
    worker = snapshot.worker(slot)
    if worker is not None and worker.job != trial.number:
        worker = None
    return (
        _measuring(line, tuning, trial, appearance) if trial.rate is not None else _starting(line, worker, appearance)
    )


def _starting(line: Row, worker: Worker | None, appearance: Appearance) -> Row:
    """The phase of a worker that has no rate yet."""
    if worker is None:
        return line.add("starts", "title")
    if worker.stuck:
        return line.add(f"{appearance.signs.stuck} stuck: {worker.stuck}", "error")
    line.add(f"{sign_of(worker, appearance)} {phase_of(worker)} {units.span(phase_s(worker))}", style_of(worker))
    expected = usual(worker)
    return line.add(f", {expected[1]}", "dim") if expected is not None else line


def _measuring(line: Row, tuning: Tuning, trial: Trial, appearance: Appearance) -> Row:
    """How near the interval is to what is enough, and how much of the time for it has gone."""
    spread, longest = words.spread_pct(trial), tuning.spec.settle_s
    measured_s = trial.measured_s or 0.0
    done = 0.0 if longest <= 0 else min(1.0, measured_s / longest)
    if spread is not None and spread > 0:
        done = max(done, min(1.0, TARGET_PCT / spread))
    full, rest = graphs.bar(done, _BAR, appearance.signs)
    line.add(full, "ok").add(rest, "border").add("  ")
    line.add(f"{units.short(trial.rate)} {words.unit(tuning.spec)}", "fps").add(f"  {words.spread(trial)}", "strong")
    line.add(f" {appearance.signs.arrow} {TARGET_PCT:.0f} %", "dim")
    return line.add(f"  {units.span(measured_s)} of {units.span(longest)}", "dim")


def _rate(trial: Trial, tuning: Tuning) -> str:
    return "" if trial.rate is None else f": {units.short(trial.rate)} {words.unit(tuning.spec)}"
