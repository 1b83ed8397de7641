"""The cards once, for `gmg-tui gpus`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gmg_tui import units
from gmg_tui.gpu.nvml import Nvml
from gmg_tui.gpu.processes import describe
from gmg_tui.model import Gpu, GpuReading

_NAME_WIDTH = 30
_LINE_WIDTH = 100


def rows(nvml: Nvml) -> list[dict[str, Any]]:
    """What `gmg-tui gpus --json` prints: a row for each card, and one for each MIG instance with its card's index.

    A figure that the card does not give is None. A card that does not even say who it is has a row with its index alone.

    Raises:
        NvmlUnavailable: NVML as a whole does not answer.
    """
    cards = nvml.cards()
    found = [_row(gpu, nvml.read(gpu, slow=True)) for gpu in cards]
    found += [_empty(index) for index, _ in nvml.silent]
    return sorted(found, key=lambda row: row["index"])


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """`rows` for people: one line for each, in columns, at most 100 wide."""
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [_cut("  ".join(_aligned(line, widths)).rstrip(), _LINE_WIDTH) for line in cells]


def _row(gpu: Gpu, reading: GpuReading) -> dict[str, Any]:
    processes = reading.processes
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "pci_bus_id": gpu.pci_bus_id,
        "gpu_util_pct": reading.gpu_util_pct,
        "memory_used_mib": _rounded(reading.memory_used_mib),
        "memory_total_mib": _rounded(reading.memory_total_mib) or gpu.memory_total_mib,
        "temperature_c": reading.temperature_c,
        "power_w": reading.power_w,
        "power_limit_w": reading.power_limit_w,
        "sm_clock_mhz": reading.sm_clock_mhz,
        "throttle": None if reading.throttle is None else list(reading.throttle),
        "processes": None
        if processes is None
        else [
            {"pid": process.pid, "name": process.name, "memory_mib": _rounded(process.memory_mib)}
            for process in describe(processes)
        ],
    }


def _empty(index: int) -> dict[str, Any]:
    row = _row(Gpu(index=index, uuid="", name=""), GpuReading(uuid=""))
    return row | {"uuid": None, "name": None}


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    name = (row["name"] or "does not answer").removeprefix("NVIDIA ")
    return (
        str(row["index"]),
        _cut(name, _NAME_WIDTH),
        _figure("%", row["gpu_util_pct"]),
        _figure("GiB", row["memory_used_mib"], row["memory_total_mib"], write=units.gib),
        _figure("W", row["power_w"], row["power_limit_w"]),
        _figure("°C", row["temperature_c"]),
        _figure("MHz", row["sm_clock_mhz"]),
        _processes(row["processes"]),
        ", ".join(row["throttle"] or ()),
    )


def _figure(unit: str, *values: float | None, write: Callable[[float | None], str] = units.whole) -> str:
    """One figure, or a figure and its limit, with the unit; "n/a" alone when the card gives neither."""
    if values == (None,) * len(values):
        return units.NOT_SUPPORTED
    return f"{'/'.join(map(write, values))} {unit}"


def _processes(processes: list[dict[str, Any]] | None) -> str:
    return _figure("proc", None if processes is None else len(processes))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _aligned(line: tuple[str, ...], widths: list[int]) -> list[str]:
    """Names and reasons to the left, figures to the right."""
    left = (1, len(line) - 1)
    return [
        cell.ljust(width) if at in left else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
