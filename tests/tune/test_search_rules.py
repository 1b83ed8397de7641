"""Rules that hold for every search, whatever the curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from gmg_tui.model.tuning import TrialKind, TrialState, TuneSpec
from tests.tune.simulated import Outcome, World, tune


def curve(flat: float, per_value: float, step_at: int, step: float, bend: float) -> Callable[[int], float]:
    """The rate where a step takes so long: flat, then in proportion, with a step up, and a bend."""

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
    slots = draw(st.integers(1, 9))
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
        seed=draw(st.integers(0, 1000)),
    )


@st.composite
def specs(draw: st.DrawFn) -> TuneSpec:
    low = draw(st.sampled_from([1, 2, 7, 64, 100, 1000]))
    return TuneSpec(
        low=low,
        high=draw(st.none() | st.integers(low, low * 1000)),
        knee_pct=draw(st.sampled_from([0.0, 5.0, 50.0])),
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
        assert answer.recommended is not None
        assert answer.largest is not None
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
