"""The input line of the filter of the workers."""

from __future__ import annotations

from collections.abc import Callable

from gmg_tui.ui.widgets.log_bars import LogBar
from gmg_tui.ui.widgets.log_view import LogView

HINT = "words that all must hold, as gpu1 failed, state:running, job:…, group:…, reason:…, slot:gpu1*"


class SlotBar(LogBar):
    """Leaves only those workers that hold all words, while one types."""

    def __init__(self, log: LogView, text: str, use: Callable[[str], None]) -> None:
        super().__init__(log, text, HINT)
        self._use = use

    def use(self, text: str) -> None:
        """Show only those that hold the words."""
        self._use(text)
