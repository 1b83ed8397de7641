"""Special cases of a search: failures, disturbances, few values, lost slots, `--resume`."""

import re
from collections import Counter

import pytest
from msgspec.structs import replace

from gmg_tui.jobs.tune.search import Search
from gmg_tui.model.tuning import Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.results import tuning_text
from tests.jobs.tune.curves import CASES, franka, grows
from tests.jobs.tune.simulated import H100, H100_MIB, World, slot_of, tune

SLOTS = pytest.mark.parametrize("slots", [1, 2, 8])
FRANKA = CASES["Franka with memory's end"]


def names(world: World) -> list[str]:
    return [slot.name for slot in world.tune_slots()]


def is_found(world: World, outcome_fastest: object) -> bool:
    return franka(getattr(outcome_fastest, "value", 1)) >= 0.97 * FRANKA.best()


@pytest.mark.parametrize(("slots", "values"), [(1, [64]), (2, [64, 128]), (8, [64 << i for i in range(8)])])
def test_all_slots_climb_the_ladder_at_once_from_the_first_trial_on(slots: int, values: list[int]) -> None:
    world = FRANKA.world(slots=slots)
    plans = Search(TuneSpec(), world.tune_slots()).plan(names(world), 0)
    assert [(plan.value, plan.kind) for plan in plans] == [(value, TrialKind.LADDER) for value in values]


def test_the_first_values_are_limited_when_memory_is_unknown() -> None:
    world = CASES["the CPU"].world(slots=8)
    plans = Search(TuneSpec(), world.tune_slots()).plan(names(world), 0)
    assert [plan.value for plan in plans] == [64, 128, 256, 512, 1024]


@SLOTS
def test_a_script_without_a_rate_ends_the_search_with_an_error(slots: int) -> None:
    outcome = tune(World(franka, slots=slots, fails=lambda value: "no rate came in 15 minutes"))
    assert outcome.step == "64 did not run: no rate came in 15 minutes"
    assert outcome.answer.fastest is None


@SLOTS
def test_out_of_memory_is_not_tried_again(slots: int) -> None:
    outcome = tune(World(franka, slots=slots, fails=lambda value: "CUDA out of memory" if value > 3000 else None))
    fails = [trial.value for trial in outcome.trials if trial.state is TrialState.FAILED]
    assert len(set(fails)) == len(fails)
    answer = outcome.answer
    assert answer.edge.reason == "CUDA out of memory"
    assert answer.largest.value >= 0.95 * 3000
    assert any("Memory, not speed, ended the search" in warning for warning in answer.warnings)


@pytest.mark.parametrize("reason", ["exit code 1", "CUDA out of memory", "unready"])
@pytest.mark.parametrize(("slots", "nodes"), [(2, 2), (4, 2), (6, 3), (32, 2)])
def test_a_node_on_which_every_value_fails_does_not_decide_the_search(slots: int, nodes: int, reason: str) -> None:
    world = World(franka, slots=slots, memory_mib=grows(0.79), nodes=nodes, broken={nodes - 1: reason})
    answer = tune(world).answer
    assert answer.edge is None or answer.edge.value > 65_536
    assert is_found(world, answer.fastest)


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_value_that_runs_out_of_memory_is_tried_once_on_another_node(nodes: int) -> None:
    fails = dict.fromkeys(range(3001, 1 << 17), "CUDA out of memory").get
    outcome = tune(World(franka, slots=2 * nodes, fails=fails, nodes=nodes))
    counts = Counter(trial.value for trial in outcome.trials if trial.state is TrialState.FAILED)
    assert outcome.answer.edge.value == min(counts)
    assert set(counts.values()) <= {1, 2}
    assert outcome.answer.largest.value >= 0.95 * 3000


def test_memory_is_not_blamed_if_the_fastest_value_is_not_the_largest() -> None:
    """Fastest 16,896 and largest 17,664, yet "more would be faster"."""
    world = CASES["step"].world()
    answer = tune(world).answer
    assert answer.fastest.value < answer.largest.value
    assert not any("more would be faster" in warning for warning in answer.warnings)


