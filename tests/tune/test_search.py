"""What a search does in cases of their own: failures, disturbances, few values, several models."""

from __future__ import annotations

import re

import pytest

from gmg_tui.model.tuning import Goal, Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.tune.search import Search
from gmg_tui.tune.searches import Searches
from gmg_tui.tune.slots import TuneSlot
from tests.tune.curves import CASES, franka, grows
from tests.tune.simulated import H100, H100_MIB, Outcome, World, tune

SLOTS = pytest.mark.parametrize("slots", [1, 2, 8])
FRANKA = CASES["Franka with memory's end"]


def measured(number: int, value: int, slot: str, rate: float, **others: object) -> Trial:
    kind = TrialKind.FIRST if number == 1 else TrialKind.LADDER
    known: dict[str, object] = {"rate": rate, "rate_low": rate * 0.99, "rate_high": rate * 1.01, **others}
    return Trial(number, value, slot, kind, TrialState.MEASURED, **known)  # type: ignore[arg-type]


def kinds(outcome: Outcome) -> list[TrialKind]:
    return [trial.kind for trial in outcome.trials]


@SLOTS
def test_the_first_trial_runs_alone_and_as_long_as_allowed(slots: int) -> None:
    world = FRANKA.world(slots=slots, quick=True)
    search = Search(TuneSpec(settle_s=40), world.tune_slots())
    free = [slot.name for slot in world.tune_slots()]

    first = search.plan(free, 0)
    assert [(plan.value, plan.kind, plan.at_least_s) for plan in first] == [(64, TrialKind.FIRST, 40)]
    assert search.plan(free[1:], 1) == []
    search.take(measured(1, 64, free[0], franka(64), ramp_s=12.0))
    assert all((plan.kind, plan.at_least_s) == (TrialKind.LADDER, 17) for plan in search.plan(free, 60))


@SLOTS
def test_a_rate_that_never_comes_ends_it_with_one_text(slots: int) -> None:
    outcome = tune(World(franka, slots=slots, fails=lambda value: "no rate came in 15 minutes"))
    assert outcome.step == "n_envs = 64 did not run: no rate came in 15 minutes"
    assert [(trial.value, trial.state) for trial in outcome.trials] == [(64, TrialState.FAILED)] * 2
    assert outcome.answer.fastest is None


@SLOTS
def test_a_first_trial_that_fails_once_is_tried_again(slots: int) -> None:
    world = FRANKA.world(slots=slots, quick=True)
    search = Search(TuneSpec(), world.tune_slots())
    free = [slot.name for slot in world.tune_slots()]
    (first,) = search.plan(free, 0)
    search.take(Trial(1, 64, first.slot, first.kind, TrialState.FAILED, reason="a bad day"))
    (again,) = search.plan(free, 30)
    assert (again.value, again.kind) == (64, TrialKind.FIRST)
    assert slots == 1 or again.slot != first.slot


@SLOTS
def test_out_of_memory_is_not_tried_again(slots: int) -> None:
    outcome = tune(World(franka, slots=slots, fails=lambda value: "CUDA out of memory" if value > 3000 else None))
    fails = [trial.value for trial in outcome.trials if trial.state is TrialState.FAILED]
    assert len(set(fails)) == len(fails)
    assert outcome.answer.edge is not None
    assert outcome.answer.edge.reason == "CUDA out of memory"
    assert outcome.answer.largest is not None
    assert outcome.answer.largest.value >= 0.95 * 3000
    assert any("Memory, not speed, ended the search" in warning for warning in outcome.answer.warnings)


@SLOTS
def test_an_illegal_address_is_the_edge_and_the_space_below_is_narrowed(slots: int) -> None:
    outcome = tune(CASES["an illegal address at 4,096"].world(slots=slots, quick=True), TuneSpec(low=512))
    assert outcome.answer.edge is not None
    assert outcome.answer.largest is not None
    assert outcome.answer.edge.reason == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert 4096 <= outcome.answer.edge.value <= 1.04 * 4096
    assert outcome.answer.largest.value >= 0.96 * 4096


def test_failures_that_agree_are_not_tried_again() -> None:
    outcome = tune(CASES["an illegal address at 4,096"].world(slots=8, quick=True), TuneSpec(low=512))
    fails = [trial.value for trial in outcome.trials if trial.state is TrialState.FAILED]
    assert len(fails) > 2
    assert len(set(fails)) == len(fails)


@SLOTS
def test_a_throttled_window_is_measured_again_once(slots: int) -> None:
    world = FRANKA.world(slots=slots, quick=True, throttled={"gpu0": (60, 130)})
    outcome = tune(world)
    skipped = [trial.value for trial in outcome.trials if trial.state is TrialState.SKIPPED]
    assert skipped
    assert all(any(trial.value == value and trial.rate for trial in outcome.trials) for value in skipped)
    assert outcome.answer.fastest is not None
    assert franka(outcome.answer.fastest.value) >= 0.97 * FRANKA.best()


