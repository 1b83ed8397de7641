"""Counters that only some GPUs have: GPM (Hopper and later), Xid events, MIG instances."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gmg_tui.machine.gpu.health import XidEvents
from gmg_tui.machine.gpu.nvml_metrics import MIN_SAMPLE_GAP_S, Gpm
from gmg_tui.machine.gpu.xids import meaning
from tests.hardware.conftest import Record

pytestmark = [pytest.mark.gpu, pytest.mark.process, pytest.mark.timeout(240)]

ILLEGAL_ACCESS = Path(__file__).with_name("illegal_access.py")
EVENT_S = 10.0
"""How long the driver may take to report an Xid."""


@pytest.fixture
def handles(gpu_count: int) -> Iterator[list[Any]]:
    """The NVML handles of all GPUs."""
    pynvml.nvmlInit()
    yield [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(gpu_count)]
    pynvml.nvmlShutdown()


def test_sm_activity_is_high_on_a_busy_gpu(handles: list[Any], record: Record, holder: subprocess.Popen[str]) -> None:
    if not pynvml.nvmlGpmQueryDeviceSupport(handles[0]).isSupportedDevice:
        pytest.skip("this GPU has no GPM counters")
    gpm = Gpm(handles[0])
    try:
        gpm.read()
        threading.Event().wait(MIN_SAMPLE_GAP_S + 0.5)  # GPM compares two samples that are about a second apart
        sm_pct = gpm.read()
    finally:
        gpm.free()
    assert sm_pct is not None
    record.add("SM activity, %, busy", "gpu0", sm_pct, "> 50", "GPM")
    assert 50 < sm_pct <= 100


def test_an_illegal_access_is_an_xid_of_the_script(handles: list[Any], cuda: None, record: Record) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    if not pynvml.nvmlDeviceGetSupportedEventTypes(handles[0]) & pynvml.nvmlEventTypeXidCriticalError:
        pytest.skip("this GPU reports no Xids")
    events = XidEvents(handles[0])
    try:
        done = subprocess.run([sys.executable, str(ILLEGAL_ACCESS)], capture_output=True, text=True, timeout=120)
        assert "illegal memory access" in done.stderr
        deadline = time.monotonic() + EVENT_S
        while not (codes := list(events.poll())) and time.monotonic() < deadline:
            time.sleep(0.1)  # nothing to wait on: NVML's own wait would be another function than ours
    finally:
        events.free()
    record.add("Xids after an illegal access", "gpu0", codes, "13, 31 or 43", "NVML")
    assert codes, "no Xid was reported"
    assert all(meaning(code).severity == "script" for code in codes)


def test_mig_instances_agree_with_nvidia_smi(handles: list[Any], record: Record) -> None:
    modes = []
    for handle in handles:
        try:
            modes.append(pynvml.nvmlDeviceGetMigMode(handle)[0])
        except pynvml.NVMLError:
            modes.append(pynvml.NVML_DEVICE_MIG_DISABLE)
    if pynvml.NVML_DEVICE_MIG_ENABLE not in modes:
        pytest.skip("no GPU is divided into MIG instances")
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True, timeout=60).stdout
    uuids = {line.rpartition("UUID: ")[2].rstrip(")") for line in listed.splitlines() if "MIG" in line}
    shown = subprocess.run(
        [sys.executable, "-m", "gmg_tui", "gpus", "--json"], capture_output=True, text=True, timeout=120
    ).stdout
    record.add("MIG instances", "all", sum(uuid in shown for uuid in uuids), len(uuids), "nvidia-smi -L")
    assert all(uuid in shown for uuid in uuids)
