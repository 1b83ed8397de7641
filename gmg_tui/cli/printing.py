"""What commands print: facts on standard output, messages on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from gmg_tui.results.column import Column

T = TypeVar("T")


def note(text: str) -> None:
    """Print a line to standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def print_json(content: Any) -> None:
    """Print facts for programs on standard output."""
    print(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())


def print_table(columns: Sequence[Column[T]], rows: Sequence[T], *more: str) -> None:
    """Print a table that fits the terminal (a pipe gets all columns), and further lines; nothing where there is nothing."""
    from gmg_tui.results import table as tables  # not before a table is printed: it loads Rich

    width, colour = tables.output()
    if lines := [*tables.terminal(columns, rows, width=width, colour=colour), *more]:
        print("\n".join(lines))


@contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` while the context lasts, or what its function is called with; nothing where there is no terminal."""

    def show(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    show(text)
    try:
        yield show
    finally:
        show("")
