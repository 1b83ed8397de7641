"""Slots that run trials of a made-up curve, in made-up time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gmg_tui.model.tuning import Answer, Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.tune.search import Search
from gmg_tui.tune.settling import Settling
from gmg_tui.tune.slots import Plan, TuneSlot

START_S = 40.0
FAIL_S = 25.0
H100, H100_MIB = "NVIDIA H100 80GB HBM3", 81_559.0


def never(value: int) -> str | None:
    """Every value runs."""
    return None


@dataclass
class World:
    """What a script does on each slot."""

    rate: Callable[[int], float]
    """The true rate of a value on a usual slot."""
    slots: int = 1
    memory_mib: Callable[[int], float] | None = None
    total_mib: float | None = H100_MIB
    fails: Callable[[int], str | None] = never
    noise: float = 0.01
    """Of each second."""
    trial_noise: float = 0.0
    """Of each trial as a whole: what no longer measuring takes out."""
    speeds: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By slot, from when to when trials that end come back skipped."""
    seed: int = 0
    flaky: float = 0.0
    """The share of trials that fail or are skipped for no reason of their value."""
    lost: dict[str, float] = field(default_factory=dict)
    """By slot, when its GPU is lost."""
    quick: bool = False
    """Whether a trial takes a fixed time, so that a test is quicker than with real settling."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def tune_slots(self) -> list[TuneSlot]:
        model = H100 if self.memory_mib else "CPU"
        return [TuneSlot(f"gpu{i}", model, self.total_mib if self.memory_mib else None) for i in range(self.slots)]

    def run(self, plan: Plan, number: int, now_s: float, spec: TuneSpec) -> tuple[float, Trial]:
        """When the trial ends, and how."""
        reason = self.fails(plan.value)
        memory = self.memory_mib(plan.value) if self.memory_mib else None
        if memory is not None and self.total_mib is not None and memory > self.total_mib:
            reason = "CUDA out of memory"
        trial = Trial(number, plan.value, plan.slot, plan.kind)
        if reason:
            return now_s + FAIL_S, _with(trial, state=TrialState.FAILED, reason=reason)
        rate = self.rate(plan.value) * self.speeds.get(plan.slot, 1.0) * self.random.gauss(1, self.trial_noise)
        if plan.kind is TrialKind.TOGETHER:
            rate *= 0.98
        if self.random.random() < self.flaky:
            state = self.random.choice([TrialState.FAILED, TrialState.SKIPPED])
            return now_s + FAIL_S, _with(trial, state=state, reason="a bad day")
        estimate, took_s = self._measure(rate, plan, spec)
        end_s = now_s + START_S + took_s
        if end_s > self.lost.get(plan.slot, math.inf):
            return self.lost[plan.slot], _with(trial, state=TrialState.SKIPPED, reason="the GPU was lost")
        since_s, until_s = self.throttled.get(plan.slot, (math.inf, math.inf))
        if since_s <= end_s <= until_s:
            return end_s, _with(trial, state=TrialState.SKIPPED, reason="the GPU was throttled")
        return end_s, _with(
            trial,
            state=TrialState.MEASURED,
            rate=estimate[0],
            rate_low=estimate[1],
            rate_high=estimate[2],
            memory_mib=memory,
            start_s=START_S,
            measured_s=took_s,
        )

    def _measure(self, rate: float, plan: Plan, spec: TuneSpec) -> tuple[tuple[float, float, float], float]:
        if self.quick:
            seen = rate * self.random.gauss(1, self.noise / 4)
            return (seen, seen * 0.99, seen * 1.01), max(12.0, plan.at_least_s)
        settling = Settling(spec.settle_s, plan.at_least_s)
        while not settling.over:
            settling.add(max(0.0, rate * self.random.gauss(1, self.noise)), 1.0)
        estimate = settling.estimate()
        assert estimate is not None
        return estimate, settling.measured_s


def _with(trial: Trial, **changes: object) -> Trial:
    from msgspec.structs import replace

    return replace(trial, **changes)


@dataclass
class Outcome:
    """A whole search."""

    answer: Answer
    trials: list[Trial]
    seconds: float
    step: str
    search: Search

    @property
    def values(self) -> list[int]:
        return sorted({trial.value for trial in self.trials})


def tune(world: World, spec: TuneSpec | None = None, trials: Sequence[Trial] = (), stop_after: int = 400) -> Outcome:
    """Search until the end or so many trials; AssertionError where it waits for nothing, or breaks a rule of the engine."""
    spec = spec or TuneSpec()
    slots = world.tune_slots()
    search = Search(spec, slots, trials)
    done = list(trials)
    now_s, number = 0.0, len(done)
    running: dict[str, tuple[float, Trial]] = {}
    waited = 0
    while len(done) < stop_after:
        gone = {name for name, at_s in world.lost.items() if now_s >= at_s}
        free = {slot.name for slot in slots} - set(running) - gone
        plans = search.plan(free, now_s, {})
        check(plans, free, spec, len(slots) - len(gone))
        for plan in plans:
            number += 1
            running[plan.slot] = world.run(plan, number, now_s, spec)
        if search.ended and not running:
            return Outcome(search.answer(), done, now_s, search.step, search)
        if not running:  # A slot that is not free may come back: it is waited for a while.
            waited += 1
            assert waited < 100, "it waits while nothing runs"
            now_s += 1
            continue
        slot = min(running, key=lambda name: running[name][0])
        now_s, trial = running.pop(slot)
        done.append(trial)
        search.take(trial)
    assert stop_after < 400, "no end"
    return Outcome(search.answer(), done, now_s, search.step, search)


def check(plans: Sequence[Plan], free: set[str], spec: TuneSpec, slots: int) -> None:
    assert {plan.slot for plan in plans} <= free
    assert len({plan.slot for plan in plans}) == len(plans)
    for plan in plans:
        assert plan.value >= spec.low
        assert spec.high is None or plan.value <= spec.high
        assert plan.at_least_s <= spec.settle_s
    together = [plan for plan in plans if plan.kind is TrialKind.TOGETHER]
    assert len(together) in (0, len(plans))
