"""A line of a worker's log, coloured by what its own words say of it."""

from __future__ import annotations

import re

from textual.strip import Strip

from gmg_tui.ui.line import Line
from gmg_tui.ui.log_buffer import LogRow
from gmg_tui.ui.look import Look

_ERROR = re.compile(r"\[(?:ERROR|CRITICAL)\]|^Traceback \(most recent|^\w*(?:Error|Exception)\b")
_WARNING = re.compile(r"\[WARNING\]|^WARNING\b|Warning: ")
_FPS = "Running at "


def style_of(text: str) -> str:
    """The name of the style for a whole line."""
    if _FPS in text:
        return "dim"
    if _ERROR.search(text):
        return "error"
    return "warn" if _WARNING.search(text) else "text"


def log_line(row: LogRow, width: int, offset: int, query: str, look: Look) -> Strip:
    """A row of the log.

    Args:
        row: The row.
        width: In cells.
        offset: Characters that are scrolled out at the left.
        query: What is searched for, in lower case; each place of it is marked.
        look: Styles and signs.
    """
    if row.gap:
        return Line(look, width).add(row.text, "dim").strip()
    style = style_of(row.text)
    text = row.text[offset:]
    line = Line(look, width)
    if query:
        text = _marked(line, text, query, style)
    return line.add(text, style).strip()


def _marked(line: Line, text: str, query: str, style: str) -> str:
    """Write `text` up to behind its last match; returns the rest."""
    lowered = text.lower()
    if len(lowered) != len(text):
        return text  # a letter whose lower case is longer: places would be wrong
    at = lowered.find(query)
    done = 0
    while at >= 0 and line.room > 0:
        line.add(text[done:at], style).add(text[at : at + len(query)], "match")
        done = at + len(query)
        at = lowered.find(query, done)
    return text[done:]
