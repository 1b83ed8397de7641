"""`--ascii`: everything that is drawn, in characters that every terminal has."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_LEVELS = " .:-=+*##"
"""For a cell of a graph that is empty up to full, in eighths."""
_ALIKE = {
    "…": ".",
    "·": ".",
    "•": "*",
    "–": "-",
    "—": "-",
    "−": "-",
    "×": "x",
    "±": "~",
    "°": " ",
    "Σ": "S",
    "←↤": "<",
    "→▸▶▷❯": ">",
    "↑▲▴": "^",
    "↓▼▾▽": "v",
    "⚠": "!",
    "✓✔": "+",
    "✗✘": "x",
    "◆↻": "*",
    "●◉": "@",
    "○": "o",
    "◔": "b",
    "◑": "c",
    "◌": "~",
    "■▪": "#",
    "◇": "+",
    "□": "%",
    "△▵": "&",
    "┊": ":",
    "╎": "!",
    "▀▔": '"',
    "▐▕": "|",
    "░": ".",
    "▒": ":",
    "▓": "*",
}


def _table() -> Iterator[tuple[int, str]]:
    for dots in range(256):
        yield 0x2800 + dots, _LEVELS[dots.bit_count()]
    for code in range(0x2500, 0x2580):  # box drawing
        name = unicodedata.name(chr(code))
        corner, across, down = "#=#" if "HEAVY" in name else "+-|"
        straight = across if "HORIZONTAL" in name else down
        yield code, corner if "AND" in name or "ARC" in name else straight
    for eighths in range(1, 9):  # blocks from below, then from the left
        yield 0x2580 + eighths, _LEVELS[eighths]
        yield 0x2590 - eighths, _LEVELS[eighths]
    for characters, replacement in _ALIKE.items():
        for character in characters:
            yield ord(character), replacement


_IN_ASCII = dict(_table())


@lru_cache(4096)
def in_ascii(text: str) -> str:
    """`text` in as many cells of ASCII; `?` for what has no likeness."""
    translated = text.translate(_IN_ASCII)
    if translated.isascii():
        return translated
    return "".join(_alike(character) for character in translated)


def _alike(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    width = cell_len(character)
    return character if character.isascii() else plain if len(plain) == width else "?" * width


class AsciiFilter(LineFilter):
    """Replaces the characters of every line, also of Textual's own frames, bars and buttons."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with the same styles in ASCII."""
        return [
            segment if segment.text.isascii() else Segment(in_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]
