"""The figures of `gmg-tui gpus --json` beside those of nvidia-smi and nvitop."""

import json
import math
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.hardware.conftest import HELD_MIB, Gmg, Record

pytestmark = [pytest.mark.gpu, pytest.mark.process, pytest.mark.timeout(240)]

CONTEXT_MIB = 2048
"""At most this much more than what was asked for: the CUDA context, and cuBLAS' workspace."""
# Two programs read one after the other while the GPU works: what changes from one moment to the next may differ.
FIELDS = {
    "memory_total_mib": ("memory.total", 1.0),
    "memory_used_mib": ("memory.used", 64.0),
    "temperature_c": ("temperature.gpu", 4.0),
    "power_limit_w": ("power.limit", 1.0),
    "power_w": ("power.draw.instant", 150.0),
    "sm_clock_mhz": ("clocks.sm", 150.0),
    "gpu_util_pct": ("utilization.gpu", 20.0),
}


def _gpus(gmg: Gmg) -> list[dict[str, Any]]:
    listed = json.loads(gmg("gpus", "--json").stdout)
    assert isinstance(listed, list)
    return listed


def test_metrics_agree_with_nvidia_smi(
    gmg: Gmg, smi: Callable[[str], list[list[str]]], record: Record, holder: subprocess.Popen[str]
) -> None:
    rows = {row[0]: row[1:] for row in smi("uuid," + ",".join(name for name, _ in FIELDS.values()))}
    for gpu in _gpus(gmg):
        assert gpu["uuid"] in rows
        for (name, (_, tolerance)), text in zip(FIELDS.items(), rows[gpu["uuid"]], strict=True):
            if text.startswith(("[", "N/A")):
                assert gpu[name] is None or name == "gpu_util_pct", f"{name} is {gpu[name]}, nvidia-smi reports {text}"
                continue
            record.add(name, f"gpu{gpu['index']}", gpu[name], float(text), "nvidia-smi")
            assert gpu[name] == pytest.approx(float(text), abs=tolerance), name


def test_metrics_agree_with_nvitop(gmg: Gmg, record: Record) -> None:
    nvitop = pytest.importorskip("nvitop", reason="nvitop is not installed")
    listed = _gpus(gmg)
    devices = {device.uuid(): device for device in nvitop.Device.all()}
    assert set(devices) == {gpu["uuid"] for gpu in listed}
    for gpu in listed:
        device = devices[gpu["uuid"]]
        figures = {
            "memory_total_mib": device.memory_total() / 2**20,
            "memory_used_mib": device.memory_used() / 2**20,
            "temperature_c": device.temperature(),
            "power_limit_w": device.power_limit() / 1000,
            "power_w": device.power_usage() / 1000,
            "sm_clock_mhz": device.sm_clock(),
            "gpu_util_pct": device.gpu_utilization(),
        }
        for name, value in figures.items():
            if math.isnan(float(value)):
                continue  # nvitop's word for a figure that the driver does not have
            record.add(name, f"gpu{gpu['index']}", gpu[name], value, "nvitop")
            assert gpu[name] == pytest.approx(value, abs=FIELDS[name][1]), name
        assert gpu["index"] == device.index
        assert {process["pid"] for process in gpu["processes"]} == set(device.processes())


def test_a_process_is_listed_with_its_memory_until_it_is_killed(
    gmg: Gmg, record: Record, holder: subprocess.Popen[str]
) -> None:
    before = next(gpu for gpu in _gpus(gmg) if gpu["index"] == 0)
    listed = {process["pid"]: process["memory_mib"] for process in before["processes"]}
    if holder.pid in listed:  # in a container NVML gives the PIDs of the host, or none
        memory_mib = listed[holder.pid]
        record.add("process memory_mib", "gpu0", memory_mib, HELD_MIB, "asked for")
        assert memory_mib is None or HELD_MIB <= memory_mib <= HELD_MIB + CONTEXT_MIB
    assert before["memory_used_mib"] >= HELD_MIB
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    after = next(gpu for gpu in _gpus(gmg) if gpu["index"] == 0)
    freed_mib = before["memory_used_mib"] - after["memory_used_mib"]
    record.add("memory_mib released by SIGKILL", "gpu0", freed_mib, HELD_MIB, "asked for")
    assert freed_mib >= HELD_MIB
    assert holder.pid not in {process["pid"] for process in after["processes"]}
