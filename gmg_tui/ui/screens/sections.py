"""The four sections of the details screen, as rows of cells. Pure functions, no widget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from rich.segment import Segment
from textual.strip import Strip

from gmg_tui import units
from gmg_tui.model import Details, GpuReading, Series, Slot, Worker
from gmg_tui.ui.charts import Values, ceiling, mean, peak
from gmg_tui.ui.look import Look
from gmg_tui.ui.renderables.words import Note
from gmg_tui.ui.screens import arguments, compared, figures, process_table
from gmg_tui.ui.screens.sheet import Sheet
from gmg_tui.ui.screens.timeline import Track, least_height, resolution, stack

_BESIDE: Final = 40
"""Cells of the figures beside the charts."""
_LEAST_CHARTS: Final = 62
"""Cells that the charts keep; where that leaves no room beside them, the figures are in the section `card` alone."""


class Subject(NamedTuple):
    """What the sections speak of, at one moment."""

    slot: Slot
    worker: Worker
    reading: GpuReading | None
    time: float
    """Unix time of the snapshot, seconds."""
    details: Details | None
    """None until the engine has answered."""
    series: Series | None
    """None until the engine has answered."""


def charts(subject: Subject, width: int, height: int, look: Look) -> list[Strip]:
    """The charts on one time axis, the current figures beside them where there is room; `height` rows at most."""
    beside = _BESIDE if width >= _LEAST_CHARTS + _BESIDE else 0
    rows = _stacked(subject, width - beside, height, look)
    if not beside:
        return rows
    panel = Sheet(beside - 2, look)
    _write_figures(panel, subject)
    blank = Strip([Segment(" " * (width - beside), look.style("text"))], width - beside)
    left = [*rows, *[blank] * (height - len(rows))]
    right = [*panel.rows, *[Strip([])] * (height - len(panel.rows))]
    gap = Strip([Segment("  ", look.style("text"))], 2)
    return [Strip.join([one, gap, other]) for one, other in zip(left, right[:height], strict=True)]


def attempts(subject: Subject, width: int, look: Look) -> list[Strip]:
    """The figures before and after the last edit, and all attempts."""
    sheet = Sheet(width, look)
    compared.before_after(sheet, subject.worker)
    if subject.details is None:
        return sheet.gap().text("Asking the engine", "dim").rows
    return compared.attempts(sheet, subject.details, subject.worker, subject.time).rows


def setup(subject: Subject, width: int, look: Look) -> list[Strip]:
    """Command line, folder and environment."""
    sheet, details = Sheet(width, look), subject.details
    if details is None:
        return sheet.text("Asking the engine", "dim").rows
    sheet.heading("Command line").text(arguments.join(details.command)).row("folder", details.cwd)
    sheet.row("as written", arguments.join(details.args) or "no arguments")
    _write_env(sheet, "--env", details.extra_env)
    sheet.heading("Environment")
    _write_env(sheet, "set", details.env)
    sheet.row("unset", " ".join(details.unset) or "nothing")
    return sheet.row("EGL", details.egl).rows


def card(subject: Subject, notes: Sequence[Note], width: int, look: Look) -> list[Strip]:
    """What is not as it should be in full, all figures, and the processes on the card."""
    sheet, gpu = Sheet(width, look), subject.slot.gpu
    for note in notes:
        sheet.text(note.text, note.style)
    if gpu is not None:
        sheet.heading("Card")
        for label, text, style in figures.identity(gpu):
            sheet.row(label, text, style)
    _write_figures(sheet, subject)
    sheet.heading("Processes on the card")
    details = subject.details
    if details is None:
        return sheet.text("Asking the engine", "dim").rows
    if details.processes is None:
        return sheet.text(process_table.none_to_show(subject.slot), "dim").rows
    return process_table.write(sheet, details.processes).rows


def _write_figures(sheet: Sheet, subject: Subject) -> None:
    sheet.heading("Worker")
    for label, text, style in figures.of_worker(subject.worker):
        sheet.row(label, text, style)
    if subject.slot.gpu is not None:
        sheet.heading("Card now")
        for label, text, style in figures.of_card(subject.slot.gpu, subject.reading, subject.worker):
            sheet.row(label, text, style)


def _stacked(subject: Subject, width: int, height: int, look: Look) -> list[Strip]:
    series = subject.series
    if series is None:
        return Sheet(width, look).text("Asking the engine", "dim").rows
    tracks = _tracks(subject, series, look)
    while tracks and least_height(len(tracks)) > height:
        tracks.pop()
    if not tracks or width < _LEAST_CHARTS // 2:
        return Sheet(width, look).text("too small for charts", "dim").rows
    note = f"  {resolution(len(series.fps), series.step_s, width, look)}"
    tracks[0] = tracks[0]._replace(now=tracks[0].now + note)
    return stack(tracks, width=width, height=height, end=series.end, step_s=series.step_s, look=look)


def _tracks(subject: Subject, series: Series, look: Look) -> list[Track]:
    worker, reading, gpu = subject.worker, subject.reading, subject.slot.gpu
    last = look.text(units.fps(worker.fps.last if worker.fps else None))
    high = _highest(series.fps)
    fps = Track("FPS", last, series.fps, high, _edge, "fps-graph", mean, "none printed yet")
    if gpu is None:
        return [fps]
    missing = "not read yet"
    if reading is not None:
        missing = look.text(reading.error) if reading.error else "n/a: the card does not give it"
    now = reading or GpuReading(gpu.uuid)
    full_mib = now.memory_total_mib or gpu.memory_total_mib
    vram = [None if value is None else value / 1024 for value in series.memory_used_mib]
    limit_w = now.power_limit_w or gpu.power_limit_w or _highest(series.power_w)
    return [
        fps,
        Track(
            "GPU",
            f"{units.whole(now.gpu_util_pct)} %",
            series.gpu_util_pct,
            100.0,
            "{:.0f} %".format,
            "util",
            mean,
            missing,
        ),
        Track(
            "VRAM",
            f"{units.gib(now.memory_used_mib)} of {units.gib(full_mib)} GiB",
            vram,
            full_mib / 1024 if full_mib else _highest(vram),
            "{:.0f} GiB".format,
            "vram",
            peak,
            missing,
        ),
        Track(
            "power",
            f"{units.whole(now.power_w)} of {units.whole(limit_w)} W",
            series.power_w,
            limit_w,
            "{:.0f} W".format,
            "power",
            mean,
            missing,
        ),
    ]


def _edge(fps: float) -> str:
    return units.short(fps) if fps else "0"


def _highest(values: Values) -> float:
    return ceiling(max((value for value in values if value is not None), default=0.0))


def _write_env(sheet: Sheet, label: str, env: Mapping[str, str]) -> None:
    for number, (key, value) in enumerate(env.items()):
        sheet.row("" if number else label, f"{key}={value}")
