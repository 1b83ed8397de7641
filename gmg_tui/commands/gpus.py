"""`gpus`: one line for each GPU and MIG instance."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import msgspec

from gmg_tui import tables, units
from gmg_tui.commands.messages import notice
from gmg_tui.errors import GmgError
from gmg_tui.gpu import listing, silence
from gmg_tui.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Gpu, GpuSample

_NAME_WIDTH = 30
_LINE_WIDTH = 100


def gpus(*, as_json: bool) -> int:
    """Print the GPUs; the exit status. Raises `GmgError` where NVML is not available."""
    with nullcontext() if as_json else notice("asking the driver"):
        read = _read()
    if as_json:
        print(msgspec.json.format(msgspec.json.encode([listing.row(*one) for one in read]), indent=2).decode())
    else:
        print("\n".join(lines(read)) or "the driver reports no GPU")
    return 0


def _read() -> list[tuple[Gpu, GpuSample]]:
    try:
        nvml, gpus = silence.open_nvml()
    except NvmlUnavailable as error:
        raise GmgError(f"no GPU: {error}", 1) from error
    read = listing.read(nvml, gpus)
    if all(sample.error != silence.NO_ANSWER for _, sample in read):  # else closing it would hang too
        nvml.close()
    return read


def lines(read: list[tuple[Gpu, GpuSample]]) -> list[str]:
    """GPUs and their samples for people: a line each, at most 100 columns wide."""
    return [tables.cut(line, _LINE_WIDTH) for line in tables.lines([_cells(*one) for one in read], "rlrrrrrrl")]


def _cells(gpu: Gpu, sample: GpuSample) -> tuple[str, ...]:
    row = listing.row(gpu, sample)
    processes = row["processes"]
    return (
        str(row["index"]),
        tables.cut((row["name"] or "does not answer").removeprefix("NVIDIA "), _NAME_WIDTH),
        _metric("%", row["gpu_util_pct"]),
        _metric("GiB", row["memory_used_mib"], row["memory_total_mib"], write=units.gib),
        _metric("W", row["power_w"], row["power_limit_w"]),
        _metric("°C", row["temperature_c"]),
        _metric("MHz", row["sm_clock_mhz"]),
        _metric("proc", None if processes is None else len(processes)),
        _remark(sample),
    )


def _remark(sample: GpuSample) -> str:
    """That a sample is not of this moment, and what throttles the GPU."""
    if sample.error == silence.NO_ANSWER:
        return "no answer"
    age = [] if sample.age_s is None else [f"{units.span(sample.age_s)} old"]
    return ", ".join([*age, *(sample.throttle or ())])


def _metric(unit: str, *values: float | None, write: Callable[[float | None], str] = units.whole) -> str:
    """A metric, or a metric and its limit, with the unit; "n/a" alone when the GPU reports neither."""
    if values == (None,) * len(values):
        return units.NOT_SUPPORTED
    return f"{'/'.join(map(write, values))} {unit}"
