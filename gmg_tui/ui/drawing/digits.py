"""Numbers three rows high."""

from __future__ import annotations

ROWS = 3
"""Rows of a large number."""
_SHAPES = {
    "0": ("╭─╮", "│ │", "╰─╯"),
    "1": (" ╷ ", " │ ", " ╵ "),
    "2": ("╶─╮", "╭─╯", "╰─╴"),
    "3": ("╶─╮", " ─┤", "╶─╯"),
    "4": ("╷ ╷", "╰─┤", "  ╵"),
    "5": ("╭─╴", "╰─╮", "╶─╯"),
    "6": ("╭─╴", "├─╮", "╰─╯"),
    "7": ("╶─╮", "  │", "  ╵"),
    "8": ("╭─╮", "├─┤", "╰─╯"),
    "9": ("╭─╮", "╰─┤", "╶─╯"),
    ",": ("  ", "  ", "╷ "),
    ".": ("  ", "  ", ". "),
}


def digits(number: str) -> list[str]:
    """`number`, as `units.fps` writes it, in rows from the top, which are equally wide."""
    shapes = [_SHAPES.get(sign, (" ", " ", sign)) for sign in number]
    return ["".join(shape[row] for shape in shapes) for row in range(ROWS)]
