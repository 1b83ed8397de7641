"""The tab with the charts of one worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from statistics import fmean
from typing import Final

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from gmg_tui.model import Curve, GpuSample, Series, Slot, Worker, units
from gmg_tui.ui.charts import Track, least_height, stack
from gmg_tui.ui.drawing import plain
from gmg_tui.ui.slots import SlotView

_MIN_WIDTH: Final = 32
"""Cells that charts need."""


def waiting(size: Size) -> Iterable[Content]:
    """Returns what a drawing shows before the engine has answered."""
    return (Content.styled("Waiting for the engine", "$text-muted"),)


class Drawing(Widget):
    """Lines that a function draws for the present size, again where what they show has changed."""

    DEFAULT_CSS = "Drawing { height: 1fr; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown: object = None
        self._draw: Callable[[Size], Iterable[Content]] = waiting

    def draw(self, shown: object, draw: Callable[[Size], Iterable[Content]]) -> None:
        """Shows what `draw` makes of `shown`."""
        if shown != self._shown:
            self._shown, self._draw = shown, draw
            self.refresh()

    def render(self) -> Content:
        """Returns the lines."""
        return Content("\n").join(self._draw(self.size))


class ChartsTab(Drawing):
    """The charts of a worker over its life."""

    DEFAULT_CSS = "ChartsTab { padding: 0 1; }"

    def show(self, entry: SlotView | None, series: Series | None, metric: str, curve: Curve | None) -> None:
        """Shows the charts of a worker, with that of a `metric` if it has one; None before they are known."""
        if entry is None or series is None:
            self.draw(None, waiting)
        else:
            first, *others = tracks(entry.slot, entry.worker, entry.sample, series)
            chosen = [_of_metric(metric, curve, series)] if curve is not None else []
            shown = [first, *chosen, *others], series
            self.draw(shown, lambda size: lines(*shown, size))


def _of_metric(name: str, curve: Curve, series: Series) -> Track:
    """Returns the chart of a metric at the times of a series."""
    count, begin = len(series.fps), series.end - len(series.fps) * series.step_s
    shared: list[list[float]] = [[] for _ in range(count)]
    for point in curve.points:
        at = int((point.time - begin) / series.step_s)
        if 0 <= at < count and math.isfinite(point.value):
            shared[at].append(point.value)
    values = [fmean(each) if each else None for each in shared]
    known = [at for at, value in enumerate(values) if value is not None]
    for before, after in pairwise(known):  # a script that reports now and then has a line too
        for at in range(before + 1, after):
            values[at] = values[before]
    now = units.NOT_KNOWN if curve.last is None else units.number(curve.last)
    return Track(name, now, values, None, "", "$primary", fmean, "no value in this time")


def lines(tracks: list[Track], series: Series, size: Size) -> list[Content]:
    """The charts on one time axis, as many as there is room for."""
    count = min(len(tracks), next(number for number in range(9, -1, -1) if least_height(number) <= max(2, size.height)))
    if not count or size.width < _MIN_WIDTH:
        return [Content.styled("The terminal is too small for charts.", "$text-muted")]
    return stack(tracks[:count], width=size.width, height=size.height, end=series.end, step_s=series.step_s)


def tracks(slot: Slot, worker: Worker, sample: GpuSample | None, series: Series) -> Iterator[Track]:
    """The charts, the most important first."""
    rate = units.fps(worker.rate if worker.state.ended else worker.current_fps)
    yield Track("FPS", rate, series.fps, None, "", "$accent", fmean, "no rate yet")
    gpu = slot.gpu
    if gpu is None:
        return
    missing = "no sample yet"
    if sample is not None:
        missing = plain(sample.error).plain if sample.error else "n/a: not reported by the GPU"
    now = sample or GpuSample(gpu.uuid)
    full_mib = now.memory_total_mib or gpu.memory_total_mib
    vram = [None if value is None else value / 1024 for value in series.memory_used_mib]
    full_gib = full_mib / 1024 if full_mib else None
    limit_w = now.power_limit_w or gpu.power_limit_w
    util, power = f"{units.whole(now.gpu_util_pct)} %", f"{units.whole(now.power_w)} of {units.whole(limit_w)} W"
    memory = f"{units.gib(now.memory_used_mib)} of {units.gib(full_mib)} GiB"
    yield Track("GPU", util, series.gpu_util_pct, 100.0, "%", "$success", fmean, missing)
    if series.sm_pct:
        busy = f"{units.whole(now.sm_pct)} % busy"
        yield Track("SMs", busy, series.sm_pct, 100.0, "%", "$success", fmean, missing)
    yield Track("VRAM", memory, vram, full_gib, "GiB", "$secondary", max, missing)
    yield Track("power", power, series.power_w, limit_w, "W", "$warning", fmean, missing)
