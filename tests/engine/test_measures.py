"""Histories and meters: bounded, and true."""

from __future__ import annotations

import pytest

from gmg_tui.engine.attempts.gpu_use import Meter
from gmg_tui.engine.output.history import RECENT_POINTS, History, Point
from gmg_tui.model import GpuSample


def test_a_long_history_is_kept_in_bounded_memory_with_its_mean() -> None:
    history = History()
    for second in range(100_000):
        history.add(1000.0 + second, Point(float(second), None, 1.0, None))
    whole = history.whole("gpu0")
    assert len(whole.fps) <= 721
    assert whole.end == pytest.approx(1000.0 + 99_999, abs=whole.step_s)
    assert len(whole.fps) * whole.step_s == pytest.approx(100_000, rel=0.01)
    assert whole.fps[0] == pytest.approx((whole.step_s - 1) / 2)
    assert set(whole.gpu_util_pct) == {None}
    recent = history.recent("gpu0")
    assert recent.fps == tuple(float(second) for second in range(100_000 - RECENT_POINTS, 100_000))


def test_sm_activity_is_included_once_it_was_known() -> None:
    history, other = History(), History()
    for second in range(3):
        history.add(1000.0 + second, Point(1.0, 97.0, None, None, None if second == 1 else 40.0 + second))
        other.add(1000.0 + second, Point(float(second), None, None, None))
    assert history.recent("gpu0").sm_pct == history.whole("gpu0").sm_pct == (40.0, None, 42.0)
    assert other.recent("gpu0").sm_pct == ()
    assert other.whole("gpu0").fps == (0.0, 1.0, 2.0)


def test_means_cover_the_running_phase_and_peaks_the_whole_attempt() -> None:
    meter = Meter()
    meter.add(GpuSample("u", gpu_util_pct=10.0, power_w=100.0, memory_used_mib=900.0), running=False, now=0.0)
    meter.add(GpuSample("u", gpu_util_pct=90.0, power_w=300.0, memory_used_mib=500.0), running=True, now=1.0)
    meter.add(GpuSample("u", gpu_util_pct=80.0, power_w=400.0), running=True, now=2.0)
    assert meter.gpu_util_pct.value == 85.0
    assert meter.power_w.value == 350.0
    assert meter.memory_peak_mib() == 900.0


def test_energy_without_a_counter_is_power_over_time() -> None:
    meter = Meter()
    for second, power_w in enumerate((100.0, 300.0, 300.0)):
        meter.add(GpuSample("u", power_w=power_w), running=False, now=float(second))
    assert meter.energy_j == 200.0 + 300.0


def test_power_of_the_counted_seconds_excludes_building_and_ending() -> None:
    meter = Meter()
    for second in range(20):
        power_w = 300.0 if 5 < second <= 15 else 100.0
        counted = (5.5, min(second - 0.5, 14.5)) if second > 6 else None
        energy_j = 9000.0 + 100.0 * second + 200.0 * min(max(0, second - 5), 10)
        sample = GpuSample("u", power_w=power_w, energy_j=energy_j)
        meter.add(sample, running=True, now=float(second), counted=counted)
    assert meter.counted_power_w == pytest.approx(300.0)
    assert Meter().counted_power_w is None


def test_workers_on_one_gpu_share_its_power_and_its_energy() -> None:
    alone, meters = Meter(), (Meter(), Meter())
    for second, energy_j in enumerate((5000.0, 5600.0, 6200.0)):
        sample = GpuSample("u", power_w=600.0, energy_j=energy_j)
        alone.add(sample, running=True, now=float(second))
        for meter in meters:
            meter.add(sample, running=True, now=float(second), sharers=2)
    assert [meter.energy_j for meter in meters] == [600.0, 600.0]
    assert [meter.power_w.value for meter in meters] == [300.0, 300.0]
    assert (alone.energy_j, alone.power_w.value) == (1200.0, 600.0)


def test_reloading_the_driver_loses_no_energy() -> None:
    meter = Meter()
    for energy_j in (5000.0, 5600.0, 10.0, 110.0):
        meter.add(GpuSample("u", energy_j=energy_j), running=True, now=0.0)
    assert meter.energy_j == 700.0


def test_peak_memory_counts_only_the_processes_of_the_worker() -> None:
    reporting, shared, alone = Meter(), Meter(), Meter()
    sample = GpuSample("u", memory_used_mib=9000.0)
    reporting.add(sample, running=True, now=0.0, sharers=2, own_mib=3000.0)
    reporting.add(sample, running=True, now=1.0, sharers=2, own_mib=2000.0)
    shared.add(sample, running=True, now=0.0, sharers=2)
    alone.add(sample, running=True, now=0.0)
    assert (reporting.memory_peak_mib(500.0), shared.memory_peak_mib(500.0)) == (3000.0, None)
    assert (alone.memory_peak_mib(500.0), alone.memory_peak_mib()) == (8500.0, 9000.0)
