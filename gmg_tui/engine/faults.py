"""Keeps faults in the observer from affecting the workers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")

_RETRY_PAUSE_S = 1.0
"""Pause before a failed loop is restarted."""
_RECOVERY_S = 10.0
"""Seconds without a fault after which a component has recovered."""


class Faults:
    """Runs components of the observer. An exception is logged once, and shown until the component works again.

    Attributes:
        note: Shows a note on a subject, or (None) removes it.
    """

    def __init__(self) -> None:
        self.note: Callable[[str, str | None], None] = lambda _, __: None
        self._known: set[tuple[str, str]] = set()
        """Reported components and exception types."""
        self._failed_at: dict[str, float] = {}
        """Time of the last fault of each component that has not recovered, monotonic seconds."""

    def guard(self, name: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """Calls `function`. Returns its result; None if it fails."""
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            self._report(name, error)
            return None
        if self._failed_at:
            self._recover(name)
        return result

    async def keep_running(self, name: str, run: Callable[[], Awaitable[object]]) -> None:
        """Awaits `run()`, and restarts it after failures, until it returns or is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await run()
            except Exception as error:
                self._report(name, error)
                loop.call_later(_RETRY_PAUSE_S + _RECOVERY_S, self._recover, name)
                await asyncio.sleep(_RETRY_PAUSE_S)
            else:
                return

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Reports an error outside any component, as the loop's exception handler; a recurring one is logged once."""
        name, error = context["message"], context.get("exception")
        if not isinstance(error, Exception):
            loop.default_exception_handler(context)
            return
        self._report(name, error)
        loop.call_later(_RECOVERY_S, self._recover, name)

    def _recover(self, name: str) -> None:
        """Removes the note on a component, unless the component has failed recently."""
        failed_at = self._failed_at.get(name)
        if failed_at is not None and time.monotonic() - failed_at >= _RECOVERY_S:
            del self._failed_at[name]
            self.note(f"fault in {name}", None)

    def _report(self, name: str, error: Exception) -> None:
        kind = type(error).__name__
        self._failed_at[name] = time.monotonic()
        if (name, kind) not in self._known:
            self._known.add((name, kind))
            _log.error("fault in %s; workers are not affected", name, exc_info=error)
        self.note(f"fault in {name}", f"{name}: internal error ({kind}: {error}); workers keep running; see engine.log")
