"""Keys that wait for the screen that they are meant for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.events import Key, Paste

_MOST = 512
"""More are dropped: nobody types so far ahead."""


class PendingKeys:
    """Keeps keys while a screen is being opened, and passes them to it in order.

    A slow line delivers several keys at once: `e`, then text for the dialog that it opens. Without this the main screen
    would get the text, and an `x` in it would stop a worker. `give` passes a key on as if it had been typed now.
    """

    def __init__(self, give: Callable[[Key | Paste], Awaitable[None]]) -> None:
        self._give = give
        self._keys: list[Key | Paste] | None = None
        self._giving = False

    def begin(self) -> None:
        """Keep the keys from now on."""
        if self._keys is None:
            self._keys = []

    def keep(self, key: Key | Paste) -> bool:
        """Whether `key` is kept for later."""
        if self._keys is None:
            return False
        if len(self._keys) < _MOST:
            self._keys.append(key)
        return True

    def drop(self) -> None:
        """Forget what was kept, because the screen that it was meant for does not open."""
        if not self._giving:
            self._keys = None

    async def release(self) -> None:
        """Pass on what was kept; keys typed meanwhile come after it."""
        if self._keys is None or self._giving:
            return
        self._giving = True
        try:
            while self._keys:
                await self._give(self._keys.pop(0))
        finally:
            self._keys, self._giving = None, False
