"""The charts of a worker."""

from collections.abc import Iterator
from statistics import fmean
from typing import Final

from msgspec import structs

from gmg_tui.model import GpuSample, Series, Worker, units
from gmg_tui.ui.charts import AXIS_ROWS, Track, stack
from gmg_tui.ui.drawing import Row
from gmg_tui.ui.slots import SlotView

_MIN_WIDTH, _MIN_ROWS = 32, 3
"""Minimum size of a chart with its title, in cells."""
_SERIES_FIELDS: Final = ("fps", "gpu_util_pct", "memory_used_mib", "power_w", "sm_pct")


def chart_rows(entry: SlotView, series: Series, width: int, height: int) -> list[Row]:
    """Returns the rows of as many of the worker's charts as fit, most important first, on one time axis.

    They cover the whole series of a plain run's worker, but only the newest attempt of a job.
    """
    series = _trim(series, entry.worker)
    tracks = list(_tracks(entry, series))
    if entry.worker.state.ended:  # the GPU's current figures are not this worker's
        tracks[1:] = [track._replace(newest="") for track in tracks[1:]]
    count = min(len(tracks), max(0, height - AXIS_ROWS) // _MIN_ROWS)
    if not count or width < _MIN_WIDTH:
        return [Row(width).add("The terminal is too small for charts.", "dim")]
    return stack(tracks[:count], width=width, height=height, end=series.end, step_s=series.step_s)


def _trim(series: Series, worker: Worker) -> Series:
    """Returns a slot's series without values after the worker's end or before a job's newest attempt."""
    count, step_s = len(series.fps), series.step_s
    ended_s = max(0.0, series.end - worker.state_since) if worker.state.ended else 0.0
    stop = max(0, count - int(ended_s / step_s))
    started = worker.newest.started or series.end
    start = count - 1 - int((series.end - started) / step_s) if worker.job is not None else 0
    window = slice(min(stop, max(0, start)), stop)
    return structs.replace(
        series,
        end=series.end - (count - stop) * step_s,
        **{name: getattr(series, name)[window] for name in _SERIES_FIELDS},
    )


def _tracks(entry: SlotView, series: Series) -> Iterator[Track]:
    """Yields the charts, most important first; only the rate's on a CPU slot."""
    worker, gpu, sample = entry.worker, entry.slot.gpu, entry.sample
    rate = units.fps(worker.rate if worker.state.ended else worker.current_fps)
    yield Track("FPS", rate, series.fps, None, "", "fps", fmean, "no rate yet")
    if gpu is None:
        return
    missing = "no sample yet"
    if sample is not None:
        missing = sample.error or "n/a: not reported by the GPU"
    newest = sample or GpuSample(gpu.uuid)
    total_mib = newest.memory_total_mib or gpu.memory_total_mib
    used_gib = [None if mib is None else mib / 1024 for mib in series.memory_used_mib]
    total_gib = total_mib / 1024 if total_mib else None
    limit_w = newest.power_limit_w or gpu.power_limit_w
    util, power = (
        units.figure(newest.gpu_util_pct, "%"),
        f"{units.rounded(newest.power_w)} of {units.rounded(limit_w)} W",
    )
    memory = f"{units.gib(newest.memory_used_mib)} of {units.gib(total_mib)} GiB"
    yield Track("GPU", util, series.gpu_util_pct, 100.0, "%", "ok", fmean, missing)
    if series.sm_pct:
        busy = f"{units.rounded(newest.sm_pct)} % busy"
        yield Track("SMs", busy, series.sm_pct, 100.0, "%", "ok", fmean, missing)
    yield Track("VRAM", memory, used_gib, total_gib, "GiB", "vram", max, missing)
    yield Track("power", power, series.power_w, limit_w, "W", "warn", fmean, missing)
