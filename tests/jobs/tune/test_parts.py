"""The parts of a search: rounding, memory, comparisons, settling, and the requirements of a resume."""

import math
import random
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gmg_tui.cli.run import check_comparable
from gmg_tui.jobs.tune.fit import Fit, RateMeter, Sample, fit
from gmg_tui.jobs.tune.trial_results import Curve, Point, Record, is_out_of_memory, model_of, round_down, values_between
from gmg_tui.model import Session
from gmg_tui.model.errors import GmgError
from gmg_tui.model.tuning import Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.scripts import interpreter
from tests import tunings
from tests.jobs.tune.simulated import H100, slot_of


@given(st.floats(1, 1e9))
def test_rounding_costs_less_than_two_per_cent(value: float) -> None:
    assert round_down(value) <= value < round_down(value) + max(1, 0.016 * value)
    assert abs(round_down(value, nearest=True) / value - 1) <= (0.5 if value < 64 else 0.008)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 5))
def test_values_between_two_values_lie_between_them(first: int, other: int, count: int) -> None:
    low, high = sorted((first, other))
    values = values_between(low, high, count)
    assert all(low < value < high for value in values)
    assert len(set(values)) == len(values) <= count


def measured(number: int, value: int, memory_mib: float | None = None) -> Trial:
    return Trial(number, value, "gpu0", TrialKind.LADDER, TrialState.MEASURED, rate=1.0, memory_mib=memory_mib)


def failed(number: int, value: int, reason: str) -> Trial:
    return Trial(number, value, "gpu0", TrialKind.LADDER, TrialState.FAILED, reason=reason)


def record_of(*memory: tuple[int, float], slots: int = 1, total_mib: float | None = 80_000.0) -> Record:
    trials = [measured(number, value, memory_mib) for number, (value, memory_mib) in enumerate(memory, 1)]
    return Record(TuneSpec(low=64), [slot_of(i, H100, total_mib) for i in range(slots)], trials)


def test_memory_use_of_franka_is_predicted() -> None:
    """FIELD: fitted on 300 and 3,000 it predicts 18,000 within 0.7 %."""
    line = record_of((300, 671), (3000, 2817)).memory_line
    assert line.base_mib + 18_000 * line.per_unit_mib == pytest.approx(14_642, rel=0.007)
    assert record_of((300, 671)).memory_line is None


def test_memory_that_does_not_grow_sets_no_limit() -> None:
    assert record_of((64, 500), (4096, 505)).memory_end is None
    assert record_of((64, 500), (4096, 480)).memory_end is None
    assert record_of((64, 564), (4096, 4596), total_mib=None).memory_end is None


@pytest.mark.parametrize(("free_mib", "expected"), [(None, 71_500), (40_000, 31_500), (2_000, 0)])
def test_headroom_and_memory_used_by_others_lower_the_largest_value(free_mib: float | None, expected: int) -> None:
    record = record_of((64, 564), (4096, 4596))
    record.free_mib |= {"gpu0": free_mib} if free_mib is not None else {}
    assert record.memory_end == (round_down(expected) if expected else 0)


def test_the_memory_that_one_of_several_nodes_reports_does_not_end_the_search() -> None:
    slots = [slot_of(number, H100, 80_000.0, f"n{number}") for number in range(3)]
    peaks_mib = {64: (500.0, 19_200.0, 510.0), 1024: (1_300.0, 307_200.0, 1_310.0)}  # of the second node: lies
    trials = [
        structs.replace(measured(number, value, peak_mib), slot=slots[number].name)
        for value, peaks in peaks_mib.items()
        for number, peak_mib in enumerate(peaks)
    ]
    line = Record(TuneSpec(), slots, trials).memory_line
    assert line is not None
    assert line.per_unit_mib == pytest.approx(800 / 960)


@pytest.mark.parametrize(
    ("nodes", "measured_on"),
    [
        ({"n1": [H100] * 2, "n2": ["X9"] * 8}, H100),
        ({"n1": ["X9"] * 8, "n2": [H100], "n3": [H100]}, H100),
        ({"n1": ["X9", H100, H100]}, H100),
        ({"n1": [H100, "X9", "X9"], "n2": ["X9"]}, "X9"),
    ],
)
def test_no_node_decides_by_its_number_of_gpus_which_model_is_measured(
    nodes: dict[str, list[str]], measured_on: str
) -> None:
    models = [(model, node) for node, models in nodes.items() for model in models]
    slots = [slot_of(number, model, 80_000.0, node) for number, (model, node) in enumerate(models)]
    assert {model_of(slot) for slot in Record(TuneSpec(), slots).slots.values()} == {measured_on}


