"""The age of a GPU's sample."""

from __future__ import annotations

from gmg_tui.engine.observer import GpuSamples
from gmg_tui.gpu.silence import NO_ANSWER
from gmg_tui.model import GpuSample, StartMode, WorkerState
from tests.nvml_sim import Sim

from .harness import running, spec_for

_READ = GpuSample("A", gpu_util_pct=97.0, power_w=600.0)


def _taken(*samples: GpuSample, interval_s: float = 1.0) -> GpuSamples:
    taken = GpuSamples(["A", "B"], interval_s, 100.0)
    taken.take(samples, 100.0)
    return taken


def test_the_age_of_a_sample_is_shown_from_3_s_and_its_values_dropped_from_15_s() -> None:
    ours = _taken(_READ)
    assert list(ours.current(102.9)) == [_READ]
    (late,) = ours.current(103.0)
    assert (late.age_s, late.gpu_util_pct, late.silent) == (3.0, 97.0, False)
    assert not ours.expire(114.9)
    assert ours.expire(115.0)
    assert not ours.expire(116.0), "said once"
    gone = list(ours.current(123.0))
    assert gone == [GpuSample(uuid, error=NO_ANSWER, age_s=23.0) for uuid in "AB"]
    assert all(sample.silent for sample in gone)
    ours.take([_READ], 124.0)
    assert next(iter(ours.current(124.0))) == _READ


def test_the_age_of_a_sample_counts_from_its_reading_not_its_delivery() -> None:
    ours = _taken(GpuSample("A", gpu_util_pct=97.0, age_s=14.0))
    assert [sample.age_s for sample in ours.current(100.0)] == [14.0]
    assert ours.expire(101.0)


def test_a_lost_gpu_stays_lost_and_unsupported_values_have_no_age() -> None:
    lost, refused = GpuSample("A", lost=True, error="lost"), GpuSample("B", error="no permission")
    ours = _taken(lost, refused)
    assert list(ours.current(110.0)) == [lost, refused]
    ours.expire(120.0)
    assert list(ours.current(120.0)) == [lost, GpuSample("B", error=NO_ANSWER, age_s=20.0)]


async def test_a_session_reports_the_activity_and_health_of_its_gpus(sim: Sim) -> None:
    sim.gpus[0].gpm, sim.gpus[0].ecc_uncorrected = {2: 41.5}, 2
    sim.write()
    spec = spec_for("--lines", "0", cpu=None, gpus="0,1", start=StartMode.TOGETHER)
    async with running(spec, sim.env()) as run:
        snapshot = await run.until(lambda s: len(s.samples) == 2 and s.samples[0].sm_pct and s.samples[1].health)
        first, second = snapshot.samples
        assert (first.sm_pct, second.sm_pct) == (41.5, None)
        assert first.health is not None
        assert first.health.fatal is not None
        assert first.health.fatal.text == "2 ECC errors, uncorrected"
        assert second.health is not None
        assert second.health.troubles == ()
        await run.until_state("gpu0", WorkerState.RUNNING)
        moment = run.snapshot.time
        await run.until(lambda s: s.time > moment + 2)
        assert (await run.client.series("gpu0")).sm_pct[-1] == 41.5
        assert (await run.client.series("gpu1")).sm_pct == ()
