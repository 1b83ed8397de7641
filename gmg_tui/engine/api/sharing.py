"""The second door of an engine: a socket at which the users of a group may look at the session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial

from gmg_tui import shares
from gmg_tui.engine.api.listener import Listener
from gmg_tui.errors import GmgError
from gmg_tui.protocol import ShareWith

Visit = Callable[[Listener, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Sharing:
    """Opens and closes that door; `visit` serves each connection that comes through it."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._listener: Listener | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self, name: str, request: ShareWith) -> None:
        """Let the group of `request` look at the session `name`. Raises `GmgError` when that cannot be done."""
        path = shares.path_of(os.getuid(), name)
        try:
            listener = Listener([path], group=request.group)
        except FileExistsError:
            raise GmgError(f"another session of yours called {name} is shared already", 1) from None
        except PermissionError as error:
            if error.filename is None:
                raise GmgError(f"{path.parent} belongs to somebody else", 1) from None
            why = "you are not in it, or were not when the session was started"
            raise GmgError(f"{name} cannot be shared with the group {request.group_name}: {why}", 1) from None
        except OSError as error:
            raise GmgError(f"{name} cannot be shared at {path}: {error.strerror}", 1) from None
        self._listener = listener
        self._running = asyncio.create_task(listener.run(partial(self._visit, listener)), name="share")

    def stop(self, name: str) -> None:
        """Close the door. Raises `GmgError` where there is none."""
        if self._listener is None:
            raise GmgError(f"{name} is not shared", 1)
        self.close()

    def close(self) -> None:
        """Close the door, if there is one; connections stay open."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._running is not None:
            self._running.cancel()
            self._running = None