@SLOTS
def test_an_illegal_address_is_the_edge_and_the_space_below_is_narrowed(slots: int) -> None:
    answer = tune(CASES["cliff"].world(slots=slots), TuneSpec(low=512)).answer
    assert answer.edge.reason == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert 4096 <= answer.edge.value <= 1.04 * 4096
    assert answer.largest.value >= 0.96 * 4096


@SLOTS
def test_a_throttled_window_is_measured_again_once(slots: int) -> None:
    world = FRANKA.world(slots=slots, throttled={"gpu0": (70, 130)})
    outcome = tune(world)
    skipped = [trial.value for trial in outcome.trials if trial.state is TrialState.SKIPPED]
    assert skipped
    assert all(any(trial.value == value and trial.rate for trial in outcome.trials) for value in skipped)
    assert is_found(world, outcome.answer.fastest)


def test_a_value_that_is_always_disturbed_is_reported_and_skipped() -> None:
    outcome = tune(FRANKA.world(throttled={"gpu0": (80, 200)}))
    assert any("could not be measured undisturbed" in warning for warning in outcome.answer.warnings)


def test_a_value_that_fails_below_others_that_run_is_reported() -> None:
    fails = {4096: "CUDA_ERROR_ILLEGAL_ADDRESS"}.get
    answer = tune(World(franka, slots=8, memory_mib=grows(0.79), fails=fails)).answer
    assert answer.largest.value > 16_384
    assert answer.edge is None
    assert f"4,096 did not run, though {answer.largest.value:,} did." in answer.warnings


@pytest.mark.parametrize("slots", [2, 8])
def test_a_slow_slot_is_named_and_excluded(slots: int) -> None:
    answer = tune(FRANKA.world(slots=slots, speeds={"gpu1": 0.92})).answer
    assert answer.factors["gpu1"] == pytest.approx(0.92, abs=0.015)
    assert list(answer.factors) == ["gpu1"]
    (warning,) = (warning for warning in answer.warnings if "gpu" in warning)
    assert re.fullmatch(r"gpu1 is [789] % slower than a typical slot\.", warning)
    assert answer.fastest.rate == pytest.approx(franka(answer.fastest.value), rel=0.01)


@SLOTS
def test_the_recommended_value_is_then_measured_on_all_slots_at_once(slots: int) -> None:
    world = FRANKA.world(slots=slots, speeds={"gpu1": 0.92} if slots > 1 else {})
    outcome = tune(world)
    together, recommended = outcome.answer.together, outcome.answer.recommended
    assert together.value == recommended.value
    assert together.of_alone_pct == pytest.approx(98, abs=0.5)
    assert together.rate == pytest.approx(world.total(together.value), rel=0.001)
    assert together.margin_pct is not None
    assert [trial.kind for trial in outcome.trials[-slots:]] == [TrialKind.TOGETHER] * slots
    assert all(trial.measured_s == 60 for trial in outcome.trials[-slots:])
    text = tuning_text.rate_together(outcome.answer, TuneSpec())
    assert re.match(rf"[\d,]+ on {slots} slots?: [\d,]+ FPS ±0\.5 %", text)


def test_the_best_values_are_repeated_on_other_slots() -> None:
    outcome = tune(FRANKA.world(slots=8))
    repeats = [trial for trial in outcome.trials if trial.kind is TrialKind.CONFIRM]
    for value in {trial.value for trial in repeats}:
        assert len({trial.slot for trial in outcome.trials if trial.value == value}) >= 3
    assert 2 <= len({trial.value for trial in repeats}) <= 5


def test_idle_slots_are_compared() -> None:
    outcome = tune(FRANKA.world(slots=8))
    common = [trial for trial in outcome.trials if trial.kind is TrialKind.COMMON]
    assert len(common) >= 4
    assert outcome.seconds == 60 + 60 + 60 + 100  # the ladder twice, repeats, all slots at once


@pytest.mark.parametrize("slots", [2, 8])
def test_a_lost_slot_is_not_waited_for(slots: int) -> None:
    world = FRANKA.world(slots=slots, lost={"gpu0": 200.0})
    answer = tune(world).answer
    assert is_found(world, answer.fastest)
    assert set(answer.together.rates) == {f"gpu{i}" for i in range(1, slots)}


def test_losing_the_last_slot_ends_the_search() -> None:
    outcome = tune(FRANKA.world(lost={"gpu0": 200.0}))
    assert outcome.step == "no slot is left"
    assert outcome.answer.fastest is not None


