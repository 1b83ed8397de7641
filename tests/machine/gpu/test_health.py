"""The health of a GPU, and the activity of its SMs."""

import math
import queue

import pytest

from gmg_tui.machine.gpu import nvml_metrics, sampler, xids
from gmg_tui.machine.gpu.nvml import Nvml
from gmg_tui.machine.gpu.sampler import Sampler
from gmg_tui.model import Gpu, GpuHealth, GpuSample, Xid
from tests.nvml_sim import GPU_IS_LOST, UNKNOWN, Mig, Sim
from tests.nvml_sim.child import on_simulated_driver
from tests.patience import LONG_S

TICK_S = 0.02


def checked(sim: Sim, position: int = 0) -> GpuHealth:
    sim.write()
    nvml = Nvml.open()
    gpu = nvml.gpus()[position]
    nvml.check_health(gpu)
    health = nvml.read(gpu, slow=False).health
    nvml.close()
    assert health is not None
    return health


@on_simulated_driver
def test_all_health_counters_are_read_and_a_healthy_gpu_has_no_trouble(sim: Sim) -> None:
    gpu = sim.gpus[0]
    gpu.ecc_corrected = 3
    gpu.memory_temperature_c, gpu.pstate = 71, 1
    assert checked(sim) == GpuHealth(
        ecc_corrected=3,
        ecc_uncorrected=0,
        remap_pending=False,
        remap_failed=False,
        memory_temperature_c=71,
        memory_temperature_max_c=95,
        pcie_gen=5,
        pcie_gen_max=5,
        pcie_width=16,
        pcie_width_max=16,
        nvlink_recoveries=0,
        pstate=1,
    )


@on_simulated_driver
def test_each_problem_is_a_sentence_with_advice_worst_first(sim: Sim) -> None:
    gpu = sim.gpus[0]
    gpu.ecc_uncorrected, gpu.remap_pending, gpu.remap_failed, gpu.nvlink_recoveries = 2, True, True, 1
    gpu.memory_temperature_c, gpu.pcie_width, gpu.pcie_gen = 97, 8, 3
    troubles = checked(sim).troubles
    assert [(trouble.fatal, trouble.text) for trouble in troubles] == [
        (True, "2 ECC errors, uncorrected"),
        (True, "a memory row cannot be remapped"),
        (False, "a memory row remapping is pending"),
        (False, "NVLink has failed 1 time"),
        (False, "memory at 97 °C, limit 95 °C"),
        (False, "PCIe has 8 of 16 lanes"),
        (False, "PCIe generation 3 of 5"),
    ]
    assert all(trouble.advice for trouble in troubles)


@on_simulated_driver
def test_a_power_saving_link_of_an_idle_gpu_is_no_trouble(sim: Sim) -> None:
    sim.gpus[0].pcie_gen, sim.gpus[0].pstate = 1, 8
    assert checked(sim).troubles == ()


@on_simulated_driver
def test_a_gpu_without_health_counters_has_no_health(sim: Sim) -> None:
    names = {name for name in vars(sim.gpus[0]) if name.startswith(("ecc", "remap", "memory_temp", "pcie", "nvlink"))}
    sim.gpus[0].unsupported = names | {"pstate"}
    sim.write()
    nvml = Nvml.open()
    gpu = nvml.gpus()[0]
    assert nvml.check_health(gpu) is None
    assert nvml.read(gpu, slow=True).health is None


@on_simulated_driver
def test_xids_are_reported_once_and_earlier_ones_are_not(sim: Sim) -> None:
    sim.gpus[1].xids = [48]
    sim.write()
    nvml = Nvml.open()
    gpus = nvml.gpus()
    assert not nvml.poll_xids(gpus)
    sim.gpus[0].xids = [13, 79]
    sim.gpus[1].xids = [48, 63, 63]
    sim.write()
    assert nvml.poll_xids(gpus)
    assert not nvml.poll_xids(gpus)
    first, second = (nvml.read(gpu, slow=False).health for gpu in gpus[:2])
    assert [xid.code for xid in first.xids] == [13, 79]
    assert [trouble.text for trouble in first.troubles] == ["Xid 79: the GPU has fallen off the bus"], (
        "13 is the script's"
    )
    assert [(xid.code, xid.count) for xid in second.xids] == [(63, 2)]
    assert [trouble.text for trouble in second.troubles] == ["Xid 63 (2 times): a memory row will be remapped"]
    assert second.fatal is None
    nvml.check_health(gpus[0])
    after = nvml.read(gpus[0], slow=False).health
    assert ([xid.code for xid in after.xids], after.ecc_uncorrected) == ([13, 79], 0), "a look keeps them"


@on_simulated_driver
def test_a_lost_gpu_does_not_block_events_of_others(sim: Sim) -> None:
    nvml = Nvml.open(retry_s=0)
    gpus = nvml.gpus()
    nvml.poll_xids(gpus)
    sim.fails = {"nvmlEventSetWait_v2": 15}  # NVML_ERROR_GPU_IS_LOST
    sim.write()
    assert not nvml.poll_xids(gpus)
    sim.fails, sim.gpus[0].lost = {}, True
    sim.write()
    assert not nvml.poll_xids(gpus)
    sim.gpus[1].xids = [79]
    sim.write()
    assert nvml.poll_xids(gpus)


