"""The widget with all workers: framed tiles in a grid where they have room, each figure in its place, or a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message

from gmg_tui.model import WorkerState, units
from gmg_tui.ui import worker_text
from gmg_tui.ui.drawing import SIGNS, SPAN_S, WHEEL_ROWS, Row, Rows, bar, highest, history_rows, safe
from gmg_tui.ui.slots import SlotView, buckets
from gmg_tui.ui.view import Band, View
from gmg_tui.ui.worker_text import Note
from gmg_tui.ui.workers import table

LOG_MIN: Final = 6
"""Rows kept for the log, with its title."""
_LOG_BELOW_TILES: Final = 8
"""Rows kept for it before tiles give way to the table, unless the user wants tiles."""
_AROUND_TABLE: Final = 2
"""Rows of the heading above and of the selected worker's line below the table."""
TILE_HEIGHT: Final = 8
"""Rows of a tile, with its frame."""
TILE_WIDTH: Final = 38
"""Columns below which a tile is of no use."""
_MIDDLE: Final = 3
"""Rows between the rate and the processor: the graph, and the notes below it."""
_LABEL: Final = 5
"""Columns of the labels left of the graphs."""
_RATE: Final = 11
"""Columns of the rate: `192,104,233`."""
_TIME: Final = 5
"""Columns of the time in a state: `39:12`, `74 s`."""


class Plan(NamedTuple):
    """How the workers are laid out."""

    tiles: bool
    columns: int
    """Tiles side by side; 1 in the table."""
    height: int
    """Rows of cells that the grid takes."""