def before_together(slots: int) -> tuple[World, Search, list[Trial]]:
    """A search whose next plans are all slots at once."""
    world = FRANKA.world(slots=slots)
    trials = [trial for trial in tune(world).trials if trial.kind is not TrialKind.TOGETHER]
    return world, Search(TuneSpec(), world.tune_slots(), trials), trials


def test_all_slots_wait_for_the_last_one_that_is_busy_but_not_for_one_that_stays_away() -> None:
    world, search, _ = before_together(4)
    everywhere = names(world)
    assert search.plan(everywhere[:3], 0) == []
    assert not search.ended
    assert [plan.slot for plan in search.plan(everywhere[:3], 61)] == everywhere[:3]


@pytest.mark.parametrize("state", [TrialState.SKIPPED, TrialState.FAILED])
def test_the_measurement_on_all_slots_is_retried_once_and_a_failing_slot_is_named(state: TrialState) -> None:
    world, search, _ = before_together(4)
    for number in (1, 2):
        plans = search.plan(names(world), 100 * number)
        assert {plan.kind for plan in plans} == {TrialKind.TOGETHER}
        for plan in plans:
            done = Trial(100 + number, plan.value, plan.slot, plan.kind, TrialState.MEASURED, rate=1e7)
            bad = plan.slot == "gpu3"
            search.add(replace(done, state=state, rate=None, reason="Killed by SIGKILL") if bad else done)
    assert search.plan(names(world), 300) == []
    assert search.ended
    answer = search.answer()
    assert set(answer.together.rates) == {"gpu0", "gpu1", "gpu2"}
    assert answer.edge is None
    warned = f"{plans[0].value:,} did not run on gpu3 with all slots at once: Killed by SIGKILL." in answer.warnings
    assert warned is (state is TrialState.FAILED)


def test_an_interrupted_measurement_on_all_slots_is_repeated_after_resuming() -> None:
    world, search, trials = before_together(4)
    plans = search.plan(names(world), 0)
    done = [Trial(100, plan.value, plan.slot, plan.kind, TrialState.MEASURED, rate=1e7) for plan in plans[:2]]
    again = Search(TuneSpec(), world.tune_slots(), [*trials, *done])
    assert again.plan(names(world), 0) == plans


def test_a_custom_metric_is_neither_summed_nor_called_fast() -> None:
    spec = TuneSpec(low=8, high=64, metric="reward")
    world = World(lambda value: float(value), slots=3)
    answer = tune(world, spec).answer
    assert answer.together.rate == pytest.approx(0.98 * world.rate(64), rel=0.01)
    assert answer.warnings[0] == "64 is the largest value allowed; more may be better."


@pytest.mark.parametrize("rate", [0.0, -3.0, float("inf"), float("nan"), 1e-322, 1e308, None])
def test_a_trial_without_a_comparable_rate_fails(rate: float | None) -> None:
    search = Search(TuneSpec(), [slot_of(0, H100, H100_MIB)])
    for number in (1, 2):
        search.plan(["gpu0"], number)
        search.add(Trial(number, 64, "gpu0", TrialKind.LADDER, TrialState.MEASURED, rate=rate))
    assert search.plan(["gpu0"], 3) == []
    assert search.step.startswith("64 did not run: ")


def test_the_first_value_fails_with_its_own_reason() -> None:
    search = Search(TuneSpec(low=64), [slot_of(n, H100, H100_MIB) for n in range(2)])
    first, second = search.plan(["gpu0", "gpu1"], 0)
    failed = replace(first, number=1, state=TrialState.FAILED, reason="CUDA out of memory")
    search.add(replace(second, number=2, state=TrialState.SKIPPED, reason="skipped by the user"))
    search.add(failed)
    search.add(replace(failed, number=3, value=128, reason="no rate came"))
    assert search.plan(["gpu0", "gpu1"], 1) == []
    assert search.step == "64 did not run: CUDA out of memory"


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_the_expected_number_of_trials_is_near_the_final_one(slots: int) -> None:
    begun = tune(FRANKA.world(slots=slots), stop_after=3)
    after = len(tune(FRANKA.world(slots=slots)).trials)
    assert 3 < begun.search.estimate_trials() <= 2 * after
    assert after <= 2 * begun.search.estimate_trials()


