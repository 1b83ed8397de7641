"""The four sections of the details screen, as rows of cells. Pure functions, no widget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, zip_longest
from statistics import fmean
from typing import Final, NamedTuple

from rich.segment import Segment
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.model import Details, GpuSample, Series, Slot, Worker
from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.drawing.charts import Values, ceiling, points_per_cell
from gmg_tui.ui.drawing.page import Page
from gmg_tui.ui.drawing.timeline import GUTTER, Track, least_height, resolution, stack
from gmg_tui.ui.drawing.words import Note
from gmg_tui.ui.screens.details import comparison, health, metrics
from gmg_tui.ui.screens.details.window import Life, Window, cut_out, marks
from gmg_tui.ui.screens.edit import arguments
from gmg_tui.ui.screens.processes import table

_BESIDE: Final = 40
"""Cells of the metrics beside the charts."""
_SHOWN_CHARS: Final = 2000
"""Characters of a variable's value that are shown."""
_LEAST_CHARTS: Final = 62
"""Cells that the charts need; where none are left beside them, the metrics are in the section `GPU` only."""


class Subject(NamedTuple):
    """What the sections are about, at one moment; details and series are None until the engine has answered."""

    slot: Slot
    worker: Worker
    sample: GpuSample | None
    time: float
    """Unix time of the snapshot, seconds."""
    details: Details | None
    series: Series | None
    life: Life | None = None
    """None until the engine has answered."""
    window: Window = Window()
    """What the charts show."""


class Log(NamedTuple):
    """Where all that a worker has printed is."""

    path: str
    command: str
    """What prints it."""


def charts(subject: Subject, width: int, height: int, appearance: Appearance) -> list[Strip]:
    """The charts on one time axis, the current metrics beside them where there is room; at most `height` rows."""
    beside = _BESIDE if width >= _LEAST_CHARTS + _BESIDE else 0
    rows = _stacked(subject, width - beside, height, appearance)
    if not beside:
        return rows
    panel = Page(beside - 2, appearance)
    _write_metrics(panel, subject)
    blank = Strip([Segment(" " * (width - beside), appearance.style("text"))], width - beside)
    gap = Strip([Segment("  ", appearance.style("text"))], 2)
    pairs = islice(zip_longest(rows, panel.rows), max(0, height))
    return [Strip.join([left or blank, gap, right or Strip([])]) for left, right in pairs]


def attempts(
    subject: Subject, width: int, appearance: Appearance, selected: int | None = None
) -> tuple[list[Strip], dict[int, range]]:
    """The metrics before and after the last edit, and all attempts, one `selected`; and the rows of each attempt."""
    page = Page(width, appearance)
    comparison.before_after(page, subject.worker)
    if subject.details is None:
        return page.gap().text("Waiting for the engine", "dim").rows, {}
    rows = comparison.attempts(page, subject.details, subject.worker, subject.time, selected)
    return page.rows, rows


def setup(subject: Subject, log: Log | None, width: int, appearance: Appearance) -> list[Strip]:
    """Command line, working directory, log and environment."""
    page, details = Page(width, appearance), subject.details
    if details is None:
        return page.text("Waiting for the engine", "dim").rows
    page.heading("Command line").text(arguments.join(details.command)).row("folder", details.cwd)
    page.row("as written", arguments.join(details.args) or "no arguments")
    _write_env(page, "--env", details.extra_env)
    if log is not None:
        page.row("log", log.path).row("", log.command)
    for rank, pid in sorted(details.ranks.items()):
        page.row(f"rank {rank}", f"process {pid}")
    page.heading("Environment")
    _write_env(page, "set", details.env)
    page.row("unset", " ".join(details.unset) or "nothing")
    return page.row("EGL", details.egl).rows


