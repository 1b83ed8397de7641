"""The accuracy of tunings, and the invariants of every search."""

from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmg_tui.model.tuning import TrialKind, TrialState, TuneSpec
from tests.jobs.tune.curves import CASES, CURVES
from tests.jobs.tune.simulated import Outcome, World, tune

KNEE = 0.97
CONDITIONS: dict[str, dict[str, Any]] = {
    "no noise": {},
    "2 % noise": {"noise": 0.02, "within": 0.01},
    "5 % noise": {"noise": 0.05, "within": 0.01},
    "2 %, 10 % drift": {"noise": 0.02, "drift": 0.1},
    "2 %, a slot 8 % slow": {"noise": 0.02, "speeds": {"gpu1": 0.92}},
}
FEW, MANY = 4, 50
QUICK = ("no noise", "2 % noise")
"""The conditions of which a few seeds are tried without `--all`."""


class Result(NamedTuple):
    covered: bool
    """True if the interval of the rate on all slots at once contains the true rate."""
    regret: float
    """The relative loss of the recommended value against the slowest acceptable rate."""
    lost: float
    """The relative loss of the fastest value against the true best."""
    near: bool
    """True if the recommended value is within a factor of two of the smallest one that is fast enough."""


def results(curve: str, slots: int, condition: dict[str, Any], seeds: int) -> list[Result]:
    case = CURVES[curve]
    best = case.best()
    smallest = next(value for value in case.grid() if case.rate(value) >= KNEE * best)
    outcomes = []
    for seed in range(seeds):
        world = case.world(slots=slots, seed=seed, **condition)
        answer = tune(world, TuneSpec(low=case.low)).answer
        together, recommended, fastest = answer.together, answer.recommended, answer.fastest
        assert together.value == recommended.value
        assert together.margin_pct is not None
        outcomes.append(
            Result(
                abs(world.total(together.value) / together.rate - 1) <= together.margin_pct / 100,
                max(0.0, 1 - case.rate(recommended.value) / (KNEE * best)),
                1 - case.rate(fastest.value) / best,
                smallest / 2 <= recommended.value <= 2 * smallest,
            )
        )
    return outcomes


def share(of: list[bool]) -> float:
    return sum(of) / len(of)


def at_95(of: list[float]) -> float:
    return sorted(of)[int(0.95 * (len(of) - 1))]


@pytest.mark.parametrize(
    ("slots", "condition"),
    [
        pytest.param(slots, name, marks=() if name in QUICK else pytest.mark.slow)
        for slots in (1, 8)
        for name in CONDITIONS
        if slots > 1 or "a slot" not in name
    ],
)
@pytest.mark.parametrize("curve", CURVES)
def test_intervals_contain_the_true_rate_and_recommendations_are_near_the_best(
    curve: str, slots: int, condition: str, pytestconfig: pytest.Config
) -> None:
    has_noise, is_all = bool(CONDITIONS[condition]), bool(pytestconfig.option.all)
    outcomes = results(curve, slots, CONDITIONS[condition], 1 if not has_noise else MANY if is_all else FEW)
    regrets, lost = [each.regret for each in outcomes], [each.lost for each in outcomes]
    covered, near = share([each.covered for each in outcomes]), share([each.near for each in outcomes])
    print(  # a row of the table
        f"{curve:10}  {slots} slots  {condition:20}  coverage {covered:4.0%}"
        f"  regret {median(regrets):5.1%} {at_95(regrets):5.1%}  fastest {median(lost):5.1%} {at_95(lost):5.1%}"
        f"  within ×2 {near:4.0%}"
    )
    assert near >= 0.8
    if is_all or not has_noise:  # a few seeds are too few for shares
        assert covered >= 0.9
        if "5 %" not in condition:
            assert median(regrets) <= 0.01
            assert at_95(regrets) <= 0.04


