"""NVML through the unmodified pynvml on the simulated driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.machine.gpu.nvml import Nvml, NvmlUnavailable
from gmg_tui.model import Gpu, GpuProcess, GpuSample
from tests.nvml_sim import DRIVER_NOT_LOADED, NO_PERMISSION, UNKNOWN, VERSION_MISMATCH, Mig, Process, Sim
from tests.nvml_sim.child import ROOT, on_simulated_driver


def opened() -> tuple[Nvml, tuple[Gpu, ...]]:
    """Returns NVML that retries lost GPUs at once, and the cards."""
    nvml = Nvml.open(retry_s=0)
    return nvml, nvml.gpus()


@on_simulated_driver
def test_metrics_of_eight_cards_are_read(sim: Sim) -> None:
    nvml, gpus = opened()
    assert [gpu.uuid for gpu in gpus] == [simulated.uuid for simulated in sim.gpus]
    for index, (gpu, simulated) in enumerate(zip(gpus, sim.gpus, strict=True)):
        assert gpu == Gpu(
            index=index,
            uuid=simulated.uuid,
            name="NVIDIA H100 80GB HBM3",
            pci_bus_id=simulated.pci_bus_id,
            memory_total_mib=81559,
            power_limit_w=700.0,
            persistence=True,
            driver="570.86.15",
            cuda="12.8",
        )
        assert nvml.read(gpu, slow=True) == GpuSample(
            uuid=simulated.uuid,
            gpu_util_pct=simulated.gpu_util_pct,
            memory_util_pct=simulated.memory_util_pct,
            memory_used_mib=simulated.memory_used_mib,
            memory_total_mib=81559,
            memory_free_mib=81559 - (simulated.memory_used_mib or 0.0) - simulated.memory_reserved_mib,
            temperature_c=simulated.temperature_c,
            power_w=simulated.power_w,
            power_limit_w=700,
            sm_clock_mhz=simulated.sm_clock_mhz,
            sm_clock_max_mhz=1980,
            throttle=(),
            fan_pct=simulated.fan_pct,
            pcie_rx_mib_s=simulated.pcie_rx_mib_s,
            pcie_tx_mib_s=simulated.pcie_tx_mib_s,
            energy_j=simulated.energy_j,
            processes=(),
        )


@on_simulated_driver
def test_an_unsupported_metric_is_none_and_a_zero_is_zero(sim: Sim) -> None:
    nvml, gpus = opened()
    names = {"gpu_util_pct", "power_w", "power_limit_w", "temperature_c", "fan_pct", "energy_j", "sm_clock_mhz"}
    sim.gpus[0].unsupported = names | {"memory_used_mib", "throttle"}
    sim.gpus[0].fails = {"nvmlDeviceGetComputeRunningProcesses_v3": NO_PERMISSION}
    sim.gpus[1].gpu_util_pct = 0
    sim.gpus[1].power_w = 0
    sim.write()
    silent = nvml.read(gpus[0], slow=True)
    assert {
        name
        for name in names | {"memory_used_mib", "memory_total_mib", "throttle"}
        if getattr(silent, name) is not None
    } == set()
    assert (silent.sm_clock_max_mhz, silent.error, silent.lost) == (1980, None, False)
    idle = nvml.read(gpus[1], slow=True)
    assert (idle.gpu_util_pct, idle.power_w) == (0, 0)


@on_simulated_driver
def test_a_lost_card_is_a_state_of_that_card_and_it_can_come_back(sim: Sim) -> None:
    nvml, gpus = opened()
    before = nvml.read(gpus[2], slow=True)
    sim.gpus[2].lost = True
    sim.write()
    lost = nvml.read(gpus[2], slow=False)
    assert (lost.lost, lost.gpu_util_pct, lost.fan_pct) == (True, None, None)
    assert "lost" in (lost.error or "")
    assert nvml.error is None
    assert nvml.read(gpus[3], slow=False).gpu_util_pct == sim.gpus[3].gpu_util_pct
    with pytest.raises(NvmlUnavailable, match="lost"):
        nvml.index_of(gpus[2].uuid)
    assert [gpu.index for gpu in nvml.gpus() if gpu.trouble is not None] == [2]
    sim.gpus[2].lost = False
    sim.write()
    assert nvml.read(gpus[2], slow=False) == before


@on_simulated_driver
def test_an_unloaded_driver_is_one_line_and_recovers(sim: Sim) -> None:
    nvml, gpus = opened()
    sim.no_driver()
    gone = nvml.read(gpus[0], slow=True)
    assert gone == GpuSample(uuid=gpus[0].uuid, error=nvml.error)
    assert "driver is not loaded" in (nvml.error or "")
    with pytest.raises(NvmlUnavailable, match="driver is not loaded"):
        nvml.gpus()
    sim.driver_back()
    assert nvml.read(gpus[0], slow=False).gpu_util_pct == sim.gpus[0].gpu_util_pct
    assert nvml.error is None


@on_simulated_driver
def test_a_missing_driver_is_reported_with_advice(sim: Sim) -> None:
    for code, words in (
        (DRIVER_NOT_LOADED, "kernel module"),
        (NO_PERMISSION, "/dev/nvidiactl"),
        (VERSION_MISMATCH, "reboot"),
        (UNKNOWN, "Unknown Error"),
    ):
        sim.error = code
        sim.write()
        with pytest.raises(NvmlUnavailable, match=words) as caught:
            Nvml.open()
        assert "\n" not in str(caught.value)


def test_a_library_that_cannot_be_loaded_is_reported_with_advice(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").touch()  # hides a real one
    code = "from gmg_tui.machine.gpu.nvml import *\ntry: Nvml.open()\nexcept NvmlUnavailable as error: print(error)"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert "install the NVIDIA driver" in done.stdout, done.stderr


@on_simulated_driver
def test_a_card_that_refuses_all_queries_reports_the_reason(sim: Sim) -> None:
    nvml, gpus = opened()
    sim.record()
    nvml.read(gpus[0], slow=True)
    sim.gpus[0].fails = dict.fromkeys(sim.calls(), NO_PERMISSION)
    sim.write()
    sample = nvml.read(gpus[0], slow=True)
    assert (sample.lost, sample.error) == (False, "no permission to read this GPU")


@on_simulated_driver
def test_processes_come_and_go_each_pid_once(sim: Sim) -> None:
    nvml, gpus = opened()
    sim.gpus[0].processes = [
        Process(pid=300, memory_mib=2048),
        Process(pid=7, memory_mib=None),
        Process(pid=300, memory_mib=2048, graphics=True),
        Process(pid=9, memory_mib=16, graphics=True),
    ]
    sim.write()
    assert nvml.read(gpus[0], slow=True).processes == (
        GpuProcess(pid=7),
        GpuProcess(pid=9, memory_mib=16, graphics=True),
        GpuProcess(pid=300, memory_mib=2048),
    )
    sim.gpus[0].processes = []
    sim.write()
    assert len(nvml.read(gpus[0], slow=False).processes or ()) == 3, "kept until they are asked for again"
    assert nvml.read(gpus[0], slow=True).processes == ()


@on_simulated_driver
def test_mig_instances_follow_their_card_and_have_no_utilisation(sim: Sim) -> None:
    first = Mig(uuid="MIG-aaaa", index=0, memory_used_mib=100, processes=[Process(pid=5, memory_mib=88)])
    second = Mig(uuid="MIG-bbbb", index=2, memory_used_mib=200)
    sim.gpus = sim.gpus[:2]
    sim.gpus[0].mig = [first, second]
    sim.write()
    nvml, gpus = opened()
    assert [(gpu.uuid, gpu.index, gpu.mig_index, gpu.parent_uuid, gpu.mig) for gpu in gpus] == [
        (sim.gpus[0].uuid, 0, None, None, True),
        ("MIG-aaaa", 0, 0, sim.gpus[0].uuid, False),
        ("MIG-bbbb", 0, 2, sim.gpus[0].uuid, False),
        (sim.gpus[1].uuid, 1, None, None, False),
    ]
    assert gpus[1].memory_total_mib == 9984
    assert [gpu.gpu_instance for gpu in gpus] == [None, 1, 3, None]
    assert nvml.read(gpus[0], slow=True).gpu_util_pct is None
    sample = nvml.read(gpus[1], slow=True)
    assert sample == GpuSample(
        uuid="MIG-aaaa",
        memory_used_mib=100,
        memory_total_mib=9984,
        memory_free_mib=9884,
        processes=(GpuProcess(pid=5, memory_mib=88),),
    )


@on_simulated_driver
def test_an_index_is_looked_up_again_by_uuid(sim: Sim) -> None:
    nvml, gpus = opened()
    sim.gpus.reverse()
    sim.write()
    assert [nvml.index_of(gpu.uuid) for gpu in gpus] == [7, 6, 5, 4, 3, 2, 1, 0]
    with pytest.raises(NvmlUnavailable, match="no longer there"):
        nvml.index_of("GPU-unknown")


@on_simulated_driver
def test_strings_of_the_driver_are_decoded_and_cleaned(sim: Sim) -> None:
    sim.driver = "570\udcff"
    for gpu, name in zip(sim.gpus, ("H100 \udcff\udcfe", "H\x1b[31m100\x07\u202e", ""), strict=False):
        gpu.name = name
    sim.gpus[3].uuid = "GPU-\udcff"
    sim.gpus[4].pci_bus_id = "\udcff"
    sim.gpus[5].mig = [Mig(uuid="MIG-a", name=""), Mig(uuid="MIG-\udcff", index=2), Mig(uuid="MIG-c", index=4)]
    sim.write()
    _, gpus = opened()
    assert [gpu.name for gpu in gpus[:3]] == ["H100 \ufffd\ufffd", "H100··", "unknown GPU"]
    assert gpus[0].driver == "570\ufffd"
    assert [gpu.uuid for gpu in gpus if gpu.index == 5] == [sim.gpus[5].uuid, "MIG-a", "", "MIG-c"]
    assert next(gpu.name for gpu in gpus if gpu.uuid == "MIG-a") == "unknown MIG instance"
    assert [(gpu.index, gpu.mig_index, gpu.trouble) for gpu in gpus if gpu.trouble is not None] == [
        (3, None, "NVML reports no valid UUID: 'GPU-\ufffd'"),
        (5, 2, "NVML reports no valid UUID: 'MIG-\ufffd'"),
    ]


@on_simulated_driver
def test_implausible_values_are_unknown(sim: Sim) -> None:
    ones, gpu = (1 << 32) - 1, sim.gpus[0]
    gpu.power_w = gpu.power_limit_w = ones / 1000
    gpu.temperature_c, gpu.memory_temperature_c = 65_535, ones
    gpu.gpu_util_pct = gpu.memory_util_pct = gpu.sm_clock_mhz = gpu.fan_pct = gpu.throttle = ones
    gpu.pcie_rx_mib_s, gpu.energy_j = ones / 1024, ((1 << 64) - 1) / 1000
    gpu.ecc_uncorrected, gpu.pstate, gpu.pcie_width_max = ones, 32, ones
    gpu.memory_used_mib = 90_000
    gpu.processes = [Process(pid=5, memory_mib=1 << 30), Process(pid=6, memory_mib=10)]
    sim.gpus[1].memory_total_mib = 0
    sim.gpus[2].memory_total_mib = 1 << 40
    sim.cuda_version = (1 << 31) - 1
    sim.write()
    nvml, gpus = opened()
    assert (gpus[0].power_limit_w, gpus[0].cuda, gpus[1].memory_total_mib) == (None, None, None)
    assert nvml.read(gpus[0], slow=True) == GpuSample(
        uuid=gpu.uuid,
        memory_total_mib=81559,
        sm_clock_max_mhz=1980,
        pcie_tx_mib_s=gpu.pcie_tx_mib_s,
        processes=(GpuProcess(pid=5), GpuProcess(pid=6, memory_mib=10)),
    )
    for unknown in gpus[1:3]:
        sample = nvml.read(unknown, slow=True)
        assert (sample.memory_total_mib, sample.memory_used_mib, sample.memory_free_mib) == (None, None, None)
        assert sample.power_w is not None
    health = nvml.check_health(gpus[0])
    assert (health.ecc_uncorrected, health.memory_temperature_c, health.pstate, health.troubles) == (
        None,
        None,
        None,
        (),
    )


@on_simulated_driver
def test_a_function_that_fails_on_one_gpu_only_is_unknown_there_only(sim: Sim) -> None:
    functions = ("Name", "PciInfo_v3", "MemoryInfo_v2", "MigMode", "EnforcedPowerLimit", "PowerUsage")
    sim.gpus[1].fails = {f"nvmlDeviceGet{function}": UNKNOWN for function in functions}
    sim.gpus[2].fails = {f"nvmlDeviceGet{function}": 3 for function in functions}
    sim.write()
    nvml, gpus = opened()
    assert [gpu.name for gpu in gpus[:3]] == ["NVIDIA H100 80GB HBM3", "unknown GPU", "unknown GPU"]
    for gpu in gpus[1:3]:
        sample = nvml.read(gpu, slow=True)
        assert (gpu.memory_total_mib, gpu.mig, sample.power_w, sample.memory_used_mib) == (None, False, None, None)
        assert (sample.temperature_c, sample.error) == (60 + gpu.index, None)


@on_simulated_driver
def test_processes_are_listed_again_once_the_memory_in_use_has_changed(sim: Sim) -> None:
    nvml, (gpu, *_) = opened()

    def pids(used_mib: float, *pids: int, slow: bool = False) -> list[int]:
        sim.gpus[0].memory_used_mib, sim.gpus[0].processes = used_mib, [Process(pid) for pid in pids]
        sim.write()
        return [process.pid for process in nvml.read(gpu, slow=slow).processes or ()]

    assert pids(500, 1, slow=True) == [1]
    assert pids(530, 1, 2) == [1]
    assert pids(9000, 1, 2) == [1, 2]
    assert pids(9000, 1, 2, 3) == [1, 2]
    assert pids(9000, 1, 2, 3, slow=True) == [1, 2, 3]