def test_stopping_keeps_the_answer_so_far() -> None:
    outcome = tune(FRANKA.world(), stop_after=5)
    outcome.search.stop("stopped by a person")
    assert (outcome.search.ended, outcome.search.step) == (True, "stopped by a person")
    assert outcome.search.reached in {"doubled values, while that is faster", "values around the fastest"}
    assert outcome.search.plan(["gpu0"], 1000) == []
    assert outcome.search.answer().fastest is not None
    assert outcome.search.eta_s({}, 1000) == 0


@pytest.mark.parametrize("after", range(0, 30, 5))
@pytest.mark.parametrize("slots", [1, 8])
def test_resuming_after_any_trial_gives_an_equal_answer(after: int, slots: int) -> None:
    world = FRANKA.world(slots=slots)
    first = tune(world, stop_after=after)
    assert is_found(world, tune(world, trials=first.trials).answer.fastest)


def test_memory_used_by_others_lowers_the_values_tried() -> None:
    search = Search(TuneSpec(), [slot_of(0, H100, H100_MIB)])
    for number, memory_mib in ((1, 500.0), (2, 564.0)):
        (plan,) = search.plan(["gpu0"], number)
        done = Trial(number, plan.value, "gpu0", plan.kind, TrialState.MEASURED, franka(plan.value))
        search.add(replace(done, memory_mib=memory_mib))
    (plan,) = search.plan(["gpu0"], 120, {"gpu0": 0.1 * H100_MIB + 436 + 200})
    assert 190 < plan.value <= 200


def test_slots_of_another_gpu_model_are_excluded_and_named() -> None:
    slots = [slot_of(i, H100 if i else "A100", H100_MIB) for i in range(3)]
    search = Search(TuneSpec(), slots)
    assert [plan.slot for plan in search.plan(["gpu0", "gpu1", "gpu2"], 0)] == ["gpu1", "gpu2"]
    answer = search.answer()
    assert (answer.model, answer.slots) == (H100, ("gpu1", "gpu2"))
    assert "Not measured, as rates of different models cannot be compared: gpu0 (A100)." in answer.warnings


def test_short_trials_and_noise_cause_warnings() -> None:
    answer = tune(FRANKA.world(noise=0.08, seed=3), TuneSpec(settle_s=6)).answer
    assert any("Trials were measured for 6 s" in warning for warning in answer.warnings)
    assert any("differs by" in warning for warning in answer.warnings)
    assert not tune(CASES["plateau"].world()).answer.warnings


def test_trials_beside_other_work_are_mentioned() -> None:
    search = Search(TuneSpec(), FRANKA.world().tune_slots())
    (plan,) = search.plan(["gpu0"], 0)
    search.add(
        replace(FRANKA.world().run(plan, 1, 0, TuneSpec())[1], disturbance="other processes used 3.0 of 4 cores")
    )
    assert "1 trial of 1 shared the machine; in #1 other processes used 3.0 of 4 cores." in search.answer().warnings


@pytest.mark.parametrize("slots", [1, 8])
def test_the_time_left_is_known_from_the_first_trial_on(slots: int) -> None:
    world = FRANKA.world(slots=slots)
    search = Search(TuneSpec(), world.tune_slots())
    plans = search.plan(names(world), 0)
    assert search.eta_s({plan.slot: 0 for plan in plans}, 10) is None
    search.add(world.run(plans[0], 1, 0, TuneSpec())[1])
    search.plan(names(world)[:1], 70)
    at_70, at_100 = (search.eta_s({"gpu0": 70.0}, now) for now in (70, 100))
    assert at_70 is not None
    assert at_100 == pytest.approx(at_70 - 30)
    assert 200 < at_70 < 1000


def test_a_slot_that_a_long_trial_leaves_is_waited_for() -> None:
    search = Search(TuneSpec(low=64), [slot_of(0, H100, H100_MIB)])
    (plan,) = search.plan({"gpu0"}, 0.0)
    search.add(replace(plan, number=1, state=TrialState.MEASURED, rate=100.0))
    assert search.plan((), 100.0) == []
    assert not search.ended
    assert search.plan({"gpu0"}, 101.0)
