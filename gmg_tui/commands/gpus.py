"""`gpus`: one line for each GPU and MIG instance."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import msgspec

from gmg_tui import tables, units
from gmg_tui.commands import over_nodes
from gmg_tui.commands.messages import notice
from gmg_tui.errors import GmgError
from gmg_tui.gpu import listing, silence
from gmg_tui.gpu.nvml import NvmlUnavailable
from gmg_tui.model import Gpu, GpuSample

_NAME_WIDTH = 30
_LINE_WIDTH = 100
_ALIGN = "rlrrrrrrl"


def gpus(*, as_json: bool, nodes: str | None = None) -> int:
    """Print the GPUs, with `nodes` those of several machines; the exit status.

    Raises `GmgError` where NVML is not available, or the nodes are not.
    """
    if nodes is not None:
        return _on_nodes(nodes, as_json=as_json)
    with nullcontext() if as_json else notice("asking the driver"):
        read = _read()
    if as_json:
        print(msgspec.json.format(msgspec.json.encode([listing.row(*one) for one in read]), indent=2).decode())
    else:
        print("\n".join(lines(read)) or "the driver reports no GPU")
    return 0


def _on_nodes(where: str, *, as_json: bool) -> int:
    answers = over_nodes.ask(where, ("gpus", "--json"), "asking the driver")
    if as_json:
        over_nodes.print_json(over_nodes.rows(answers))
        return int(any(answer.error for answer in answers.values()))
    cells = [(row["node"], *_cells(row, _throttled(row))) for row in over_nodes.rows(answers) if "error" not in row]
    wide = _LINE_WIDTH + max((tables.text_width(row[0]) + tables.GAP for row in cells), default=0)
    for line in tables.lines(cells, f"l{_ALIGN}") if cells else ():
        print(tables.cut(line, wide))
    return over_nodes.tell_errors(answers)


def _throttled(row: dict[str, Any]) -> str:
    return ", ".join(row["throttle"] or ()) if row["name"] else "no answer"


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
    cells = [_cells(listing.row(gpu, sample), _remark(sample)) for gpu, sample in read]
    return [tables.cut(line, _LINE_WIDTH) for line in tables.lines(cells, _ALIGN)]


def _cells(row: dict[str, Any], remark: str) -> tuple[str, ...]:
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
        remark,
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
