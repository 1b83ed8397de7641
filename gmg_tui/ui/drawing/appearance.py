"""How things look: the styles by name, and the signs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from rich.style import Style
from textual.content import Content

from gmg_tui.model import WorkerState
from gmg_tui.text import clean

STYLES: Mapping[str, str] = {
    "text": "foreground",
    "dim": "text-muted",
    "strong": "foreground",
    "title": "primary",
    "ok": "success",
    "warn": "warning",
    "error": "error",
    "fps": "accent",
    "fps-graph": "accent",
    "util": "success",
    "vram": "secondary",
    "power": "warning",
    "temperature": "error",
    "border": "border-blurred",
    "selected": "border",
    "key": "primary",
    "match": "foreground",
    "match-here": "warning",
}
"""Each style's name, and the variable of Textual's theme that colours it."""
Appearance: TypeAlias = Mapping[str, Style]
"""The styles of a theme, by the names in `STYLES`."""

_BOLD = ("strong", "title", "warn", "error", "fps", "selected", "key")
ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(_BOLD, "bold"),
    "match": "reverse",
    "match-here": "bold reverse underline",
}
"""The attributes of a style, which tell it apart without colours."""


class _Signs(NamedTuple):
    """The characters that graphs, frames and states are drawn with."""

    corner: str = "╭╮╰╯"
    """Top left, top right, bottom left, bottom right."""
    line: str = "─│"
    """Horizontal, vertical."""
    chosen_corner: str = "┏┓┗┛"
    """As `corner`, of the selected worker's tile."""
    chosen_line: str = "━┃"
    """As `line`, of the selected worker's tile."""
    levels: str = " ▁▂▃▄▅▆▇█"
    """From empty to full, for a graph of one row's height."""
    bar: str = "█░"
    """Full, then empty."""
    partial: str = " ▏▎▍▌▋▊▉"
    """From empty to full, for the cell where a bar ends; empty when bars end on whole cells."""
    pointer: str = "▸"
    mark: str = "◆"
    """Of a worker that keys act on together with others."""
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    states: Mapping[WorkerState, str] = dict(zip(WorkerState, "…○◔◑●◌↻✓✗■", strict=True))
    stuck: str = "⚠"
    warn: str = "⚠"
    ellipsis: str = "…"
    sigma: str = "Σ"
    degree: str = "°"
    arrow: str = "→"
    """Between before and after."""
    dot: str = "·"
    """Between two things on one line."""
    down: str = "↓"
    """There is more below; or, beside a column's name, the largest is first."""
    up: str = "↑"
    """Beside a column's name: the smallest is first."""
    group: str = "▪"
    """Beside a group's line."""


SIGNS: Final = _Signs()


def safe(text: str) -> str:
    """`text` without anything that a terminal would interpret."""
    return text if text.isprintable() else clean(text.encode("utf-8", "replace"))


def plain(text: str) -> Content:
    """`text` for a widget: never parsed as markup, without anything that a terminal would interpret."""
    return Content("\n".join(clean(line.encode("utf-8", "replace")) for line in text.split("\n")))
