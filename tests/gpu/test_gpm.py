"""True utilisation by GPM, on the simulated driver."""

from __future__ import annotations

import math

from gmg_tui.gpu import gpm
from gmg_tui.gpu.nvml import Nvml
from gmg_tui.model import Gpu
from tests.nvml_sim import GPU_IS_LOST, UNKNOWN, Mig, Sim
from tests.nvml_sim.child import on_simulated_driver

SM = 2
NOT_SUPPORTED = 3
WHOLE = {SM: 41.5}


def begun(sim: Sim) -> tuple[Nvml, tuple[Gpu, ...]]:
    """NVML that has read each GPU once, and takes a sample at each read."""
    setattr(gpm, "LEAST_S", 0.0)  # noqa: B010 - in a process of its own
    sim.write()
    nvml = Nvml.open(retry_s=0)
    gpus = nvml.gpus()
    for gpu in gpus:
        assert nvml.read(gpu, slow=False, activity=True).sm_pct is None
    return nvml, gpus


@on_simulated_driver
def test_busy_sms_are_counted_from_the_second_sample_on(sim: Sim) -> None:
    sim.gpus[0].gpm = WHOLE
    nvml, gpus = begun(sim)
    sample = nvml.read(gpus[0], slow=False, activity=True)
    assert (sample.sm_pct, sample.gpu_util_pct) == (41.5, 90)
    sim.gpus[0].gpm = {SM: 7}
    sim.write()
    assert nvml.read(gpus[0], slow=False, activity=True).sm_pct == 7
    assert nvml.read(gpus[0], slow=False).sm_pct is None, "nobody asked for it"


@on_simulated_driver
def test_values_above_100_are_clipped_and_nan_is_unknown(sim: Sim) -> None:
    sim.gpus[0].gpm, sim.gpus[1].gpm = {SM: 103.2}, {SM: math.nan}
    nvml, gpus = begun(sim)
    assert [nvml.read(gpu, slow=False, activity=True).sm_pct for gpu in gpus[:2]] == [100.0, None]


@on_simulated_driver
def test_a_gpu_without_gpm_is_queried_once(sim: Sim) -> None:
    sim.gpus = sim.gpus[:3]
    sim.gpus[0].gpm = sim.gpus[1].gpm = WHOLE
    sim.gpus[1].fails = {"nvmlGpmSampleGet": NOT_SUPPORTED}
    nvml, gpus = begun(sim)
    sim.record()
    assert [nvml.read(gpu, slow=False, activity=True).sm_pct for gpu in gpus] == [41.5, None, None]
    assert [call for call in sim.calls() if "Gpm" in call] == ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"]


@on_simulated_driver
def test_a_passing_fault_is_a_gap(sim: Sim) -> None:
    sim.gpus[0].gpm = WHOLE
    nvml, gpus = begun(sim)
    sim.gpus[0].fails = {"nvmlGpmSampleGet": UNKNOWN}
    sim.write()
    assert nvml.read(gpus[0], slow=False, activity=True).sm_pct is None
    sim.gpus[0].fails = {}
    sim.write()
    assert nvml.read(gpus[0], slow=False, activity=True).sm_pct is None, "the first after the gap"
    assert nvml.read(gpus[0], slow=False, activity=True).sm_pct == 41.5


@on_simulated_driver
def test_sample_memory_is_allocated_once_and_freed_before_nvml_is_shut_down(sim: Sim) -> None:
    for gpu in sim.gpus:
        gpu.gpm = WHOLE
    sim.record()
    nvml, gpus = begun(sim)
    for _ in range(5):
        nvml.read(gpus[0], slow=False, activity=True)
    sim.gpus[1].fails = {"nvmlGpmSampleGet": GPU_IS_LOST}
    sim.write()
    assert nvml.read(gpus[1], slow=False, activity=True).lost
    nvml.close()
    calls = sim.calls()
    assert calls.count("nvmlGpmSampleAlloc") == calls.count("nvmlGpmSampleFree") == 2 * len(gpus)
    assert calls[-1] == "nvmlShutdown"


@on_simulated_driver
def test_a_mig_instance_has_its_own_metrics(sim: Sim) -> None:
    sim.gpus = sim.gpus[:1]
    sim.gpus[0].gpm = {SM: 33}
    sim.gpus[0].mig = [Mig("MIG-a", 0, gpm={SM: 11}), Mig("MIG-b", 3, gpm={SM: 22}), Mig("MIG-c", 5)]
    nvml, gpus = begun(sim)
    assert [nvml.read(gpu, slow=False, activity=True).sm_pct for gpu in gpus] == [33, 11, 22, None]