def test_gpus_with_similar_free_memory_run_the_same_values() -> None:
    memory = [(1024, 1424.0), (4096, 4496.0)]
    record = record_of(*memory, slots=4)
    record.free_mib |= {"gpu0": 79_000.0, "gpu1": 78_000.0, "gpu2": 30_000.0}
    end = round_down(78_000.0 - 8000 - 400)
    assert record.memory_end == end
    assert [record.fits(end, name) for name in record.slots] == [True, True, False, True]
    record = record_of(*memory, (end, end + 2400.0), slots=4)
    # What has run may leave less memory free and, where it ran, nothing.
    record.free_mib |= {"gpu0": 0.0, "gpu1": 76_500.0, "gpu2": 30_000.0}
    assert [record.fits(end, name) for name in record.slots] == [True, True, False, True]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", True),
        ("out of memory: 16,384 envs do not fit; 1,024 ran with 1.2 GiB", True),
        ("Killed by SIGKILL (-9): the host may have run out of memory", False),
        ("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", False),
        (None, False),
    ],
)
def test_a_failure_counts_as_out_of_memory_only_by_its_reason(reason: str | None, expected: bool) -> None:
    assert is_out_of_memory(reason) is expected


def test_a_value_does_not_run_after_one_failure_of_memory_or_two_others() -> None:
    trials = [measured(1, 64), failed(2, 128, "a bad day"), failed(3, 512, "CUDA out of memory")]
    slots = [slot_of(0, H100, None)]
    record = Record(TuneSpec(), slots, trials)
    assert (record.failed, record.is_usable(128), record.edge and record.edge.value) == ({512}, True, 512)
    record = Record(TuneSpec(), slots, [*trials, failed(4, 128, "another one")])
    assert (record.failed, record.edge and record.edge.value) == ({128, 512}, 128)
    assert Record(TuneSpec(), slots, [*trials, measured(5, 1024)]).edge is None


def fitted(*of: tuple[str, int, float]) -> Fit:
    return fit([Sample(slot, (value, False), math.log(rate)) for slot, value, rate in of])


def test_slots_are_compared_by_their_common_values() -> None:
    shared = [(f"gpu{i}", 4096, 1000.0 * (0.92 if i == 3 else 1)) for i in range(8)]
    shared += [("gpu3", 64, 92.0), ("gpu3", 16_384, 1_840.0), ("gpu5", 16_384, 2_000.0), ("gpu9", 32, 7.0)]
    assert fitted(*shared).factors == {"gpu3": pytest.approx(0.92, rel=1e-3)}
    assert fitted(("gpu0", 64, 920.0), ("gpu1", 64, 1000.0)).factors == {"gpu0": pytest.approx(0.92)}
    assert fitted(("gpu0", 64, 920.0), ("gpu1", 128, 1000.0)).factors == {}


def test_slots_that_differ_only_by_noise_are_not_corrected() -> None:
    chance, corrected = random.Random(2), 0
    for _ in range(100):
        rates = [(f"gpu{i}", value, 1000 * chance.gauss(1, 0.03)) for i in range(4) for value in (64, 128)]
        corrected += len(fitted(*rates).factors)
    assert corrected <= 20  # of 300


def test_an_interval_holds_the_mean_in_95_of_100_cases() -> None:
    chance, covered = random.Random(1), 0
    for _ in range(300):
        rates = [("gpu0", value, 1000 * chance.gauss(1, 0.05)) for value in (64, 128) for _ in range(3)]
        margin_pct = fitted(*rates).margin_pct()
        assert margin_pct is not None
        covered += abs(chance.gauss(1, 0.05) - 1) <= margin_pct / 100
    assert 0.92 <= covered / 300 <= 0.99
    assert fitted(("gpu0", 64, 1.0), ("gpu0", 128, 2.0)).margin_pct() is None


