"""Keeps faults in what only watches the work away from the work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")

_PAUSE_S = 1.0
"""Before a loop that has failed goes on."""


class Faults:
    """Runs the parts of the observer; an exception in one is logged and displayed once, and stops nothing else.

    Attributes:
        note: Shows a note about a subject on all screens.
    """

    def __init__(self) -> None:
        self.note: Callable[[str, str | None], None] = lambda _, __: None
        self._known: set[tuple[str, str]] = set()
        """Parts with the type of their exception."""

    def guard(self, part: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """Call `function`. Returns what it returns; None where it fails."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self._take(part, error)
            return None

    async def forever(self, part: str, run: Callable[[], Awaitable[object]]) -> None:
        """Await `run()`, again after each failure, until it returns or this is cancelled."""
        while True:
            try:
                await run()
            except Exception as error:
                self._take(part, error)
                await asyncio.sleep(_PAUSE_S)
            else:
                return

    def _take(self, part: str, error: Exception) -> None:
        kind = type(error).__name__
        if (part, kind) in self._known:
            return
        self._known.add((part, kind))
        _log.error("a fault in %s; the workers are not affected", part, exc_info=error)
        self.note(f"fault in {part}", f"{part}: internal error ({kind}: {error}); the workers run on; see engine.log")
