"""What the app may ask of the screen on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from gmg_tui.ui.keys import KEYS, Key
from gmg_tui.ui.terminal.true_size import TrueSizeScreen

Result = TypeVar("Result")


class LiveScreen(TrueSizeScreen[Result]):
    """A screen that follows the session."""

    KEYS: ClassVar[Sequence[Key]] = KEYS
    """Its own keys, at which the help opens."""
    TAKES: ClassVar[frozenset[str] | None] = None
    """Actions of the main screen's keys that may run here too; None for all."""

    def show_state(self) -> None:
        """Draw what the state says now."""
        raise NotImplementedError
