"""Plain text in columns, for tables that end on standard output."""

from __future__ import annotations

from collections.abc import Sequence


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: frozenset[str]) -> list[str]:
    """The lines of a table: each column as wide as its widest cell, two spaces between.

    Args:
        header: The columns' titles.
        rows: The cells, as many in each row as there are titles.
        left: The titles of columns that are set to the left; all others hold figures and are set to the right.
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if title in left else cell.rjust(width)
            for title, cell, width in zip(header, row, widths, strict=True)
        ).rstrip()
        for row in (header, *rows)
    ]
