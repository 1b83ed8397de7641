"""The parts of the search: values, memory, failures, slots and noise, the curve."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.model.tuning import Trial, TrialKind, TrialState, TuneSpec
from gmg_tui.tune.curve import Curve, Point, between, grain, rounded, rounded_down
from gmg_tui.tune.fit import Sample, fit
from gmg_tui.tune.record import Record, TuneSlot, is_memory, memory_line
from tests.tune.curves import franka
from tests.tune.simulated import H100


@pytest.mark.parametrize(
    ("value", "nearest", "below"),
    [(1, 1, 1), (77.6, 78, 77), (100, 100, 100), (4_123, 4_096, 4_096), (17_999, 17_920, 17_920), (18_100, 18_176, 17_920)],
)  # fmt: skip
def test_values_are_what_a_person_would_type(value: float, nearest: int, below: int) -> None:
    assert (rounded(value), rounded_down(value)) == (nearest, below)


@given(st.floats(1, 1e9))
def test_rounding_costs_less_than_two_per_cent(value: float) -> None:
    assert rounded_down(value) <= value < rounded_down(value) + grain(value)
    assert abs(rounded(value) / value - 1) < (0.5 if value < 64 else 0.008)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 5))
def test_values_between_two_lie_between_them(one: int, other: int, count: int) -> None:
    low, high = sorted((one, other))
    found = between(low, high, count)
    assert all(low < value < high for value in found)
    assert len(set(found)) == len(found) <= count


def test_memory_of_franka_is_predicted() -> None:
    """FIELD: fitted on 300 and 3,000 it predicts 18,000 within 0.7 %."""
    line = memory_line({300: 671, 3000: 2817})
    assert line is not None
    assert line.base_mib + 18_000 * line.per_unit_mib == pytest.approx(14_642, rel=0.007)
    assert memory_line({300: 671}) is None


def test_the_line_lies_on_or_above_the_greatest_value() -> None:
    """Genesis #1740, go2: memory grows a little slower further on."""
    line = memory_line({4_096: 3_578.0, 10_000: 5_833.0, 20_000: 9_787.0})
    assert line is not None
    assert line.base_mib + 20_000 * line.per_unit_mib >= 9_787 - 1e-6


def record_of(*memory: tuple[int, float], slots: int = 1, total_mib: float | None = 80_000.0) -> Record:
    record = Record(TuneSpec(low=64), [TuneSlot(f"gpu{i}", H100, total_mib) for i in range(slots)])
    for number, (value, memory_mib) in enumerate(memory, 1):
        record.take(measured(number, value, memory_mib=memory_mib))
    return record


def measured(number: int, value: int, slot: str = "gpu0", rate: float = 1.0, memory_mib: float | None = None) -> Trial:
    return Trial(number, value, slot, TrialKind.LADDER, TrialState.MEASURED, rate=rate, memory_mib=memory_mib)


def failed(number: int, value: int, reason: str, slot: str = "gpu0") -> Trial:
    return Trial(number, value, slot, TrialKind.LADDER, TrialState.FAILED, reason=reason)


def test_memory_that_does_not_grow_bounds_nothing() -> None:
    assert record_of((64, 500), (4096, 505)).memory_end is None
    assert record_of((64, 500), (4096, 480)).memory_end is None
    assert record_of((64, 564), (4096, 4596), total_mib=None).memory_end is None


def test_what_others_use_and_the_headroom_lower_the_greatest_value() -> None:
    record = record_of((64, 564), (4096, 4596))
    assert record.memory_end == rounded_down(71_500)
    record.free_mib["gpu0"] = 40_000
    assert record.memory_end == rounded_down(31_500)
    record.free_mib["gpu0"] = 2_000
    assert record.memory_end == 0


def test_gpus_with_nearly_as_much_free_memory_run_the_same_values_and_a_fuller_one_less() -> None:
    record = record_of((1024, 1424), (4096, 4496), slots=4)
    record.free_mib |= {"gpu0": 79_000.0, "gpu1": 78_000.0, "gpu2": 30_000.0}
    end = rounded_down(78_000.0 - 8000 - 400)
    assert record.memory_end == end
    assert [record.fits(end, name) for name in record.slots] == [True, True, False, True]
    record.take(measured(3, end, memory_mib=end + 2400.0))
    record.free_mib |= {"gpu0": 0.0, "gpu1": 76_500.0}  # what has run may leave less free, and where it ran, nothing
    assert [record.fits(end, name) for name in record.slots] == [True, True, False, True]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", True),
        ("RuntimeError: CUDA_ERROR_OUT_OF_MEMORY: out of memory while calling mem_alloc", True),
        ("out of memory: 16,384 envs do not fit; 1,024 ran with 1.2 GiB", True),
        ("Killed by SIGKILL (-9): the host may have run out of memory", False),
        ("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", False),
        (None, False),
    ],
)
def test_a_failure_is_the_memorys_only_where_that_is_said(reason: str | None, expected: bool) -> None:
    assert is_memory(reason) is expected


