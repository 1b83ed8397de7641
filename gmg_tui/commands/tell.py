"""What a command says beside its output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def tell(text: str) -> None:
    """Say a line on standard error, at once."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def notice(text: str) -> Iterator[None]:
    """Show `text` on the terminal as long as something takes; nothing where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(text)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
