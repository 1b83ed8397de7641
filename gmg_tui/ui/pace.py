"""Draws at once what is new, but not more often than at an even pace."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from textual.message_pump import MessagePump
from textual.timer import Timer


class Pace:
    """Puts drawings together that would follow each other too closely.

    Args:
        pump: Whose timers are used.
        draw: Draws.
        period_s: The shortest time between two drawings, seconds.
        least_s: The shortest time between two of which the second is to be made now, seconds.
    """

    def __init__(self, pump: MessagePump, draw: Callable[[], object], period_s: float, *, least_s: float = 0.0) -> None:
        self.period_s = period_s
        self._least_s = least_s
        self._pump = pump
        self._draw = draw
        self._last = float("-inf")
        self._timer: Timer | None = None

    def ask(self, *, now: bool = False) -> None:
        """Draw: now when `now` or when the last time is long enough ago, else as soon as it is."""
        wait = self._last + (min(self._least_s, self.period_s) if now else self.period_s) - monotonic()
        if wait <= 0:
            self._go()
        elif self._timer is None or now:
            if self._timer is not None:
                self._timer.stop()
            self._timer = self._pump.set_timer(wait, self._go)

    def settle(self) -> None:
        """Draw now what waits, because the screen is being drawn anyway."""
        if self._timer is not None:
            self._go()

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._last = monotonic()
        self._draw()
