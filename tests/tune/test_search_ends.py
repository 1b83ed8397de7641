"""The end of a search: all slots at once, what is warned of, and how much time is left."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gmg_tui.model.tuning import Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.tune import answers, words
from gmg_tui.tune.limits import Limits
from gmg_tui.tune.record import Record
from gmg_tui.tune.search import Search
from gmg_tui.tune.slots import Plan, TuneSlot
from tests.tune.curves import CASES, franka, grows
from tests.tune.simulated import World, tune

FRANKA = CASES["Franka with memory's end"]
NAMES = ["gpu0", "gpu1", "gpu2", "gpu3"]


def before_together() -> tuple[list[Trial], Search, list[Plan]]:
    """A search on four slots whose next plans are all at once."""
    world = FRANKA.world(slots=4, quick=True)
    whole = tune(world)
    trials = [trial for trial in whole.trials if trial.kind is not TrialKind.TOGETHER]
    search = Search(TuneSpec(), world.tune_slots(), trials)
    return trials, search, search.plan(NAMES, 0)


def ended(plans: Sequence[Plan], **changes: object) -> list[Trial]:
    trials = [Trial(100 + i, plan.value, plan.slot, plan.kind) for i, plan in enumerate(plans)]
    known: dict[str, object] = {"state": TrialState.MEASURED, "rate": 1e7, **changes}
    return [replace(trial, **known) for trial in trials]


def test_all_slots_wait_for_the_last_one_that_is_busy() -> None:
    trials, _, plans = before_together()
    search = Search(TuneSpec(), FRANKA.world(slots=4).tune_slots(), trials)

    assert {plan.kind for plan in plans} == {TrialKind.TOGETHER}
    assert search.plan(NAMES[:3], 0) == []
    assert not search.ended
    assert search.plan(NAMES, 1) == plans


def test_a_slot_that_stays_away_is_left_out_after_a_while() -> None:
    trials, _, _ = before_together()
    search = Search(TuneSpec(), FRANKA.world(slots=4).tune_slots(), trials)

    assert search.plan(NAMES[:3], 0) == []
    assert [plan.slot for plan in search.plan(NAMES[:3], 61)] == NAMES[:3]


def test_all_at_once_is_tried_again_once_when_it_was_disturbed() -> None:
    _, search, plans = before_together()
    for trial in ended(plans, state=TrialState.SKIPPED, rate=None, reason="the GPU was throttled"):
        search.take(trial)
    again = search.plan(NAMES, 100)
    assert again == plans
    for trial in ended(again, state=TrialState.SKIPPED, rate=None, reason="the GPU was throttled"):
        search.take(trial)
    assert search.plan(NAMES, 200) == []
    assert search.ended
    assert search.answer().together is None


def test_a_slot_that_fails_at_once_with_the_others_is_named() -> None:
    _, search, plans = before_together()
    for _ in range(2):
        good, bad = ended(plans[:3]), ended(plans[3:], state=TrialState.FAILED, rate=None, reason="Killed by SIGKILL")
        for trial in good + bad:
            search.take(trial)
        search.plan(NAMES, 100)
    answer = search.answer()
    assert answer.together is not None
    assert set(answer.together.rates) == set(NAMES[:3])
    assert f"{plans[0].value:,} did not run on gpu3 with all slots at once: Killed by SIGKILL." in answer.warnings
    assert answer.edge is None


def test_all_at_once_cut_short_is_measured_anew_after_resuming() -> None:
    trials, _, plans = before_together()
    search = Search(TuneSpec(), FRANKA.world(slots=4).tune_slots(), [*trials, *ended(plans[:2])])
    assert search.plan(NAMES, 0) == plans


def test_no_value_below_the_fastest_is_called_memorys_end() -> None:
    record = Record(TuneSpec(low=1024), [TuneSlot("gpu0", "H100", 8192.0)])
    for number, (value, memory_mib) in enumerate([(1024, 1200.0), (4096, 3600.0)], 1):
        kind = TrialKind.LADDER
        record.take(Trial(number, value, "gpu0", kind, TrialState.MEASURED, rate=float(value), memory_mib=memory_mib))
    found = answers.answer(record, Limits(record, {"gpu0": 1038.0}))  # others have come and taken the rest
    assert found.fastest is not None
    assert found.fastest.value == 4096
    assert found.warnings == (
        "Memory, not speed, ended the search: more would be faster.",
        "4,096 leaves too little memory free on gpu0.",
    )
    assert words.why_not_more(found) == "memory is nearly used up"


def test_rates_that_disagree_are_warned_of() -> None:
    world = FRANKA.world(quick=True, trial_noise=0.1, seed=3)
    assert any("differ by" in warning for warning in tune(world).answer.warnings)
    assert not any("differ by" in warning for warning in tune(FRANKA.world(quick=True)).answer.warnings)


def test_a_value_that_fails_below_others_that_run_is_said() -> None:
    fails = {4096: "CUDA_ERROR_ILLEGAL_ADDRESS"}.get
    answer = tune(World(franka, slots=8, memory_mib=grows(0.79), fails=fails, quick=True)).answer
    assert answer.largest is not None
    assert answer.largest.value > 16_384
    assert answer.edge is None
    assert f"4,096 did not run, though {answer.largest.value:,} did." in answer.warnings


def test_when_each_start_compiles_values_are_four_times_as_far_apart() -> None:
    search = Search(TuneSpec(), World(franka).tune_slots())
    tried = []
    for number in range(1, 7):
        (plan,) = search.plan(["gpu0"], number)
        tried.append(plan.value)
        rate = franka(plan.value)
        trial = Trial(
            number, plan.value, plan.slot, plan.kind, TrialState.MEASURED, rate, start_s=150.0, measured_s=5.0
        )
        search.take(trial)
    assert tried == [64, 256, 1024, 4096, 16_384, 65_536]


@pytest.mark.parametrize("slots", [1, 8])
def test_the_time_left_is_told_from_the_first_trial_on(slots: int) -> None:
    world = FRANKA.world(slots=slots, quick=True)
    search = Search(TuneSpec(), world.tune_slots())
    names = [slot.name for slot in world.tune_slots()]
    (plan,) = search.plan(names, 0)
    assert search.eta_s({plan.slot: 0}, 10) is None
    search.take(world.run(plan, 1, 0, TuneSpec())[1])
    at_70 = search.eta_s(dict.fromkeys([plan.slot for plan in search.plan(names, 70)], 70.0), 70)
    at_100 = search.eta_s(dict.fromkeys(names[:1], 70.0), 100)
    assert at_70 is not None
    assert at_100 is not None
    assert 200 < at_70 < 900
    assert at_100 == pytest.approx(at_70 - 30)
