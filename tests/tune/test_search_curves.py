"""The search on the field's curves: how near it comes, with how many values, in what time."""

from __future__ import annotations

from functools import cache

import pytest

from gmg_tui.model.tuning import TuneSpec
from tests.tune.curves import CASES
from tests.tune.simulated import Outcome, World, tune

SEEDS = range(3)
VALUES = 14
SATURATING = ("flat memory", "the CPU")
"""A doubling brings 3 % there at last, so that noise of 1 % moves the knee by a factor."""


@cache
def outcomes(name: str, slots: int, noise: float) -> list[tuple[World, Outcome]]:
    """One slot 8 % slower, another throttled for a while, where there are so many."""
    found = []
    for seed in SEEDS:
        world = CASES[name].world(slots=slots, noise=noise, seed=seed)
        if slots > 1:
            world.speeds = {"gpu1": 0.92}
        if slots > 2:
            world.throttled = {"gpu2": (60, 140)}
        found.append((world, tune(world, TuneSpec(low=CASES[name].low))))
    return found


@pytest.mark.parametrize("noise", [0.01, 0.03])
@pytest.mark.parametrize("slots", [1, 2, 8])
@pytest.mark.parametrize("name", CASES)
def test_the_fastest_and_the_knee_are_found(name: str, slots: int, noise: float) -> None:
    case = CASES[name]
    within = 3 if name in SATURATING and noise > 0.01 else 2 if name in SATURATING else 1.5
    for world, outcome in outcomes(name, slots, noise):
        fastest, knee = outcome.answer.fastest, outcome.answer.knee
        assert fastest is not None
        assert knee is not None
        assert world.rate(fastest.value) >= 0.97 * case.best()
        assert fastest.rate == pytest.approx(world.rate(fastest.value), rel=0.04)
        truth = case.knee(fastest.value, 0.95)
        assert truth / within <= knee.value <= truth * within
        assert len(outcome.values) <= VALUES


def test_eight_slots_take_less_time_than_one() -> None:
    """What follows from each other takes its time on any number: first, ladder, refining, confirming, all at once."""
    alone, beside = (
        sum(outcome.seconds for name in CASES for _, outcome in outcomes(name, slots, 0.01)) for slots in (1, 8)
    )
    assert beside < 0.75 * alone
