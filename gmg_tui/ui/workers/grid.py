"""The workers: framed tiles in a grid if they fit, else a table."""

from itertools import accumulate
from typing import Final, NamedTuple

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size

from gmg_tui.model import WorkerState, units
from gmg_tui.ui import facts, worker_text
from gmg_tui.ui.drawing import Piece, Row, bar, load_style
from gmg_tui.ui.rows import Rows
from gmg_tui.ui.slots import SlotView, job_of
from gmg_tui.ui.table import DescribedTable
from gmg_tui.ui.view import Band, View
from gmg_tui.ui.workers.rate_line import RateLine, deviation_style, line_rows, rate_lines
from gmg_tui.ui.workers.table import ROWS_AROUND_TABLE, WorkerTable, node_line

MIN_LOG_ROWS: Final = 6
"""Minimum rows for the log, including its title."""
_MIN_LOG_ROWS_BELOW_TILES: Final = 8
"""Minimum rows that tiles must leave for the log, unless the user has chosen tiles."""
MIN_TILE_ROWS: Final = 8
"""Rows of the smallest tile, including its frame."""
_MAX_TILE_ROWS: Final = 19
_PANE_SHARE, _MAX_PANE_ROWS = 0.62, 30
"""Rows to keep for the pane before tiles grow beyond the minimum: a share of the height, and its upper limit."""
_FRAME_WIDTH: Final = 4
"""Columns of a tile's frame and padding."""
MIN_TILE_COLUMNS: Final = 38
"""Columns of the narrowest tile."""
_FIXED_TILE_ROWS: Final = 5
"""Rows of a tile other than its graph and notes."""
_NOTE_ROWS: Final = 2
"""Rows for notes in a tall tile."""
_MIN_GRAPH_ROWS: Final = 3
"""Minimum rows of a graph above notes."""
_LABEL_WIDTH: Final = 5
"""Columns of the labels left of the graphs."""
_RATE_WIDTH: Final = 11
"""Columns of the rate, such as `192,104,233`."""
_DEVIATION_WIDTH: Final = 9
"""Columns of the deviation, such as `−100.0 %`."""
_TIME_WIDTH: Final = 5
"""Columns of the time in a state, such as `39:12`."""


class Plan(NamedTuple):
    """The layout of the workers."""

    tiles: bool
    columns: int
    """Tiles side by side; 1 in the table."""
    height: int
    """Rows of the terminal for the workers."""
    tile_height: int = MIN_TILE_ROWS


