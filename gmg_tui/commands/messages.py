"""A command's messages, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from gmg_tui import units

_FIRST_S = 1.0
_AGAIN_S = 0.2


def tell(text: str) -> None:
    """Print a line to standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def tell_left(jobs: int, name: str) -> None:
    """Say how many jobs of the sweep `name` have not ended, and how to go on with them; nothing where none is left."""
    if jobs:
        tell(f"{units.count(jobs, 'job')} left; continue with: gmg-tui sweep --resume {name}")


def tell_tuning(name: str) -> None:
    """Say how to go on with a tuning that was stopped."""
    tell(f"`gmg-tui tune --resume {name}` goes on with it")


@contextmanager
def notice(text: str) -> Iterator[None]:
    """Show `text` while the context lasts; nothing where standard error is not a terminal."""
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


class Progress:
    """Shows how many steps of some work are done, if it takes more than a second; nothing where there is no terminal.

    It is a context manager; `tick` is called for each step, and `doing` may be changed.
    """

    def __init__(self, doing: str, steps: str) -> None:
        self.doing = doing
        self._steps = steps
        self._done = 0
        self._due = time.monotonic() + _FIRST_S
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def tick(self, steps: int = 1) -> None:
        """More is done."""
        self._done += steps
        if (now := time.monotonic()) >= self._due and sys.stderr.isatty():
            self._due = now + _AGAIN_S
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{self.doing}: {units.count(self._done, self._steps)}")
            sys.stderr.flush()
