"""How things look: the named styles and the signs, for a theme and a character set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.style import Style

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

_BOLD = ("strong", "title", "warn", "error", "fps", "selected", "key")
ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(_BOLD, "bold"),
    "match": "reverse",
    "match-here": "bold reverse underline",
}
"""The attributes of a style, which tell it apart without colours."""


class Signs(NamedTuple):
    """The characters that graphs, frames and states are drawn with."""

    corner: str
    """Top left, top right, bottom left, bottom right."""
    line: str
    """Horizontal, vertical."""
    chosen_corner: str
    """As `corner`, of the selected worker's tile."""
    chosen_line: str
    """As `line`, of the selected worker's tile."""
    levels: str
    """From empty to full, for a graph of one row's height."""
    bar: str
    """Full, then empty."""
    partial: str
    """From empty to full, for the cell where a bar ends; empty when bars end on whole cells."""
    pointer: str
    mark: str
    """Of a worker that keys act on together with others."""
    spinner: str
    states: Mapping[WorkerState, str]
    stuck: str
    warn: str
    ellipsis: str
    sigma: str
    degree: str
    arrow: str
    """Between before and after."""
    dot: str
    """Between two things on one line."""
    down: str
    """There is more below; or, beside a column's name, the largest is first."""
    up: str
    """Beside a column's name: the smallest is first."""
    plus_minus: str
    group: str
    """Beside a group's line."""


UNICODE = Signs(
    corner="╭╮╰╯",
    line="─│",
    chosen_corner="┏┓┗┛",
    chosen_line="━┃",
    levels=" ▁▂▃▄▅▆▇█",
    bar="█░",
    partial=" ▏▎▍▌▋▊▉",
    pointer="▸",
    mark="◆",
    spinner="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏",
    states=dict(zip(WorkerState, "…○◔◑●◌↻✓✗■", strict=True)),
    stuck="⚠",
    warn="⚠",
    ellipsis="…",
    sigma="Σ",
    degree="°",
    arrow="→",
    dot="·",
    down="↓",
    up="↑",
    plus_minus="±",
    group="▪",
)


def safe(text: str) -> str:
    """`text` without anything that a terminal would interpret."""
    return text if text.isprintable() else clean(text.encode("utf-8", "replace"))


_PLAIN = Style.null()


class Appearance(NamedTuple):
    """What drawing needs: styles by name, and signs."""

    styles: Mapping[str, Style]
    """One for each name in `STYLES`."""
    signs: Signs

    def text(self, text: str) -> str:
        """`text` without anything that a terminal would interpret."""
        return safe(text)

    def style(self, name: str) -> Style:
        """The style called `name`; a plain one when there is none."""
        style = self.styles.get(name)
        return _PLAIN if style is None else style
