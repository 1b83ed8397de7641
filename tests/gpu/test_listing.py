"""`gmg-tui gpus`: rows for programs, lines for people."""

from __future__ import annotations

import json

import pytest

from gmg_tui.gpu import listing
from gmg_tui.gpu.nvml import Nvml
from gmg_tui.gpu.throttle import words
from tests.nvml_sim import Mig, Process, Sim
from tests.nvml_sim.child import on_simulated_driver

KEYS = [
    *("index", "uuid", "name", "pci_bus_id", "gpu_util_pct", "memory_used_mib", "memory_total_mib"),
    *("temperature_c", "power_w", "power_limit_w", "sm_clock_mhz", "throttle", "processes"),
]


@on_simulated_driver
def test_a_row_has_the_keys_and_figures_of_the_contract(sim: Sim) -> None:
    sim.cards[0].throttle = 0x4 | 0x20
    sim.cards[0].processes = [Process(pid=2**31 - 1, memory_mib=100)]
    sim.cards[1].unsupported = {"gpu_util_pct", "power_w", "throttle"}
    sim.write()
    rows = json.loads(json.dumps(listing.rows(Nvml.open())))
    assert [list(row) for row in rows] == [KEYS] * 8
    assert rows[0] == {
        "index": 0,
        "uuid": sim.cards[0].uuid,
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
        "processes": [{"pid": 2**31 - 1, "name": None, "memory_mib": 100}],
    }
    assert (rows[1]["gpu_util_pct"], rows[1]["power_w"], rows[1]["throttle"]) == (None, None, None)


@on_simulated_driver
def test_a_line_has_units_and_says_what_the_card_does_not(sim: Sim) -> None:
    sim.cards = sim.cards[:4]
    sim.cards[0].throttle = 0x4 | 0x20 | 0x8
    sim.cards[1].unsupported = {"gpu_util_pct", "power_w"}
    sim.cards[2].lost = True
    sim.cards[3].mig = [Mig(uuid="MIG-aaaa", memory_used_mib=1024)]
    sim.write()
    lines = listing.lines(listing.rows(Nvml.open()))
    assert [" ".join(line.split()) for line in lines] == [
        "0 H100 80GB HBM3 90 % 29.5/79.6 GiB 600/700 W 60 °C 1700 MHz 0 proc power cap, …",
        "1 H100 80GB HBM3 n/a 29.5/79.6 GiB n/a/700 W 61 °C 1701 MHz 0 proc",
        "2 does not answer n/a n/a n/a n/a n/a n/a",
        "3 H100 80GB HBM3 n/a 29.5/79.6 GiB 604/700 W 63 °C 1703 MHz 0 proc",
        "3 H100 80GB HBM3 MIG 1g.10gb n/a 1.0/9.8 GiB n/a n/a n/a 0 proc",
    ]
    assert max(map(len, lines)) == 100


def test_no_card_is_no_line() -> None:
    assert listing.lines([]) == []


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
    assert words(mask) == expected
