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
from gmg_tui.machine.gpu.selection import no_answers, slot_of
from gmg_tui.model import Gpu, GpuSample, units
from gmg_tui.model.errors import GmgError
from gmg_tui.results import table
from gmg_tui.results.column import Column, format_with_limit, gpu_columns

_Read = tuple[Gpu, GpuSample]


def gpus(*, as_json: bool) -> int:
    """Prints the GPUs; returns the exit status. Raises `GmgError` if NVML is not available."""
    with waiting("asking the driver"):
        read = read_all()
    if as_json:
        print_json([row(*each) for each in read])
    else:
        silent = no_answers(gpu for gpu, _ in read)
        table.print_table(
            COLUMNS, read, *filter(None, [silent if read else "the driver reports no GPU"]), *_users(read)
        )
    return 0


def read_all() -> list[_Read]:
    """Returns a sample of each GPU, read in parallel, without metrics if it does not answer within `driver.SILENT_S`.

    Raises `GmgError` if NVML is not available.
    """
    try:
        nvml, gpus = open_nvml()
    except NvmlUnavailable as error:
        raise GmgError(f"no GPU: {error}", 1) from error
    known = [gpu for gpu in gpus if gpu.trouble is None]
    pending = [(gpu, begin(nvml.read, gpu, slow=True)) for gpu in known]
    _, late = wait([future for _, future in pending], driver.SILENT_S)
    read = [
        (gpu, future.result() if future not in late else GpuSample(uuid=gpu.uuid, error=driver.NO_ANSWER))
        for gpu, future in pending
    ]
    read += [(gpu, GpuSample(uuid="", error=gpu.trouble)) for gpu in gpus if gpu.trouble is not None]
    if not late and len(known) == len(gpus):  # otherwise closing hangs too
        nvml.close()
    return sorted(read, key=lambda each: each[0].index)


def row(gpu: Gpu, sample: GpuSample) -> dict[str, Any]:
    """Returns a GPU, or a MIG instance with its GPU's index, for `gpus --json`; an unknown metric is None."""
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


def _users(read: Iterable[_Read]) -> Iterator[str]:
    """Yields a line for each process on a GPU."""
    for gpu, sample in read:
        for process in describe(sample.processes or ()):
            session = [f"session {process.session}"] if process.session is not None else []
            idle = ["idle now"] if sample.gpu_util_pct == 0 and not process.graphics else []
            yield f"{slot_of(gpu).name}: {', '.join([process_text(process), *session, *idle])}"


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _remark(read: _Read) -> str | None:
    """Returns the age of a late sample, and the reasons for throttling."""
    sample = read[1]
    if sample.error == driver.NO_ANSWER:
        return "no answer"
    age = [] if sample.age_s is None else [f"{units.span(sample.age_s)} old"]
    return ", ".join([*age, *(sample.throttle or ())]) or None


_SAMPLED: tuple[Column[_Read], ...] = gpu_columns(lambda read: read[1])
_UTIL, _MEMORY, _, _TEMPERATURE = _SAMPLED
COLUMNS: tuple[Column[_Read], ...] = (
    Column("index", lambda read: read[0].index, "GPU", priority=100),
    Column(
        "name",
        lambda read: (read[0].name or "does not answer").removeprefix("NVIDIA "),
        priority=40,
        align_left=True,
        max_width=30,
    ),
    _UTIL,
    _MEMORY,
    Column(
        "power", lambda read: format_with_limit(read[1].power_w, read[1].power_limit_w, units.whole), "W", priority=70
    ),
    _TEMPERATURE,
    Column("sm_clock_mhz", lambda read: read[1].sm_clock_mhz, "SM", "MHz", units.whole, priority=50),
    Column("processes", lambda read: None if read[1].processes is None else len(read[1].processes), priority=55),
    Column("remark", _remark, priority=85, align_left=True),
)