def test_a_value_that_was_skipped_below_others_that_ran_is_measured_again() -> None:
    outcome = tune(CASES["mjlab"].world(slots=8, quick=True, throttled={"gpu2": (60, 140)}))
    assert 4096 in {trial.value for trial in outcome.trials if trial.state is TrialState.SKIPPED}
    assert outcome.answer.fastest is not None
    assert outcome.answer.fastest.value == 4096


def test_what_is_never_undisturbed_is_said_and_gone_past() -> None:
    outcome = tune(FRANKA.world(quick=True, throttled={"gpu0": (80, 200)}))
    assert any("could not be measured undisturbed" in warning for warning in outcome.answer.warnings)
    assert outcome.answer.fastest is not None
    assert franka(outcome.answer.fastest.value) >= 0.97 * FRANKA.best()


@pytest.mark.parametrize("slots", [2, 8])
def test_a_slow_slot_is_named_and_taken_out(slots: int) -> None:
    world = FRANKA.world(slots=slots, speeds={"gpu1": 0.92})
    answer = tune(world).answer
    assert answer.factors["gpu1"] == pytest.approx(0.92, abs=0.015)
    assert len(answer.factors) == slots
    (warning,) = (warning for warning in answer.warnings if "gpu" in warning)
    assert re.fullmatch(r"gpu1 is [789] % slower than a usual slot\.", warning)


@pytest.mark.parametrize("slots", [2, 8])
def test_the_fastest_runs_on_all_slots_at_once(slots: int) -> None:
    outcome = tune(FRANKA.world(slots=slots, speeds={"gpu1": 0.92}))
    together = outcome.answer.together
    assert together is not None
    assert outcome.answer.fastest is not None
    assert together.value == outcome.answer.fastest.value
    assert together.of_alone_pct == pytest.approx(98, abs=1.5)
    assert together.rate == pytest.approx(sum(together.rates.values()))
    assert kinds(outcome)[-slots:] == [TrialKind.TOGETHER] * slots


def test_one_slot_measures_no_common_value_and_nothing_at_once() -> None:
    outcome = tune(FRANKA.world())
    assert not {TrialKind.COMMON, TrialKind.TOGETHER} & set(kinds(outcome))
    assert (outcome.answer.together, outcome.answer.factors) == (None, {})


@pytest.mark.parametrize("slots", [2, 8])
def test_a_lost_slot_is_not_waited_for(slots: int) -> None:
    world = FRANKA.world(slots=slots, lost={"gpu0": 200.0})
    outcome = tune(world)
    assert outcome.answer.fastest is not None
    assert franka(outcome.answer.fastest.value) >= 0.97 * FRANKA.best()
    assert outcome.answer.together is not None
    assert set(outcome.answer.together.rates) == {f"gpu{i}" for i in range(1, slots)}


def test_when_the_last_slot_is_lost_it_ends() -> None:
    outcome = tune(FRANKA.world(lost={"gpu0": 200.0}))
    assert outcome.step == "no slot is left"
    assert outcome.answer.fastest is not None


@SLOTS
@pytest.mark.parametrize("high", [1, 3, 8])
def test_of_few_values_each_is_tried(slots: int, high: int) -> None:
    world = World(lambda value: value / (1 + 0.1 * value * value), slots=slots, quick=True)
    outcome = tune(world, TuneSpec(low=1, high=high))
    assert outcome.values == list(range(1, high + 1))
    assert outcome.answer.fastest is not None
    assert outcome.answer.fastest.value == min(3, high)


@SLOTS
def test_less_is_better_where_it_is_said(slots: int) -> None:
    world = World(lambda value: 100.0 + abs(value - 96) / 4, slots=slots, quick=True, noise=0.002)
    outcome = tune(world, TuneSpec(low=8, high=512, metric="loss", goal=Goal.MIN))
    assert outcome.answer.fastest is not None
    assert outcome.answer.knee is not None
    assert outcome.answer.fastest.rate is not None
    assert world.rate(outcome.answer.fastest.value) <= 1.03 * 100
    assert world.rate(outcome.answer.knee.value) <= 1.06 * outcome.answer.fastest.rate
    if slots > 1:
        assert outcome.answer.together is not None
        assert outcome.answer.together.rate == pytest.approx(outcome.answer.fastest.rate, rel=0.05)


@pytest.mark.parametrize("rate", [0.0, -3.0, float("inf"), float("nan"), None])
def test_a_rate_that_cannot_be_compared_is_a_failure(rate: float | None) -> None:
    search = Search(TuneSpec(), [TuneSlot("gpu0", H100, H100_MIB)])
    for number in (1, 2):
        search.plan(["gpu0"], number)
        search.take(Trial(number, 64, "gpu0", TrialKind.FIRST, TrialState.MEASURED, rate=rate))
    assert search.plan(["gpu0"], 3) == []
    assert search.ended
    assert search.step.startswith("n_envs = 64 did not run: ")


