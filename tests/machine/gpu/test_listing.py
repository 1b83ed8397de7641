"""`gmg-tui gpus`: rows for programs, lines for people."""

import json

import pytest

from gmg_tui.cli import doctor
from gmg_tui.cli.gpus import COLUMNS, read_all, to_json
from gmg_tui.cli.run import _has_gpu
from gmg_tui.engine.hardware import Hardware
from gmg_tui.machine.gpu import driver
from gmg_tui.machine.gpu.nvml import NvmlUnavailable, open_nvml
from gmg_tui.machine.gpu.nvml_metrics import throttle_reasons
from gmg_tui.model import Gpu, GpuSample, RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.results import table as tables
from tests.nvml_sim import HANGS, UNKNOWN, Mig, Process, Sim
from tests.nvml_sim.child import on_simulated_driver

KEYS = [
    *("index", "uuid", "name", "pci_bus_id", "gpu_util_pct", "memory_used_mib", "memory_total_mib"),
    *("temperature_c", "power_w", "power_limit_w", "sm_clock_mhz", "throttle", "processes"),
]


def lines(read: list[tuple[Gpu, GpuSample]]) -> list[str]:
    """The table for people, without its heading."""
    return tables.render_lines(COLUMNS, read)[1:]


@on_simulated_driver
def test_a_row_has_the_keys_and_values_of_the_contract(sim: Sim) -> None:
    sim.gpus[0].throttle = 0x4 | 0x20
    sim.gpus[0].processes = [Process(pid=2**31 - 1, memory_mib=100)]
    sim.gpus[1].unsupported = {"gpu_util_pct", "power_w", "throttle"}
    sim.write()
    rows = json.loads(json.dumps([to_json(*reading) for reading in read_all()]))
    assert [list(each) for each in rows] == [KEYS] * 8
    assert rows[0] == {
        "index": 0,
        "uuid": sim.gpus[0].uuid,
        "name": "NVIDIA H100 80GB HBM3",
        "pci_bus_id": "00000000:1B:00.0",
        "gpu_util_pct": 90,
        "memory_used_mib": 30211,
        "memory_total_mib": 81559,
        "temperature_c": 60,
        "power_w": 600.5,
        "power_limit_w": 700,
        "sm_clock_mhz": 1700,
        "throttle": ["power cap", "thermal"],
        "processes": [
            {"pid": 2**31 - 1, "name": None, "memory_mib": 100, "user": None, "started": None, "session": None}
        ],
    }
    assert (rows[1]["gpu_util_pct"], rows[1]["power_w"], rows[1]["throttle"]) == (None, None, None)


@on_simulated_driver
def test_a_line_has_units_and_marks_unsupported_values(sim: Sim) -> None:
    sim.gpus = sim.gpus[:4]
    sim.gpus[0].throttle = 0x4 | 0x20 | 0x8
    sim.gpus[1].unsupported = {"gpu_util_pct", "power_w"}
    sim.gpus[2].lost = True
    sim.gpus[3].mig = [Mig(uuid="MIG-aaaa", memory_used_mib=1024)]
    sim.write()
    setattr(driver, "LATE_S", 600.0)  # noqa: B010 - in a process of its own
    printed = lines(read_all())
    printed = [" ".join(line.split()) for line in printed]
    assert printed == [
        "0 H100 80GB HBM3 90 29.5/79.6 600/700 60 1700 0 power cap, hw slowdown, thermal",
        "1 H100 80GB HBM3 – 29.5/79.6 n/a/700 61 1701 0 –",
        "2 does not answer – – – – – – –",
        "3 H100 80GB HBM3 – 29.5/79.6 604/700 63 1703 0 –",
        "3 H100 80GB HBM3 MIG 1g.10gb – 1.0/9.8 – – – 0 –",
    ]


@on_simulated_driver
def test_a_hanging_gpu_does_not_block_the_others(sim: Sim) -> None:
    sim.gpus = sim.gpus[:2]
    sim.gpus[0].fails = {"nvmlDeviceGetUtilizationRates": HANGS}
    sim.write()
    setattr(driver, "SILENT_S", 5.0)  # noqa: B010 - in a process of its own
    assert [" ".join(line.split()) for line in lines(read_all())] == [
        "0 H100 80GB HBM3 – – – – – – no answer",
        "1 H100 80GB HBM3 91 29.5/79.6 602/700 61 1701 0 –",
    ]


@on_simulated_driver
def test_a_driver_that_does_not_list_its_gpus_times_out(sim: Sim) -> None:
    sim.hangs = True
    sim.write()
    setattr(driver, "OPEN_TIMEOUT_S", 0.1)  # noqa: B010 - in a process of its own
    with pytest.raises(NvmlUnavailable, match="has not answered"):
        open_nvml()
    with pytest.raises(GmgError, match=r"no GPU: the NVIDIA driver has not answered .* --cpu"):
        Hardware.find(RunSpec("sim-1", "/state", "/run/sock", "sim.py", (), "/", "python"), lambda *_: None)
    assert "has not answered" in (doctor._query_nvml().error or "")
    assert not _has_gpu()


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (0, ()),
        (0x1 | 0x2, ()),
        (0x4, ("power cap",)),
        (0x8, ("hw slowdown",)),
        (0x8 | 0x40, ("hw thermal",)),
        (0x8 | 0x80 | 0x4, ("power cap", "power brake")),
        (0x10 | 0x20 | 0x100 | 1 << 40, ("sync boost", "thermal", "display clock")),
    ],
)
def test_throttle_reasons_are_words_and_idleness_is_none(mask: int, expected: tuple[str, ...]) -> None:
    assert throttle_reasons(mask) == expected


@on_simulated_driver
def test_a_session_names_the_gpus_that_it_excludes(sim: Sim) -> None:
    sim.gpus[1].fails = {"nvmlDeviceGetUUID": UNKNOWN}
    sim.write()
    hardware = Hardware.find(RunSpec("sim-1", "/state", "/run/sock", "sim.py", (), "/", "python"), lambda *_: None)
    assert [slot.name for slot in hardware.slots] == [f"gpu{index}" for index in (0, 2, 3, 4, 5, 6, 7)]
    assert hardware.warnings == ("GPU 1 does not answer (NVML: Unknown Error); no worker will run there",)