def gpu(subject: Subject, notes: Sequence[Note], width: int, appearance: Appearance) -> list[Strip]:
    """All warnings in full, all metrics, and the processes on the GPU."""
    page, hardware = Page(width, appearance), subject.slot.gpu
    for note in notes:
        page.text(note.text, note.style)
    if hardware is not None:
        metrics.write_identity(page, hardware)
    _write_metrics(page, subject)
    if subject.sample is not None and subject.sample.health is not None:
        health.write(page, subject.sample.health)
    page.heading("Processes on the GPU")
    details = subject.details
    if details is None:
        return page.text("Waiting for the engine", "dim").rows
    if details.processes is None:
        return page.text(table.none_to_show(subject.slot), "dim").rows
    return table.write(page, details.processes).rows


def _write_metrics(page: Page, subject: Subject) -> None:
    metrics.write_worker(page, subject.worker)
    if subject.slot.gpu is not None:
        metrics.write_gpu(page, subject.slot.gpu, subject.sample, subject.worker)


def _stacked(subject: Subject, width: int, height: int, appearance: Appearance) -> list[Strip]:
    series, window = subject.series, subject.window
    if series is None:
        return Page(width, appearance).text("Waiting for the engine", "dim").rows
    if subject.life is not None and window.span_s is not None and width > GUTTER:
        columns = (width - GUTTER) * points_per_cell(appearance.signs)
        series = cut_out(series, *window.within(subject.life), columns)
    tracks = _tracks(subject, series, appearance)
    while tracks and least_height(len(tracks)) > height:
        tracks.pop()
    if not tracks or width < _LEAST_CHARTS // 2:
        return Page(width, appearance).text("too small for charts", "dim").rows
    note = f"  {resolution(len(series.fps), series.step_s, width, appearance)}"
    if window.span_s is not None:
        note += f"  {units.span(window.span_s)}{', 0: live' if window.end is not None else ''}"
    tracks[0] = tracks[0]._replace(now=tracks[0].now + note)
    began = marks(subject.details.attempts) if subject.details is not None else ()
    return stack(
        tracks,
        width=width,
        height=height,
        end=series.end,
        step_s=series.step_s,
        appearance=appearance,
        marks=began,
    )


def _tracks(subject: Subject, series: Series, appearance: Appearance) -> list[Track]:
    worker, sample, gpu = subject.worker, subject.sample, subject.slot.gpu
    last = appearance.text(units.fps(worker.current_fps))
    high = _highest(series.fps)
    fps = Track("FPS", last, series.fps, high, _edge, "fps-graph", fmean, "none printed yet")
    if gpu is None:
        return [fps]
    missing = "no sample yet"
    if sample is not None:
        missing = appearance.text(sample.error) if sample.error else "n/a: not reported by the GPU"
    now = sample or GpuSample(gpu.uuid)
    full_mib = now.memory_total_mib or gpu.memory_total_mib
    vram = [None if value is None else value / 1024 for value in series.memory_used_mib]
    limit_w = now.power_limit_w or gpu.power_limit_w or _highest(series.power_w)
    full_gib = full_mib / 1024 if full_mib else _highest(vram)
    util, power = f"{units.whole(now.gpu_util_pct)} %", f"{units.whole(now.power_w)} of {units.whole(limit_w)} W"
    memory = f"{units.gib(now.memory_used_mib)} of {units.gib(full_mib)} GiB"
    sms = Track("SMs", f"{units.whole(now.sm_pct)} % busy", series.sm_pct, 100.0, _percent, "util", fmean, missing)
    return [
        fps,
        Track("GPU", util, series.gpu_util_pct, 100.0, _percent, "util", fmean, missing),
        *([sms] if series.sm_pct else []),
        Track("VRAM", memory, vram, full_gib, "{:.0f} GiB".format, "vram", max, missing),
        Track("power", power, series.power_w, limit_w, "{:.0f} W".format, "power", fmean, missing),
    ]


def _percent(value: float) -> str:
    return f"{value:.0f} %"


def _edge(fps: float) -> str:
    return units.short(fps) if fps else "0"


def _highest(values: Values) -> float:
    return ceiling(max((value for value in values if value is not None), default=0.0))


def _write_env(page: Page, label: str, env: Mapping[str, str]) -> None:
    for number, (key, value) in enumerate(env.items()):
        page.row("" if number else label, f"{key}={value[:_SHOWN_CHARS]}")