@SLOTS
def test_the_number_of_trials_and_the_time_bound_it(slots: int) -> None:
    few = tune(FRANKA.world(slots=slots, quick=True), TuneSpec(trials=4))
    assert few.step.startswith("all 4 trials are used up; the fastest is ")
    short = tune(FRANKA.world(slots=slots, quick=True), TuneSpec(budget_s=200))
    assert short.step == "the time is used up"
    assert short.seconds <= 200
    assert short.answer.fastest is not None


def test_stopping_keeps_the_answer_so_far() -> None:
    outcome = tune(FRANKA.world(quick=True), stop_after=5)
    outcome.search.stop("stopped by a person")
    assert (outcome.search.ended, outcome.search.step) == (True, "stopped by a person")
    assert outcome.search.plan(["gpu0"], 1000) == []
    assert outcome.search.answer().fastest is not None
    assert outcome.search.eta_s({}, 1000) == 0


@pytest.mark.parametrize("after", range(0, 30, 3))
def test_going_on_from_any_trial_is_as_good(after: int) -> None:
    for slots in (1, 8):
        first = tune(FRANKA.world(slots=slots, seed=1), stop_after=after)
        outcome = tune(FRANKA.world(slots=slots, seed=2), trials=first.trials)
        assert outcome.answer.fastest is not None
        assert franka(outcome.answer.fastest.value) >= 0.97 * FRANKA.best()


def test_memory_of_others_lowers_what_is_tried() -> None:
    search = Search(TuneSpec(), [TuneSlot("gpu0", H100, H100_MIB)])
    search.plan(["gpu0"], 0)
    search.take(measured(1, 64, "gpu0", franka(64), memory_mib=500.0))
    search.plan(["gpu0"], 60)
    search.take(measured(2, 256, "gpu0", franka(256), memory_mib=692.0))
    (plan,) = search.plan(["gpu0"], 120, {"gpu0": 0.1 * H100_MIB + 436 + 700})
    assert 600 < plan.value <= 700
    memory = search.answer().memory
    assert memory is not None
    assert memory.most == plan.value


def test_models_are_searched_beside_each_other() -> None:
    slots = [TuneSlot(f"gpu{i}", H100 if i else "A100", H100_MIB) for i in range(3)]
    searches = Searches(TuneSpec(), slots)
    names = [slot.name for slot in slots]
    plans = searches.plan(names, 0)
    assert [(plan.slot, plan.value) for plan in plans] == [("gpu1", 64), ("gpu0", 64)]
    running = [
        Trial(number, plan.value, plan.slot, plan.kind, TrialState.RUNNING) for number, plan in enumerate(plans, 1)
    ]
    tuning = searches.tuning(running, 10, {"gpu0": 0, "gpu1": 0})
    assert [(answer.model, answer.slots) for answer in tuning.answers] == [
        (H100, ("gpu1", "gpu2")),
        ("A100", ("gpu0",)),
    ]
    assert (tuning.ended, tuning.eta_s, tuning.command, len(tuning.trials)) == (False, None, (), 2)
    for trial in running:
        searches.take(measured(1, 64, trial.slot, 1000.0, start_s=40.0, measured_s=30.0))
    after = searches.tuning([], 70, {}, lambda value: ("gmg-tui", "sim.py", "-B", str(value)))
    assert after.command == ("gmg-tui", "sim.py", "-B", "64")
    assert after.eta_s is not None
    searches.stop("stopped")
    assert (searches.ended, searches.step) == (True, "stopped")


def test_models_are_one_where_that_is_asked_for() -> None:
    slots = [TuneSlot(f"gpu{i}", H100 if i else "A100", H100_MIB) for i in range(3)]
    assert len(Searches(TuneSpec(same=True), slots).plan([slot.name for slot in slots], 0)) == 1


def test_trials_of_other_sessions_slots_are_left_out() -> None:
    searches = Searches(TuneSpec(), [TuneSlot("cpu0", "CPU")], [measured(1, 64, "gpu7", 5.0)])
    searches.take(measured(2, 64, "gpu7", 5.0))
    assert searches.tuning([], 0, {}).answers[0].fastest is None


def test_a_greatest_value_that_is_allowed_is_said_to_bound_the_answer() -> None:
    outcome = tune(World(franka, memory_mib=grows(0.79), quick=True), TuneSpec(high=4096))
    assert outcome.answer.fastest is not None
    assert outcome.answer.fastest.value == 4096
    assert "4,096 is the greatest value allowed; more may be faster." in outcome.answer.warnings
