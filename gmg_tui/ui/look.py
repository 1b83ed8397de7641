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
}
"""Each style's name, and the variable of Textual's theme that colours it."""

ATTRIBUTES: Mapping[str, str] = {
    "strong": "bold",
    "title": "bold",
    "warn": "bold",
    "error": "bold",
    "fps": "bold",
    "selected": "bold",
    "key": "bold",
    "match": "reverse",
}
"""What a style has beside its colour, so that it can be told apart without one."""


class Signs(NamedTuple):
    """The characters that graphs, frames and states are drawn with."""

    corner: str
    """Top left, top right, bottom left, bottom right."""
    line: str
    """Horizontal, vertical."""
    chosen_corner: str
    """As `corner`, of the chosen worker's card."""
    chosen_line: str
    """As `line`, of the chosen worker's card."""
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
    arrow: str
    """From before to after."""
    dot: str
    """Between two things on one line."""
    down: str
    """There is more below."""
    up: str
    """There is more above."""


UNICODE = Signs(
    corner="╭╮╰╯",
    line="─│",
    chosen_corner="┏┓┗┛",
    chosen_line="━┃",
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
    arrow="→",
    dot="·",
    down="↓",
    up="↑",
)

ASCII = Signs(
    corner="++++",
    line="-|",
    chosen_corner="####",
    chosen_line="=#",
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
    arrow="->",
    dot="|",
    down="v",
    up="^",
)


def safe(text: str) -> str:
    """`text` without anything that a terminal would act on."""
    return text if text.isprintable() else clean(text.encode("utf-8", "replace"))


_IN_ASCII = str.maketrans(
    {"–": "-", "—": "-", "…": "...", "·": ".", "°": "", "→": "->", "Σ": "Sum", "\N{MULTIPLICATION SIGN}": "x"}
)


class Look(NamedTuple):
    """What a renderable needs to draw: styles by name, and signs."""

    styles: Mapping[str, Style]
    """One for each name in `STYLES`."""
    signs: Signs

    def text(self, text: str) -> str:
        """`text` as it may be shown: nothing that a terminal would act on, and ASCII where only that is wanted."""
        shown = safe(text)
        if self.signs is not ASCII or shown.isascii():
            return shown
        return shown.translate(_IN_ASCII).encode("ascii", "replace").decode()

    def style(self, name: str) -> Style:
        """The style called `name`; a plain one when there is none of that name."""
        return self.styles.get(name, Style.null())
