"""Limits how often something is drawn."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from textual.message_pump import MessagePump
from textual.timer import Timer

_SOON_S = 1.0
"""How much earlier than due something is drawn together with the rest of the screen."""


class RefreshLimiter:
    """Merges redraws that would follow each other in less than `period_s`, or `least_s` when asked for `now`."""

    def __init__(self, pump: MessagePump, draw: Callable[[], object], period_s: float, *, least_s: float = 0.0) -> None:
        self.period_s = period_s
        self._least_s = least_s
        self._pump = pump
        self._draw = draw
        self._last = self._due = float("-inf")
        self._timer: Timer | None = None

    def ask(self, *, now: bool = False) -> None:
        """Draw as soon as the shortest time since the last redraw is over."""
        due = self._last + (min(self._least_s, self.period_s) if now else self.period_s)
        wait = due - monotonic()
        if wait <= 0:
            self._go()
        elif self._timer is None or due < self._due:
            if self._timer is not None:
                self._timer.stop()
            self._due = due
            self._timer = self._pump.set_timer(wait, self._go)

    def settle(self) -> None:
        """Draw now if a redraw is due within `_SOON_S`, because the screen is being drawn anyway."""
        if self._timer is not None and self._due - monotonic() <= _SOON_S:
            self._go()

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._last = monotonic()
        self._draw()