def test_a_value_does_not_run_after_memory_two_failures_or_a_greater_one_like_it() -> None:
    record = record_of((64, 500))
    record.take(failed(2, 128, "a bad day"))
    assert (record.failed, record.again, record.ceiling) == (set(), [128], 128)
    record.take(failed(3, 512, "CUDA out of memory"))
    assert (record.failed, record.edge and record.edge.value) == ({512}, 512)
    record.take(failed(4, 256, "a bad day"))
    assert record.failed == {128, 512}
    record.take(measured(5, 1024))
    assert record.edge is None


def samples(*of: tuple[str, int, float]) -> list[Sample]:
    return [Sample(slot, (value, False), math.log(rate)) for slot, value, rate in of]


def test_slots_are_compared_by_the_values_that_they_share() -> None:
    shared = [(f"gpu{i}", 4096, 1000.0 * (0.92 if i == 3 else 1)) for i in range(8)]
    shared += [("gpu3", 64, 92.0), ("gpu3", 16_384, 1_840.0), ("gpu5", 16_384, 2_000.0), ("gpu9", 32, 7.0)]
    found = fit(samples(*shared))
    assert found.factors["gpu3"] == pytest.approx(0.92, rel=1e-3)
    assert all(found.factors[f"gpu{i}"] == pytest.approx(1, rel=1e-3) for i in range(8) if i != 3)
    assert "gpu9" not in found.factors
    assert list(found.corrections) == ["gpu3"]


def test_of_two_slots_the_slow_one_is_the_odd_one() -> None:
    assert fit(samples(("gpu0", 64, 920.0), ("gpu1", 64, 1000.0))).factors == pytest.approx({"gpu0": 0.92, "gpu1": 1})
    assert fit(samples(("gpu0", 64, 920.0), ("gpu1", 128, 1000.0))).corrections == {}


def test_slots_that_differ_by_noise_alone_are_not_corrected_for() -> None:
    chance, corrected = random.Random(2), 0
    for _ in range(100):
        found = fit(
            samples(*((f"gpu{i}", value, 1000 * chance.gauss(1, 0.03)) for i in range(4) for value in (64, 128)))
        )
        corrected += len(found.corrections)
    assert corrected <= 20  # of 300


def test_an_interval_holds_the_mean_in_95_of_100_cases() -> None:
    chance, held = random.Random(1), 0
    for _ in range(300):
        found = fit(samples(*(("gpu0", value, 1000 * chance.gauss(1, 0.05)) for value in (64, 128) for _ in range(3))))
        assert found.freedom == 4
        half = found.half(1)
        assert half is not None
        held += abs(chance.gauss(0, 0.05)) <= half
    assert 0.92 <= held / 300 <= 0.99


def test_without_a_repeat_there_is_no_interval() -> None:
    assert fit(samples(("gpu0", 64, 1.0), ("gpu0", 128, 2.0))).half(1) is None
    assert fit([]).half(1) is None


def test_a_curve_knows_what_the_last_doublings_brought() -> None:
    points = [Point(2048, 33.6), Point(4096, 36.8), Point(8192, 30.1), Point(16_384, 19.9)]
    assert Curve(points[:2]).gain() == math.inf
    assert Curve(points[:3]).gain() == pytest.approx(36.8 / 33.6 - 1)
    assert Curve(points).gain() == 0.0
    assert Curve(points).best == Point(4096, 36.8)


def test_what_can_hide_is_what_a_straight_line_of_time_allows() -> None:
    """FIELD: the line of the time through two values predicts a third to half a per cent."""
    line = Curve([Point(3000, 4.588e6), Point(15_000, 10.97e6)])
    assert line.promise(1, 17_000) == pytest.approx(11.50e6, rel=0.006)
    assert line.promise(0, 15_000) == pytest.approx(5 * 4.588e6)
    curve = Curve(Point(value, franka(value)) for value in (64, 1024, 8192, 16_384, 17_920))
    assert curve.crossing(2, 0.95 * franka(17_920)) == pytest.approx(15_400, rel=0.03)