def plan(view: View, width: int, height: int, wanted: bool | None) -> Plan:
    """How to lay out the workers in `width` times `height` cells, shared with the log, in tiles if `wanted`, as in `View.tiles`."""
    widest = max(1, min(len(view.slots), width // TILE_WIDTH))

    def rows_of(columns: int) -> int:
        return sum(1 if band.node else TILE_HEIGHT for band in view.bands(columns))

    # As few columns as make no more rows: their tiles are wider.
    rows, room = rows_of(widest), height - LOG_MIN
    columns = next(each for each in range(1, widest + 1) if rows_of(each) == rows)
    fits = 0 < rows <= height - _LOG_BELOW_TILES and width >= TILE_WIDTH
    if wanted is False or (wanted is None and not fits) or room < TILE_HEIGHT:
        return Plan(tiles=False, columns=1, height=max(3, min(len(view.bands(1)) + _AROUND_TABLE, room)))
    return Plan(tiles=True, columns=columns, height=rows if rows <= room else room - room % TILE_HEIGHT)


class Grid(Rows):
    """The tiles or the table. It scrolls by whole rows, and keeps the selected worker visible."""

    class Clicked(Message):
        """A worker has been clicked, or the line of a `node`, with the first of its slots."""

        def __init__(self, slot: str, node: str = "") -> None:
            super().__init__()
            self.slot = slot
            self.node = node

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view
        self.plan = Plan(tiles=False, columns=1, height=2)
        self._height = 1
        """Rows of the screen that it shares with the log."""
        self._bands: list[Band] = []
        self._first = 0
        """The band at the top."""
        self._scrolled_from: str | None = None
        """The worker that was selected when the wheel was turned: until another is, it may be out of sight."""

    def lay_out(self, height: int) -> None:
        """Take as much of `height` rows as the workers need; the rest is for the log."""
        self._height = height
        self.update_rows()

    @property
    def has_room_for_tiles(self) -> bool:
        """Whether tiles can be drawn in this terminal."""
        return plan(self._view, self.app.size.width, self._height, True).tiles

    def update_rows(self) -> None:
        """Refresh what has changed, in the layout that suits now."""
        self.plan = plan(self._view, self.app.size.width, self._height, self._view.tiles)
        self.styles.height = self.plan.height
        super().update_rows()

    def make_rows(self, width: int, height: int) -> list[Row]:
        """The visible workers."""
        view = self._view
        if not view.slots:
            return [Row(width).add(f"  {view.why_empty}", "warn")]
        self._bands = view.bands(self.plan.columns)
        self._scroll_to_selected()
        return self._tiles(width) if self.plan.tiles else self._table(width)

    # Scrolling

    def _band_height(self, band: Band) -> int:
        return TILE_HEIGHT if self.plan.tiles and not band.node else 1

    def _fitting(self, bands: Sequence[Band]) -> int:
        """How many of `bands`, from the first, fit below each other; at least 1."""
        room = self.size.height - (0 if self.plan.tiles else _AROUND_TABLE)
        for number, band in enumerate(bands):
            room -= self._band_height(band)
            if room < 0:
                return max(1, number)
        return max(1, len(bands))

    @property
    def _visible(self) -> list[Band]:
        bands = self._bands[self._first :]
        return bands[: self._fitting(bands)]

    def _scroll_to_selected(self) -> None:
        bands, selected = self._bands, self._view.selected
        if self._scrolled_from != selected:
            self._scrolled_from = None
            row = next((number for number, band in enumerate(bands) if selected in band.slots), 0)
            first = row - 1 if row and not bands[row - 1].slots else row  # the line of its node is in sight too
            self._first = max(row + 1 - self._fitting(bands[row::-1]), min(self._first, first))
        self._first = max(0, min(self._first, len(bands) - self._fitting(bands[::-1])))

    def go_to_top(self) -> None:
        """Show the first workers; the selected one stays selected, in sight or not."""
        self._scrolled_from, self._first = self._view.selected, 0

    def wheel(self, steps: int) -> None:
        """Scroll by rows of tiles or of text; the selected worker stays selected, in sight or not."""
        self._scrolled_from = self._view.selected
        self._first += steps if self.plan.tiles else steps * WHEEL_ROWS
        self.update_rows()

    # Drawing

    def _tiles(self, width: int) -> list[Row]:
        columns, visible, position = self.plan.columns, self._visible, self._position()
        edges = [round(column * width / columns) for column in range(columns + 1)]
        rows: list[Row] = []
        for band in visible:
            beside = position if band is visible[-1] else ""
            if band.node:
                rows.append(table.node_line(self._view, band, width, beside))
                continue
            lines = [Row(width) for _ in range(TILE_HEIGHT)]
            for name, left, right in zip(band.slots, edges, edges[1:], strict=False):
                last = beside if name == band.slots[-1] else ""
                for line, row in zip(lines, tile(self._view.of(name), right - left, last), strict=True):
                    line.append(row)
            rows += lines
        return rows

    def _table(self, width: int) -> list[Row]:
        view, placed, position = self._view, table.columns(self._view, width), self._position()
        rows = [table.heading(placed, width)]
        for band in self._visible:
            if band.node:
                rows.append(table.node_line(view, band, width))
            else:
                rows.append(table.row(view.of(band.slots[0]), placed, width))
        if view.folded_node:
            return [*rows, Row(width).end(position, "strong")]
        return [*rows, table.detail(view.of(view.selected), width, position)]

    def _position(self) -> str:
        """Which workers and folded nodes are visible, unless all are."""

        def number(bands: Sequence[Band]) -> int:
            return sum(min(1, len(band.slots)) if band.node else len(band.slots) for band in bands)

        total, first, here = number(self._bands), number(self._bands[: self._first]), number(self._visible)
        return f" {first + 1}-{first + here} of {total}" if here < total else ""

    def on_click(self, event: events.Click) -> None:
        """Report which worker or node is under the mouse."""
        y = event.y if self.plan.tiles else event.y - 1  # below the heading
        for band in self._visible:
            if 0 <= y < self._band_height(band):
                column = event.x * self.plan.columns // max(1, self.size.width)
                slots = self._view.of_node(band.node)[:1] if band.node else band.slots[column : column + 1]
                for slot in slots:
                    self.post_message(self.Clicked(slot, band.node))
                return
            y -= self._band_height(band)


# Tiles


def tile(entry: SlotView, width: int, position: str = "") -> list[Row]:
    """The rows of a tile, each `width` cells; `position` is in its frame."""
    inner = width - 4
    failed = entry.worker.state is WorkerState.FAILED  # why, and with what, matters more than how it went
    notes = _note_rows(entry, inner, _MIDDLE if failed else _MIDDLE - 1)
    rows = [
        _rate_row(entry, Row(inner)),
        *_history_rows(entry, inner, _MIDDLE - len(notes)),
        *notes,
        _processor_row(entry, Row(inner)),
        _memory_row(entry, Row(inner)),
    ]
    corner, line = (SIGNS.chosen_corner, SIGNS.chosen_line) if entry.chosen else (SIGNS.corner, SIGNS.line)
    border = "selected" if entry.chosen else "border"
    foot = Row(width, line[0], border).add(corner[2] + line[0], border).end(line[0] + corner[3], border)
    foot.end(f"{position} " if position else "", "strong")
    return [
        _head(entry, width, corner[:2], line[0], border),
        *(Row(width).add(f"{line[1]} ", border).append(row).add(f" {line[1]}", border) for row in rows),
        foot,
    ]


def _head(entry: SlotView, width: int, corner: str, line: str, border: str) -> Row:
    """The frame's upper edge: slot, rank or job, and GPU; state, and for how long."""
    worker, row = entry.worker, Row(width, line, border)
    row.end(f" {line}{corner[1]}", border)
    if not worker.state.ended and not worker_text.getting_ready(worker):
        lost_s = worker_text.lost_s(entry)
        row.end(units.span(entry.since_s(worker.state_since) if lost_s is None else lost_s).rjust(_TIME + 1), "text")
    row.end(f" {worker_text.sign_of(entry)} {worker_text.state_of(worker)}", worker_text.style_of(entry))
    row.add(f"{corner[0]}{line} ", border)
    if entry.marked:
        row.add(f"{SIGNS.mark} ", "warn")
    row.add(entry.slot.name, "strong" if entry.chosen else "title")
    if worker.group is not None:
        row.add(f" {worker_text.rank_name(worker.group)}", limit=row.room - 1)
    elif worker.job is not None:
        row.add(f" {worker_text.job_of(worker)}", limit=row.room - 1)
    gpu = worker_text.gpu_name(entry.slot)
    while gpu and len(gpu) + 4 > row.room:  # a name without its last word is still one
        gpu = gpu.rpartition(" ")[0]
    return row.add(f" {SIGNS.dot} {gpu} " if gpu else " ", "dim")


def _rate_row(entry: SlotView, row: Row) -> Row:
    """The rate, and the number of environments; before there is a rate, the phase."""
    worker = entry.worker
    if worker_text.getting_ready(worker):
        row.add(f"{worker_text.phase_of(worker)} ", "title")
        return row.add(units.span(worker_text.phase_s(entry)), "strong")
    if worker.fps is None and worker.fps_in_rank_0:
        return row.add(f"FPS {worker_text.COUNTED}", "dim")
    over = worker.state is not WorkerState.RUNNING and worker.lost_since is None
    row.add(units.fps(worker.rate).rjust(_RATE), worker_text.rate_style(worker)).add(" FPS", "dim")
    row.add(" (final)" if over and worker.fps is not None else "", "dim")
    if worker.newest.n_envs is not None:
        row.end(f" {units.count(worker.newest.n_envs, 'env')}")
    return row


def _history_rows(entry: SlotView, inner: int, height: int) -> list[Row]:
    """The history of the rate, once there is one."""
    if worker_text.getting_ready(entry.worker):
        return [Row(inner) for _ in range(height)]
    values = buckets(entry.history.fps, entry.history.end, inner, SPAN_S)
    return [Row(inner).add(cells, "fps-graph") for cells in history_rows(values, highest(values), inner, height)]


def _processor_row(entry: SlotView, row: Row) -> Row:
    """Utilisation with its history, power and temperature of the GPU; of a CPU slot the cores that are used."""
    sample, worker, history = entry.sample, entry.worker, entry.history
    if entry.slot.gpu is None:
        row.add("CPU".ljust(_LABEL), "dim").add(f"{_percent(worker.cpu_pct, units.NOT_KNOWN, 6)} ")
        row.end(f" pid {worker.pid}" if worker.pid is not None else "", "dim")
        top = max([100.0, *(value or 0.0 for value in history.util_pct)])
    else:
        row.add("GPU".ljust(_LABEL), "dim")
        if sample is None:
            return row.add("no figures yet", "dim")
        row.add(f"{_percent(sample.gpu_util_pct, units.NOT_SUPPORTED, 5)} ")
        limit = f" / {sample.power_limit_w:.0f}" if sample.power_limit_w is not None else ""
        row.end(f"{units.whole(sample.temperature_c):>4} {SIGNS.degree}C", "warn" if sample.throttle else "text")
        row.end(f"{units.whole(sample.power_w):>5}{limit} W ")
        top = 100.0
    values = buckets(history.util_pct, history.end, row.room, SPAN_S)
    return row.add(history_rows(values, top, row.room)[0], "util")


def _percent(value: float | None, missing: str, width: int) -> str:
    return (missing if value is None else f"{value:.0f} %").rjust(width)


def _memory_row(entry: SlotView, row: Row) -> Row:
    sample, worker = entry.sample, entry.worker
    if entry.slot.gpu is None:
        return row.add("RAM".ljust(_LABEL), "dim").add(worker_text.known(worker.memory_rss_mib, units.mib).rjust(8))
    row.add("VRAM".ljust(_LABEL), "dim")
    used, total = (sample.memory_used_mib, sample.memory_total_mib) if sample is not None else (None, None)
    if used is None or not total:
        return row.add(units.NOT_SUPPORTED if sample is not None else "")
    whole = units.gib(total)
    row.end(f" {units.gib(used):>{len(whole)}} / {whole} GiB")
    full, rest = bar(used / total, row.room)
    return row.add(full, "vram").add(rest, "border")


def _note_rows(entry: SlotView, inner: int, most: int) -> list[Row]:
    """At most so many rows: remarks, and the arguments of a worker that has failed, or the newest output."""
    worker, rows, last = entry.worker, list[Row](), list[Row]()
    failed, line = worker.state is WorkerState.FAILED, worker_text.last_line(worker)
    if failed and worker.newest.args:
        last = [Row(inner).add("with".ljust(_LABEL), "dim").add(" ".join(worker.newest.args))]
    elif line:
        last = [Row(inner).add(line, "dim")]
    advice = entry.chosen or not worker.state.live  # while they run, it is the same for all
    room = most - len(last) if failed else most
    for note in worker_text.remarks(entry, advice=advice):
        rows += wrapped(note, inner, room - len(rows))
    return [*rows, *last][:most]


def wrapped(note: Note, width: int, rows: int) -> list[Row]:
    """A note in at most `rows` rows, broken at spaces; what does not fit is cut."""
    parts = [line.plain for line in Content(safe(note.text)).wrap(max(2, width))]  # 2: the room of a wide character
    lines = [*parts[: rows - 1], " ".join(parts[rows - 1 :])][:rows] if rows > 0 else []
    return [Row(width).add(part, note.style) for part in lines if part]
