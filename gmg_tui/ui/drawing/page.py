"""Text in rows."""

from __future__ import annotations

import re
from typing import Final

from rich.cells import cell_len, chop_cells

_WORD: Final = re.compile(r"^\s+|\S+\s*")


def fold(text: str, width: int) -> list[str]:
    """`text` in rows of at most `width` cells, broken between words; a longer word is broken where it must be."""
    width = max(2, width)  # the room of one wide character
    rows: list[str] = []
    row = ""
    for word in _WORD.findall(text):
        if row and cell_len(row) + cell_len(word.rstrip()) > width:
            rows.append(row.rstrip())
            row = ""
        if row or cell_len(word.rstrip()) <= width:
            row += word
        else:
            *full, row = chop_cells(word, width)
            rows += full
    return [*rows, row.rstrip()]
