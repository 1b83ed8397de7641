"""How things look: the named styles and the signs, for a theme and a character set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.style import Style

from gmg_tui.model import WorkerState

STYLES: Mapping[str, str] = {
    "text": "foreground",
    "dim": "text-muted",
    "title": "primary",
    "ok": "success",
    "warn": "warning",
    "error": "error",
    "fps": "accent",
    "util": "success",
    "vram": "secondary",
    "power": "warning",
    "temperature": "error",
    "border": "border-blurred",
    "selected": "border",
}
"""Each style's name, and the variable of Textual's theme that colours it."""


class Signs(NamedTuple):
    """The characters that graphs, frames and states are drawn with."""

    corner: str
    """Top left, top right, bottom left, bottom right."""
    line: str
    """Horizontal, vertical."""
    levels: str
    """From empty to full, for a graph of one row's height."""
    bar: str
    """Full, then empty."""
    partial: str
    """From empty to full, for the cell where a bar ends; empty when bars end on whole cells."""
    pointer: str
    spinner: str
    states: Mapping[WorkerState, str]
    stuck: str
    ellipsis: str
    sigma: str
    degree: str


UNICODE = Signs(
    corner="╭╮╰╯",
    line="─│",
    levels=" ▁▂▃▄▅▆▇█",
    bar="█░",
    partial=" ▏▎▍▌▋▊▉",
    pointer="▸",
    spinner="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏",
    states={
        WorkerState.WAITING: "…",
        WorkerState.STARTING: "○",
        WorkerState.BUILDING: "◔",
        WorkerState.COMPILING: "◑",
        WorkerState.RUNNING: "●",
        WorkerState.STOPPING: "◌",
        WorkerState.RESTARTING: "↻",
        WorkerState.FINISHED: "✓",
        WorkerState.FAILED: "✗",
        WorkerState.STOPPED: "■",
    },
    stuck="⚠",
    ellipsis="…",
    sigma="Σ",
    degree="°",
)

ASCII = Signs(
    corner="++++",
    line="-|",
    levels=" .:-=+*%#",
    bar="#.",
    partial="",
    pointer=">",
    spinner="|/-\\",
    states={
        WorkerState.WAITING: ".",
        WorkerState.STARTING: "o",
        WorkerState.BUILDING: "b",
        WorkerState.COMPILING: "c",
        WorkerState.RUNNING: "*",
        WorkerState.STOPPING: "~",
        WorkerState.RESTARTING: "r",
        WorkerState.FINISHED: "+",
        WorkerState.FAILED: "!",
        WorkerState.STOPPED: "x",
    },
    stuck="!",
    ellipsis="...",
    sigma="Sum",
    degree="",
)


class Look(NamedTuple):
    """What a renderable needs to draw: styles by name, and signs."""

    styles: Mapping[str, Style]
    """One for each name in `STYLES`."""
    signs: Signs

    def style(self, name: str) -> Style:
        """The style called `name`; a plain one when there is none of that name."""
        return self.styles.get(name, Style.null())
