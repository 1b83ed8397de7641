"""Keys that wait for the screen that they are meant for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.events import Key

_MOST = 512
"""More are not kept: nobody types so far ahead."""


class HeldKeys:
    """Keeps keys while a screen is being opened, and gives them to it in their order.

    A slow line delivers several keys in one piece: `e`, then the arguments that are typed into the dialog that it
    opens. Without this they would be the main screen's, where an `x` stops a worker.

    Args:
        give: Hands a key on as if it had been typed now.
    """

    def __init__(self, give: Callable[[Key], Awaitable[None]]) -> None:
        self._give = give
        self._keys: list[Key] | None = None
        self._giving = False

    def hold(self) -> None:
        """Keep the keys from now on."""
        if self._keys is None:
            self._keys = []

    def keep(self, key: Key) -> bool:
        """Whether `key` is kept for later."""
        if self._keys is None:
            return False
        if len(self._keys) < _MOST:
            self._keys.append(key)
        return True

    async def release(self) -> None:
        """Give what was kept; keys that are typed meanwhile come after it."""
        if self._keys is None or self._giving:
            return
        self._giving = True
        try:
            while self._keys:
                await self._give(self._keys.pop(0))
        finally:
            self._keys, self._giving = None, False