@pytest.mark.parametrize("slots", [1, 2, 8])
@pytest.mark.parametrize("name", CASES)
def test_without_noise_the_best_is_found(name: str, slots: int) -> None:
    case = CASES[name]
    outcome = tune(case.world(slots=slots), TuneSpec(low=case.low))
    answer = outcome.answer
    assert case.rate(answer.fastest.value) >= 0.97 * case.best()
    assert case.rate(answer.recommended.value) >= 0.96 * case.rate(answer.fastest.value)
    assert answer.recommended.value <= answer.fastest.value
    assert len(outcome.trials) <= 60


# Rules that hold for every search, whatever the curve


def curve(flat: float, per_value: float, step_at: int, step: float, bend: float) -> Callable[[int], float]:
    """Returns the rate of a step time that is flat, then proportional, with a jump and a bend."""

    def rate(value: int) -> float:
        time = max(flat, flat / 2 + per_value * value) * (step if value >= step_at else 1) * (1 + bend * value)
        return value / time

    return rate


@st.composite
def worlds(draw: st.DrawFn) -> World:
    rate = curve(
        draw(st.floats(1e-4, 1e-1)),
        draw(st.floats(1e-9, 1e-3)),
        draw(st.integers(1, 1 << 17)),
        draw(st.floats(1, 1.5)),
        draw(st.sampled_from([0, 1e-5, 1e-4, 1e-3])),
    )
    edge = draw(st.none() | st.integers(1, 1 << 18))
    per_value_mib = draw(st.none() | st.floats(0, 50))
    slots, nodes = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    return World(
        rate,
        slots=slots,
        memory_mib=None if per_value_mib is None else lambda value: 400 + per_value_mib * value,
        fails=lambda value: "CUDA_ERROR_ILLEGAL_ADDRESS" if edge is not None and value >= edge else None,
        noise=draw(st.sampled_from([0.0, 0.01, 0.05])),
        within=draw(st.sampled_from([0.0, 0.1])),
        speeds={f"gpu{i}": draw(st.sampled_from([0.9, 1.0, 1.1])) for i in range(slots)},
        flaky=draw(st.sampled_from([0.0, 0.1, 0.5])),
        lost={f"gpu{i}": draw(st.floats(0, 600)) for i in range(slots) if draw(st.integers(0, 9)) == 0},
        nodes=nodes,
        broken={
            i: draw(st.sampled_from(["exit code 1", "CUDA out of memory"])) for i in range(draw(st.integers(0, nodes)))
        },
        seed=draw(st.integers(0, 1000)),
    )


@st.composite
def specs(draw: st.DrawFn) -> TuneSpec:
    low = draw(st.sampled_from([1, 2, 7, 64, 100, 1000]))
    return TuneSpec(
        low=low, high=draw(st.none() | st.integers(low, low * 1000)), knee_pct=draw(st.sampled_from([0.0, 5.0, 50.0]))
    )


def hold(outcome: Outcome, spec: TuneSpec) -> None:
    search = [trial for trial in outcome.trials if trial.kind is not TrialKind.TOGETHER]
    assert len({trial.value for trial in search}) <= 80
    fails = Counter(trial.value for trial in search if trial.state is TrialState.FAILED)
    assert all(times <= 2 + len(outcome.answer.slots) for times in fails.values())
    assert outcome.step
    answer = outcome.answer
    if answer.fastest is not None:
        measured = {trial.value for trial in outcome.trials if trial.state is TrialState.MEASURED}
        assert {answer.fastest.value, answer.recommended.value, answer.largest.value} <= measured
        assert max(answer.recommended.value, answer.fastest.value) <= answer.largest.value
        more = [warning for warning in answer.warnings if "Memory, not speed" in warning]
        assert not more or answer.fastest.value == answer.largest.value


@settings(deadline=None, max_examples=60)
@given(worlds(), specs())
def test_every_search_ends_within_its_limits(world: World, spec: TuneSpec) -> None:
    hold(tune(world, spec), spec)


@settings(deadline=None, max_examples=25)
@given(worlds(), specs(), st.integers(0, 40))
def test_a_search_resumes_from_any_trial(world: World, spec: TuneSpec, after: int) -> None:
    first = tune(world, spec, stop_after=after)
    world.lost.clear()
    hold(tune(world, spec, first.trials), spec)
