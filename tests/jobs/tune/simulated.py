"""Slots that run trials of a simulated curve, in simulated time."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from gmg_tui.jobs.tune.fit import RateMeter
from gmg_tui.jobs.tune.search import Search
from gmg_tui.model import Gpu, Slot
from gmg_tui.model.tuning import Answer, Trial, TrialKind, TrialState, TuneSpec

START_S = 40.0
FAIL_S = 25.0
H100, H100_MIB = "NVIDIA H100 80GB HBM3", 81_559.0
TOGETHER = 0.98
"""The share of the rate that remains with all slots at once."""


def never(value: int) -> str | None:
    """Every value runs."""
    return None


def slot_of(index: int, model: str | None, total_mib: float | None, node: str = "") -> Slot:
    if model is None:
        return Slot(f"gpu{index}", node=node)
    total = None if total_mib is None else int(total_mib)
    return Slot(f"gpu{index}", Gpu(index, f"GPU-{index}", model, memory_total_mib=total), node)


@dataclass
class World:
    """The behaviour of a script on each slot."""

    rate: Callable[[int], float]
    """The true rate of a value on a typical slot."""
    slots: int = 1
    memory_mib: Callable[[int], float] | None = None
    total_mib: float | None = H100_MIB
    fails: Callable[[int], str | None] = never
    noise: float = 0.0
    """The noise of each trial, which longer measuring does not reduce."""
    within: float = 0.0
    """The noise of each second."""
    drift: float = 0.0
    """The share of the rate that is missing at first, for 40 s."""
    speeds: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The time by slot in which ending trials are skipped."""
    seed: int = 0
    flaky: float = 0.0
    """The share of trials that fail or are skipped whatever their value."""
    lost: dict[str, float] = field(default_factory=dict)
    """The time by slot when its GPU is lost."""
    nodes: int = 1
    """The number of machines, to which the slots belong in turn."""
    broken: dict[int, str] = field(default_factory=dict)
    """The reason for which every trial on a machine fails at once, or is skipped if it is `unready`, by its number."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def tune_slots(self) -> list[Slot]:
        model = H100 if self.memory_mib else None
        return [slot_of(i, model, self.total_mib, f"n{i % self.nodes}") for i in range(self.slots)]

    def total(self, value: int) -> float:
        """The true rate of all slots at once."""
        speeds = [self.speeds.get(slot.name, 1.0) for slot in self.tune_slots()]
        return TOGETHER * self.rate(value) * sum(speeds)

    def run(self, plan: Trial, number: int, now_s: float, spec: TuneSpec) -> tuple[float, Trial]:
        reason = self.fails(plan.value)
        memory = self.memory_mib(plan.value) if self.memory_mib else None
        if memory is not None and self.total_mib is not None and memory > self.total_mib:
            reason = "CUDA out of memory"
        trial = replace(plan, number=number)
        broken = self.broken.get(int(plan.slot.removeprefix("gpu")) % self.nodes)
        if broken is not None:
            state = TrialState.SKIPPED if broken == "unready" else TrialState.FAILED
            return now_s + 1.0, replace(trial, state=state, reason=broken)
        if reason:
            return now_s + FAIL_S, replace(trial, state=TrialState.FAILED, reason=reason)
        if self.random.random() < self.flaky:
            state = self.random.choice([TrialState.FAILED, TrialState.SKIPPED])
            return now_s + FAIL_S, replace(trial, state=state, reason="a bad day")
        rate = self.rate(plan.value) * self.speeds.get(plan.slot, 1.0) * self.random.gauss(1, self.noise)
        if plan.kind is TrialKind.TOGETHER:
            rate *= TOGETHER
        meter = self._measure(rate, plan, spec)
        end_s = now_s + START_S + meter.measured_s
        if end_s > self.lost.get(plan.slot, math.inf):
            return self.lost[plan.slot], replace(trial, state=TrialState.SKIPPED, reason="the GPU was lost")
        since_s, until_s = self.throttled.get(plan.slot, (math.inf, math.inf))
        if since_s <= end_s <= until_s:
            return end_s, replace(trial, state=TrialState.SKIPPED, reason="the GPU was throttled")
        return end_s, replace(
            trial,
            state=TrialState.MEASURED,
            rate=meter.rate,
            memory_mib=memory,
            start_s=START_S,
            measured_s=meter.measured_s,
        )

    def _measure(self, rate: float, plan: Trial, spec: TuneSpec) -> RateMeter:
        meter, done, second = RateMeter(spec, plan.kind), 0.0, 0
        meter.add(0.0, 0.0)
        while not meter.is_done:
            warm = 1 - self.drift * max(0.0, 1 - second / 40)
            done += rate * warm * (self.random.gauss(1, self.within) if self.within else 1.0)
            second += 1
            meter.add(done, second)
        return meter


@dataclass
class Outcome:
    answer: Answer
    trials: list[Trial]
    seconds: float
    step: str
    search: Search

    @property
    def values(self) -> list[int]:
        return sorted({trial.value for trial in self.trials})


def tune(world: World, spec: TuneSpec | None = None, trials: Sequence[Trial] = (), stop_after: int = 400) -> Outcome:
    """Searches until the end or a number of trials. AssertionError if it waits for nothing, or breaks a rule of the engine."""
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
        check(plans, free, spec)
        for plan in plans:
            number += 1
            running[plan.slot] = world.run(plan, number, now_s, spec)
        if search.ended and not running:
            return Outcome(search.answer(), done, now_s, search.step, search)
        if not running:  # A slot that is not free may come back: it is waited for a while.
            waited += 1
            assert waited <= 61 * world.slots, "it waits while nothing runs"  # a minute for each lost one, rounded up
            now_s += 1
            continue
        waited = 0
        slot = min(running, key=lambda name: running[name][0])
        now_s, trial = running.pop(slot)
        done.append(trial)
        search.add(trial)
    assert stop_after < 400, "no end"
    return Outcome(search.answer(), done, now_s, search.step, search)


def check(plans: Sequence[Trial], free: set[str], spec: TuneSpec) -> None:
    assert {plan.slot for plan in plans} <= free
    assert len({plan.slot for plan in plans}) == len(plans)
    for plan in plans:
        assert plan.value >= spec.low
        assert spec.high is None or plan.value <= spec.high
    together = [plan for plan in plans if plan.kind is TrialKind.TOGETHER]
    assert len(together) in (0, len(plans))
