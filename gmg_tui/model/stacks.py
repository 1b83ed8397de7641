"""What a worker does at one moment, as its Python stack tells it."""

from __future__ import annotations

from msgspec import Struct


class Stacks(Struct, frozen=True, omit_defaults=True):
    """The Python stacks of one worker's first process."""

    slot: str
    rank: int | None = None
    """Its place in its group; None where it is no rank."""
    text: str = ""
    """The stacks of all threads, innermost frame first, as `source` writes them."""
    source: str = ""
    """Who has written them: `py-spy` or `faulthandler`."""
    error: str | None = None
    """Why there are none, in one line."""
