"""The charts of one worker."""

from collections.abc import Iterator
from statistics import fmean
from typing import Final

from msgspec import structs

from gmg_tui.model import GpuSample, Series, Worker, units
from gmg_tui.ui.charts import AXIS_ROWS, Track, stack
from gmg_tui.ui.drawing import Row
from gmg_tui.ui.slots import SlotView

_MIN_WIDTH, _MIN_ROWS = 32, 3
"""Minimum cells of a chart, with its title."""


_METRICS: Final = ("fps", "gpu_util_pct", "memory_used_mib", "power_w", "sm_pct")


def chart_rows(entry: SlotView, series: Series, width: int, height: int) -> list[Row]:
    """Returns the charts of a worker that fit, over its life or its job's newest attempt, on one time axis."""
    series = _of_worker(series, entry.worker)
    shown = list(tracks(entry, series))
    if entry.worker.state.ended:  # the GPU's current figures are not this worker's
        shown[1:] = [track._replace(now="") for track in shown[1:]]
    count = min(len(shown), max(0, height - AXIS_ROWS) // _MIN_ROWS)
    if not count or width < _MIN_WIDTH:
        return [Row(width).add("The terminal is too small for charts.", "dim")]
    return stack(shown[:count], width=width, height=height, end=series.end, step_s=series.step_s)


def _of_worker(series: Series, worker: Worker) -> Series:
    """Returns the worker's part of a slot's series: from the start of its job's newest attempt until its end."""
    count, step_s = len(series.fps), series.step_s
    late_s = max(0.0, series.end - worker.state_since) if worker.state.ended else 0.0
    last = max(0, count - int(late_s / step_s))
    started = worker.newest.started or series.end
    first = count - 1 - int((series.end - started) / step_s) if worker.job is not None else 0
    part = slice(min(last, max(0, first)), last)
    return structs.replace(
        series,
        end=series.end - (count - last) * step_s,
        **{name: getattr(series, name)[part] for name in _METRICS},
    )


def tracks(entry: SlotView, series: Series) -> Iterator[Track]:
    """Yields the charts, most important first."""
    worker, gpu, sample = entry.worker, entry.slot.gpu, entry.sample
    rate = units.fps(worker.rate if worker.state.ended else worker.current_fps)
    yield Track("FPS", rate, series.fps, None, "", "fps", fmean, "no rate yet")
    if gpu is None:
        return
    missing = "no sample yet"
    if sample is not None:
        missing = sample.error or "n/a: not reported by the GPU"
    now = sample or GpuSample(gpu.uuid)
    full_mib = now.memory_total_mib or gpu.memory_total_mib
    vram = [None if value is None else value / 1024 for value in series.memory_used_mib]
    full_gib = full_mib / 1024 if full_mib else None
    limit_w = now.power_limit_w or gpu.power_limit_w
    util, power = units.figure(now.gpu_util_pct, "%"), f"{units.whole(now.power_w)} of {units.whole(limit_w)} W"
    memory = f"{units.gib(now.memory_used_mib)} of {units.gib(full_mib)} GiB"
    yield Track("GPU", util, series.gpu_util_pct, 100.0, "%", "ok", fmean, missing)
    if series.sm_pct:
        busy = f"{units.whole(now.sm_pct)} % busy"
        yield Track("SMs", busy, series.sm_pct, 100.0, "%", "ok", fmean, missing)
    yield Track("VRAM", memory, vram, full_gib, "GiB", "vram", max, missing)
    yield Track("power", power, series.power_w, limit_w, "W", "warn", fmean, missing)