@on_simulated_driver
def test_xids_of_others_arrive_while_a_gpu_is_lost(sim: Sim) -> None:
    nvml = Nvml.open(retry_s=3600)
    gpus = nvml.gpus()
    nvml.poll_xids(gpus)
    sim.gpus[0].lost = True
    sim.gpus[1].xids = [79]
    sim.write()
    assert nvml.poll_xids(gpus)
    sim.gpus[2].xids = [48]
    sim.write()
    assert nvml.poll_xids(gpus)


@on_simulated_driver
def test_gpus_that_do_not_answer_at_first_are_used_once_they_do(sim: Sim) -> None:
    nvml = Nvml.open(retry_s=0)
    gpus = nvml.gpus()
    for gpu in sim.gpus:
        gpu.lost = True
    sim.write()
    assert not nvml.poll_xids(gpus)
    for gpu in sim.gpus:
        gpu.lost = False
    sim.write()
    assert not nvml.poll_xids(gpus)
    sim.gpus[1].xids = [79]
    sim.write()
    assert nvml.poll_xids(gpus)


@on_simulated_driver
def test_a_gpu_that_comes_back_is_registered_again(sim: Sim) -> None:
    nvml = Nvml.open(retry_s=0)
    gpus = nvml.gpus()
    nvml.poll_xids(gpus)
    sim.gpus[0].lost = True
    sim.write()
    assert nvml.read(gpus[0], slow=False).lost
    sim.gpus[0].lost = False
    sim.write()
    sim.record()
    nvml.poll_xids(gpus)
    assert sim.calls().count("nvmlDeviceRegisterEvents") == 1


@on_simulated_driver
def test_the_sampler_reads_health_and_an_xid_triggers_another_read(sim: Sim) -> None:
    setattr(sampler, "HEALTH_INTERVAL_S", 3600.0)  # noqa: B010 - in a process of its own
    rounds: queue.SimpleQueue[tuple[GpuSample, ...]] = queue.SimpleQueue()
    nvml = Nvml.open()
    thread = Sampler(nvml.gpus(), TICK_S, lambda samples, _: rounds.put(samples), nvml)
    thread.start()
    while (rounds.get(timeout=LONG_S)[7].health or GpuHealth()).ecc_uncorrected != 0:
        pass
    sim.gpus[7].ecc_uncorrected, sim.gpus[7].xids = 4, [48]
    sim.write()
    while (rounds.get(timeout=LONG_S)[7].health or GpuHealth()).ecc_uncorrected != 4:
        pass
    assert thread.stop()
    sim.record()
    nvml.close()
    assert sim.calls() == [*["nvmlEventSetFree"] * len(sim.gpus), "nvmlShutdown"]


@on_simulated_driver
def test_hanging_counters_do_not_block_metrics(sim: Sim) -> None:
    rounds: queue.SimpleQueue[tuple[GpuSample, ...]] = queue.SimpleQueue()
    sim.fails = {"nvmlDeviceGetTotalEccErrors": -1}
    sim.write()
    nvml = Nvml.open()
    thread = Sampler(nvml.gpus(), TICK_S, lambda samples, _: rounds.put(samples), nvml)
    thread.start()
    rounds.get(timeout=LONG_S)
    sim.gpus[0].gpu_util_pct = 3
    sim.write()
    while rounds.get(timeout=LONG_S)[0].gpu_util_pct != 3:
        pass
    assert not thread.stop(wait_s=0.05), "its thread still waits for the driver"


@pytest.mark.parametrize("code", [46, 48, 62, 64, 74, 79, 95, 119, 120, 136, 140, 143, 158])
def test_an_xid_of_a_broken_gpu_is_fatal_with_advice(code: int) -> None:
    trouble = xids.trouble(Xid(code, 0.0))
    assert trouble.fatal
    assert "reset" in trouble.advice or "reboot" in trouble.advice


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 69, 137])
def test_an_xid_caused_by_a_script_is_not_a_fault_of_the_gpu(code: int) -> None:
    assert xids.trouble(Xid(code, 0.0)) is None
    assert "script" in xids.meaning(code).advice


@pytest.mark.parametrize("code", [32, 61, 63, 92, 94, 109, 121, 149, 154])
def test_a_recoverable_xid_is_reported_and_not_fatal(code: int) -> None:
    trouble = xids.trouble(Xid(code, 0.0))
    assert not trouble.fatal


# True utilisation by GPM, on the simulated driver

SM = 2
NOT_SUPPORTED = 3
WHOLE = {SM: 41.5}


def begun(sim: Sim) -> tuple[Nvml, tuple[Gpu, ...]]:
    """Returns NVML that has read each GPU once, and samples at each read."""
    setattr(nvml_metrics, "MIN_SAMPLE_GAP_S", 0.0)  # noqa: B010 - in a process of its own
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