def plan(view: View, width: int, height: int) -> Plan:
    """Returns a layout of the workers in `width` × `height` cells, which they share with the pane below."""
    widest = max(1, min(len(view.slots), width // MIN_TILE_COLUMNS))

    def rows_of(columns: int, tile_height: int = MIN_TILE_ROWS) -> int:
        return sum(1 if band.node else tile_height for band in view.bands(columns))

    # The fewest columns for the same number of rows, so that tiles are wide.
    rows, room = rows_of(widest), height - MIN_LOG_ROWS
    columns = next(count for count in range(1, widest + 1) if rows_of(count) == rows)
    fits = rows <= height - _MIN_LOG_ROWS_BELOW_TILES and width >= MIN_TILE_COLUMNS
    if not rows or view.tiles is False or (view.tiles is None and not fits) or room < MIN_TILE_ROWS:
        return Plan(tiles=False, columns=1, height=max(3, min(len(view.bands(1)) + ROWS_AROUND_TABLE, room)))
    tile_heights = range(_MAX_TILE_ROWS, MIN_TILE_ROWS, -1)
    max_rows = height - min(height * _PANE_SHARE, _MAX_PANE_ROWS)
    tile_height = next((count for count in tile_heights if rows_of(columns, count) <= max_rows), MIN_TILE_ROWS)
    rows = rows_of(columns, tile_height)
    return Plan(True, columns, rows if rows <= room else room - room % MIN_TILE_ROWS, tile_height)


class Grid(Vertical):
    """The workers as tiles, or as a table above a line about the selected worker."""

    DEFAULT_CSS = "Grid { & > DescribedTable > Facts { height: 1; padding: 0 2; overflow: hidden; } }"

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view
        self.plan = Plan(tiles=False, columns=1, height=2)
        self._tiles, self._table = Tiles(view), WorkerTable(view)
        self._listing = DescribedTable(self._table, self._table.facts)

    def compose(self) -> ComposeResult:
        """Yields the tiles, and the table."""
        yield from (self._tiles, self._listing)

    def lay_out(self, height: int) -> None:
        """Plans the workers' rows within a `height` shared with the pane, and shows their current state."""
        self.plan = plan(self._view, self.app.size.width, height)
        self.styles.height = self.plan.height
        self._tiles.display, self._listing.display = self.plan.tiles, not self.plan.tiles
        if self.plan.tiles:
            self._tiles.show(self.plan)
        else:
            self._listing.show(self._view.bands(1), f"  {self._view.empty_text}")

    def go_to_top(self) -> None:
        """Scrolls to the first workers; the selection stays."""
        (self._tiles if self.plan.tiles else self._table).scroll_to(y=0, animate=False, force=True)


class Tiles(Rows):
    """A framed tile for each worker, in a grid with a line for each node."""

    DEFAULT_CSS = "Tiles { height: 1fr; overflow-y: auto; scrollbar-size-vertical: 1; }"

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view
        self._plan = Plan(tiles=True, columns=1, height=MIN_TILE_ROWS)
        self._bands: list[tuple[int, int, Band]] = []
        self._selected = ""

    def show(self, plan: Plan) -> None:
        """Shows the workers' current state in the layout `plan`."""
        bands, old_plan, self._plan = self._view.bands(plan.columns), self._plan, plan
        ends = list(accumulate(1 if band.node else plan.tile_height for band in bands))
        self._bands = list(zip([0, *ends], ends, bands, strict=False))
        self.virtual_size = Size(self.size.width, ends[-1])
        if (old_plan, self._selected) != (plan, self._view.selected):  # else keep the user's scroll position
            self.on_resize()
        self.update_rows()

    def on_resize(self) -> None:
        """Scrolls to the selected worker, including its node's line if directly above."""
        self._selected = self._view.selected
        for number, (first, end, band) in enumerate(self._bands):
            if self._selected in band.slots:
                self.reveal(first - (number > 0 and not self._bands[number - 1][2].slots), end)

    def scroll_wheel(self, steps: int) -> None:
        """Scrolls by one tile per step; the selection stays."""
        self.scroll_relative(y=steps * self._plan.tile_height, animate=False)

    def make_rows(self, width: int, height: int) -> list[Row]:
        """Returns the rows of the visible workers."""
        top = round(self.scroll_y)
        visible = [(first, band) for first, end, band in self._bands if end > top and first < top + height]
        columns, tile_height = self._plan.columns, self._plan.tile_height
        edges = [round(column * width / columns) for column in range(columns + 1)]
        entries = {name: self._view.slot_view(name) for _, band in visible if not band.node for name in band.slots}
        lines = rate_lines(entries.values(), width // columns - _FRAME_WIDTH)
        rows: list[Row] = []
        for _, band in visible:
            if band.node:
                line = node_line(self._view, band, width)
                rows.append(Row(width).append(line, click=("screen.fold", band.node)))
                continue
            band_rows = [Row(width) for _ in range(tile_height)]
            for name, left, right in zip(band.slots, edges, edges[1:], strict=False):
                tile_rows = tile(entries[name], right - left, tile_height, lines[name])
                for row, tile_row in zip(band_rows, tile_rows, strict=True):
                    row.append(tile_row, click=("screen.choose", name))
            rows += band_rows
        return rows[top - visible[0][0] :][:height] if visible else []


# Tiles


def tile(entry: SlotView, width: int, height: int, line: RateLine) -> list[Row]:
    """Returns a tile: `height` rows of `width` cells."""
    inner, middle = width - _FRAME_WIDTH, height - _FIXED_TILE_ROWS
    failed = entry.worker.state is WorkerState.FAILED  # reason and arguments matter more than history
    notes = _note_rows(entry, inner, middle if failed else middle - 1)
    has_line = any(deviation is not None for deviation in line.deviations)
    reserved = max(0, min(_NOTE_ROWS, middle - _MIN_GRAPH_ROWS))  # also without notes, so graphs have equal heights
    history = line_rows(line, middle - max(reserved, len(notes))) if has_line else []
    blank = [Row(inner)] * (middle - len(notes) - len(history))
    rows = [
        _add_rate(entry, line, Row(inner)),
        *(Row(inner).pad_to(inner - row.width).append(row) for row in history),
        *notes,
        *blank,
        _add_processor(entry, Row(inner)),
        _add_memory(entry, Row(inner)),
    ]
    corners, edges = ("┏┓┗┛", "━┃") if entry.selected else ("╭╮╰╯", "─│")
    border = "selected" if entry.selected else "border"
    foot = Row(width, edges[0], border).add(corners[2] + edges[0], border).end(edges[0] + corners[3], border)
    if entry.selected and has_line:
        scale = f" {units.span(line.seconds)} · median ±{100 * line.half_range:.0f} % "
        foot.add(scale if len(scale) < foot.room else "", "dim")
    return [
        _head(entry, width, corners[:2], edges[0], border),
        *(Row(width).add(f"{edges[1]} ", border).append(row).add(f" {edges[1]}", border) for row in rows),
        foot,
    ]


def _head(entry: SlotView, width: int, corners: str, line: str, border: str) -> Row:
    """Returns the upper edge: slot, rank, job, GPU, state and the time in it; `border` is the style of the frame."""
    worker, row = entry.worker, Row(width, line, border)
    row.end(f" {line}{corners[1]}", border)
    if not worker.state.ended and not worker_text.is_getting_ready(worker):
        lost_s = worker_text.lost_s(entry)
        since_s = entry.since_s(worker.state_since) if lost_s is None else lost_s
        row.end(units.span(since_s).rjust(_TIME_WIDTH + 1))
    row.end(f" {worker_text.symbol_of(entry)} {worker_text.state_of(worker)}", worker_text.style_of(entry))
    row.add(f"{corners[0]}{line} ", border)
    if entry.marked:
        row.add("◆ ", "warn")
    row.add(entry.slot.name, "strong" if entry.selected else "title")
    if worker.group is not None:
        row.add(f" {worker.group.name}", limit=row.room - 1)
    if worker.job is not None:
        row.add(f" {job_of(worker)}", limit=row.room - 1)
    gpu = worker_text.gpu_name(entry.slot)
    while gpu and len(gpu) + 4 > row.room:  # drop words at the end until the name fits
        gpu = gpu.rpartition(" ")[0]
    return row.add(f" · {gpu} " if gpu else " ", "dim")


def _add_rate(entry: SlotView, line: RateLine, row: Row) -> Row:
    """Adds the rate, the deviation from the median and the environments; before the first rate, the phase."""
    worker = entry.worker
    if worker_text.is_getting_ready(worker):
        row.add(f"{worker_text.phase_of(worker)} ", "title")
        return row.add(units.span(worker_text.phase_s(entry)), "strong")
    if worker.fps is None and worker.fps_in_rank_0:
        return row.add(f"FPS {worker_text.IN_RANK_0}", "dim")
    is_final = worker.state is not WorkerState.RUNNING and worker.lost_since is None
    row.add(units.fps(worker.rate).rjust(_RATE_WIDTH), worker_text.rate_style(worker)).add(" FPS", "dim")
    row.add(" (final)" if is_final and worker.fps is not None else "", "dim")
    if worker.newest.n_envs is not None:
        row.end(f" {units.count(worker.newest.n_envs, 'env')}")
    if line.newest is not None and not is_final:
        deviation = units.change(line.newest * 100)
        row.add(deviation.rjust(_DEVIATION_WIDTH) if row.room >= _DEVIATION_WIDTH else "", deviation_style(line.newest))
    return row


def _add_processor(entry: SlotView, row: Row) -> Row:
    """Adds the GPU's utilisation, power and temperature; on a CPU slot, the CPU load and the PID."""
    sample, worker = entry.sample, entry.worker
    if entry.slot.gpu is None:
        row.add("CPU".ljust(_LABEL_WIDTH), "dim").add(units.figure(worker.cpu_pct, "%", units.NOT_KNOWN).rjust(6))
        return row.end(f" pid {worker.pid}" if worker.pid is not None else "", "dim")
    row.add("GPU".ljust(_LABEL_WIDTH), "dim")
    if sample is None:
        return row.add("no figures yet", "dim")
    busy_pct, power_w = sample.gpu_util_pct, sample.power_w
    heat_style = "warn" if sample.throttle else load_style(sample, "temperature_c")
    row.end(f"{units.rounded(sample.temperature_c):>4} °C", heat_style)
    row.end(f"/{sample.power_limit_w:.0f} W" if sample.power_limit_w is not None else " W")
    row.end(f"{units.rounded(power_w):>4}", load_style(sample, "power_w"))
    row.add(f"{units.figure(busy_pct, '%'):>5} ", load_style(sample, "gpu_util_pct"))
    full, empty = bar((busy_pct or 0.0) / 100, max(0, row.room - 1))
    return row.add(full, load_style(sample, "gpu_util_pct")).add(empty, "border") if busy_pct is not None else row


def _add_memory(entry: SlotView, row: Row) -> Row:
    sample, worker = entry.sample, entry.worker
    if entry.slot.gpu is None:
        return row.add("RAM".ljust(_LABEL_WIDTH), "dim").add(
            (units.mib(used) if (used := worker.memory_rss_mib) is not None else units.NOT_KNOWN).rjust(8)
        )
    row.add("VRAM".ljust(_LABEL_WIDTH), "dim")
    if sample is None:
        return row
    used, total = sample.memory_used_mib, sample.memory_total_mib
    if used is None or not total:
        return row.add(units.NOT_SUPPORTED)
    total_gib = units.gib(total)
    row.end(f" {units.gib(used):>{len(total_gib)}} / {total_gib} GiB")
    full, empty = bar(used / total, row.room)
    return row.add(full, load_style(sample, "memory")).add(empty, "border")


def _note_rows(entry: SlotView, width: int, max_rows: int) -> list[Row]:
    """Returns the remarks, then a failed worker's arguments or the newest line of output."""
    worker, rows, last_rows = entry.worker, list[Row](), list[Row]()
    failed, line = worker.state is WorkerState.FAILED, worker_text.last_line(worker)
    if failed and worker.newest.args:
        last_rows = [Row(width).add("with".ljust(_LABEL_WIDTH), "dim").add(" ".join(worker.newest.args))]
    elif line:
        last_rows = [Row(width).add(line, "dim")]
    show_advice = entry.selected or not worker.state.live  # running workers often have the same advice
    room = max_rows - len(last_rows) if failed else max_rows
    for note in worker_text.remarks(entry, advice=show_advice):
        rows += wrap_note(note, width, room - len(rows))
    return [*rows, *last_rows][:max_rows]


def wrap_note(note: Piece, width: int, max_rows: int) -> list[Row]:
    """Returns a note in at most `max_rows` rows, broken at spaces and cut at the end."""
    text, style = note
    wrapped = facts.wrap(text, width)
    lines = [*wrapped[: max_rows - 1], " ".join(wrapped[max_rows - 1 :])][:max_rows] if max_rows > 0 else []
    return [Row(width).add(line, style) for line in lines if line]