def test_the_gain_is_that_of_the_last_doublings() -> None:
    points = [Point(2048, 33.6), Point(4096, 36.8), Point(8192, 30.1), Point(16_384, 19.9)]
    assert Curve(points[:2]).gain() == math.inf
    assert Curve(points[:3]).gain() == pytest.approx(36.8 / 33.6 - 1)
    assert (Curve(points).gain(), Curve(points).best) == (0.0, Point(4096, 36.8))


def test_a_promise_extrapolates_the_step_time_linearly() -> None:
    """FIELD: the line of the time through two values predicts a third to half a per cent."""
    line = Curve([Point(3000, 4.588e6), Point(15_000, 10.97e6)])
    assert line.score_bound(1, 17_000) == pytest.approx(11.50e6, rel=0.006)
    assert line.score_bound(0, 15_000) == pytest.approx(5 * 4.588e6)


# The measurement of a trial


def settled(rate: Callable[[float], float], every_s: float = 1.0, kind: TrialKind = TrialKind.LADDER) -> RateMeter:
    """Returns a measured trial with this rate over time, counted every `every_s` seconds."""
    meter, done, at_s = RateMeter(TuneSpec(), kind), 0.0, 0.0
    meter.add(done, at_s)
    while not meter.is_done:
        done += rate(at_s) * every_s
        at_s += every_s
        meter.add(done, at_s)
    return meter


def test_a_steady_rate_takes_the_least_time() -> None:
    meter = settled(lambda _: 500.0)
    assert (meter.rate, meter.measured_s) == (500.0, 20.0)


def test_all_slots_at_once_are_measured_for_a_minute() -> None:
    assert settled(lambda _: 500.0, kind=TrialKind.TOGETHER).measured_s == 60.0


def test_the_warm_up_is_excluded() -> None:
    meter = settled(lambda at_s: 1000.0 * (0.9 + 0.1 * min(1.0, at_s / 40)))
    assert meter.rate == pytest.approx(1000, rel=0.002)
    assert 40 < meter.measured_s <= 60
    together = settled(lambda at_s: 1000.0 * (0.9 + 0.1 * min(1.0, at_s / 40)), kind=TrialKind.TOGETHER)
    assert together.rate == pytest.approx(1000, rel=0.002)


def test_a_slowdown_of_a_warming_gpu_is_excluded() -> None:
    assert settled(lambda at_s: 1000.0 - 5 * min(20.0, at_s)).rate == pytest.approx(900, rel=0.002)


def test_an_unsettled_rate_is_measured_over_the_second_half() -> None:
    meter = settled(lambda at_s: 1000.0 + 20 * at_s)
    assert meter.measured_s == 60.0
    assert meter.rate == pytest.approx(1000 + 20 * 44.5, rel=0.01)


def test_iterations_longer_than_a_window_are_counted_whole() -> None:
    meter = settled(lambda _: 500.0, every_s=14.0)
    assert meter.rate == 500.0
    assert meter.measured_s == 28.0


def test_another_loop_restarts_the_measurement() -> None:
    meter = RateMeter(TuneSpec(), TrialKind.LADDER)
    for second in range(15):
        meter.add(100.0 * second, second)
    meter.add(0.0, 0.0)
    assert meter.rate is None
    assert meter.measured_s == 0.0
    for second in range(1, 21):
        meter.add(300.0 * second, second)
    assert meter.is_done
    assert meter.rate == 300.0


def test_before_the_second_count_there_is_no_rate() -> None:
    meter = RateMeter(TuneSpec(), TrialKind.LADDER)
    assert meter.rate is None
    meter.add(5.0, 1.0)
    assert meter.rate is None
    assert not meter.is_done


# `tune --resume` refuses to mix measurements that do not compare


def session(**changes: object) -> Session:
    made = tunings.session(tunings.ENDED)
    spec = structs.replace(made.spec, python=sys.executable, env={"A": "1"})
    return structs.replace(made, spec=spec, **changes)


def test_the_same_environment_and_interpreter_are_accepted() -> None:
    same = session(versions=interpreter.versions(sys.executable))
    check_comparable(same)
    check_comparable(session())  # a session that does not know its versions


def test_an_interpreter_whose_packages_have_changed_is_refused_with_the_versions() -> None:
    now = interpreter.versions(sys.executable)
    before = session(versions=structs.replace(now, python="2.7"))
    with pytest.raises(GmgError, match=r"has changed \(python 2\.7 is now 3\.[^)]*\), so rates could not"):
        check_comparable(before)
