"""`gpus`: print one line for each GPU and MIG instance."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import wait
from typing import Any

from gmg_tui.cli.printing import print_json, waiting
from gmg_tui.machine.blocking_calls import begin
from gmg_tui.machine.gpu import driver
from gmg_tui.machine.gpu.nvml import NvmlUnavailable, open_nvml
from gmg_tui.machine.gpu.processes import describe, process_text
from gmg_tui.machine.gpu.selection import describe_silent, slot_of
from gmg_tui.model import Gpu, GpuSample, units
from gmg_tui.model.errors import GmgError
from gmg_tui.results import table
from gmg_tui.results.column import Column, format_with_limit, gpu_columns

_Reading = tuple[Gpu, GpuSample]


def gpus(*, as_json: bool) -> int:
    """Prints the GPUs; returns the exit status. Raises `GmgError` if NVML is not available."""
    with waiting("asking the driver"):
        readings = read_all()
    if as_json:
        print_json([to_json(*reading) for reading in readings])
    else:
        remark = describe_silent(gpu for gpu, _ in readings) if readings else "the driver reports no GPU"
        table.print_table(COLUMNS, readings, *filter(None, [remark]), *_process_lines(readings))
    return 0


def read_all() -> list[_Reading]:
    """Reads all GPUs in parallel. Samples of those that do not answer within `driver.SILENT_S` have no metrics.

    Raises `GmgError` if NVML is not available.
    """
    try:
        nvml, gpus = open_nvml()
    except NvmlUnavailable as error:
        raise GmgError(f"no GPU: {error}", 1) from error
    answering = [gpu for gpu in gpus if gpu.trouble is None]
    pending = [(gpu, begin(nvml.read, gpu, slow=True)) for gpu in answering]
    _, late = wait([future for _, future in pending], driver.SILENT_S)
    readings = [
        (gpu, future.result() if future not in late else GpuSample(uuid=gpu.uuid, error=driver.NO_ANSWER))
        for gpu, future in pending
    ]
    readings += [(gpu, GpuSample(uuid="", error=gpu.trouble)) for gpu in gpus if gpu.trouble is not None]
    if not late and len(answering) == len(gpus):  # otherwise closing hangs too
        nvml.close()
    return sorted(readings, key=lambda reading: reading[0].index)


def to_json(gpu: Gpu, sample: GpuSample) -> dict[str, Any]:
    """Returns a GPU, or a MIG instance with its GPU's index, for `gpus --json`; unknown values are None."""
    processes, now = None if sample.processes is None else describe(sample.processes), time.time()
    return {
        "index": gpu.index,
        **{field: getattr(gpu, field) or None for field in ("uuid", "name", "pci_bus_id")},
        "gpu_util_pct": sample.gpu_util_pct,
        "memory_used_mib": _rounded(sample.memory_used_mib),
        "memory_total_mib": _rounded(sample.memory_total_mib) or gpu.memory_total_mib,
        **{field: getattr(sample, field) for field in ("temperature_c", "power_w", "power_limit_w", "sm_clock_mhz")},
        "throttle": sample.throttle,
        "processes": processes
        and [
            {
                "pid": process.pid,
                "name": process.name,
                "memory_mib": _rounded(process.memory_mib),
                "user": process.user,
                "started": None if process.age_s is None else units.iso(now - process.age_s),
                "session": process.session,
            }
            for process in processes
        ],
    }


def _process_lines(readings: Iterable[_Reading]) -> Iterator[str]:
    """Yields a line for each process on a GPU."""
    for gpu, sample in readings:
        for process in describe(sample.processes or ()):
            session = [f"session {process.session}"] if process.session is not None else []
            idle = ["idle now"] if sample.gpu_util_pct == 0 and not process.graphics else []
            yield f"{slot_of(gpu).name}: {', '.join([process_text(process), *session, *idle])}"


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _remark(reading: _Reading) -> str | None:
    """Returns the age of an old sample and the reasons for throttling, or `no answer`."""
    sample = reading[1]
    if sample.error == driver.NO_ANSWER:
        return "no answer"
    age = [] if sample.age_s is None else [f"{units.span(sample.age_s)} old"]
    return ", ".join([*age, *(sample.throttle or ())]) or None


_SAMPLED: tuple[Column[_Reading], ...] = gpu_columns(lambda reading: reading[1])
_UTIL, _MEMORY, _, _TEMPERATURE = _SAMPLED
COLUMNS: tuple[Column[_Reading], ...] = (
    Column("index", lambda reading: reading[0].index, "GPU", priority=100),
    Column(
        "name",
        lambda reading: (reading[0].name or "does not answer").removeprefix("NVIDIA "),
        priority=40,
        align_left=True,
        max_width=30,
    ),
    _UTIL,
    _MEMORY,
    Column(
        "power",
        lambda reading: format_with_limit(reading[1].power_w, reading[1].power_limit_w, units.rounded),
        "W",
        priority=70,
    ),
    _TEMPERATURE,
    Column("sm_clock_mhz", lambda reading: reading[1].sm_clock_mhz, "SM", "MHz", units.rounded, priority=50),
    Column(
        "processes", lambda reading: None if reading[1].processes is None else len(reading[1].processes), priority=55
    ),
    Column("remark", _remark, priority=85, align_left=True),
)
