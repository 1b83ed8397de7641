"""What the screens share that fill the terminal over the main one: rows, and the keys under them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gmg_tui.ui.drawing.appearance import Appearance
from gmg_tui.ui.keys import COMMON, Key
from gmg_tui.ui.screens.dialog_base import appearance_of
from gmg_tui.ui.screens.live import LiveScreen
from gmg_tui.ui.screens.queries import poll
from gmg_tui.ui.widgets.footer import Footer
from gmg_tui.ui.widgets.row_view import RowView


class PageScreen(LiveScreen[None]):
    """A screen that is redrawn for another theme or size, and left with `esc`."""

    DEFAULT_CSS = """
    PageScreen {
        layout: vertical;
        overflow: hidden;
        & > RowView { height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "app.quit_session", "quit", show=False)]

    ACTING: ClassVar[Sequence[Key]] = ()
    """Keys of the main table that act on what is shown; they come first in the footer."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.appearance = appearance
        self.rows = RowView()
        """All that is drawn above the keys."""
        self.footer = Footer(appearance, self.shown_keys(), {"back", "detach", "help"})
        self._said = ""
        """The outcome of the last key."""
        self._failure = ""
        """Why what is shown may be out of date."""

    def shown_keys(self) -> list[Key]:
        """The keys of the footer."""
        return [*self.ACTING, *(key for key in self.KEYS if key.footer), *COMMON]

    def compose(self) -> ComposeResult:
        """The rows, then the keys."""
        yield self.rows
        yield self.footer

    def on_mount(self) -> None:
        """Follow the theme."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._wear())

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.show_state)

    def on_screen_resume(self) -> None:
        """Catch up with what happened under another screen."""
        self.call_after_refresh(self.show_state)

    def draw(self) -> None:
        """Draw all of it."""
        raise NotImplementedError

    def show_state(self) -> None:
        """Draw what the state says now."""
        self.draw()

    async def ask(self) -> None:
        """Ask the engine for what snapshots do not have, and draw it. Raises `GmgError` when it does not answer."""
        raise NotImplementedError

    def keep_asking(self) -> None:
        """Ask now, and again every few seconds."""
        self.run_worker(poll(self.ask, self._fail), group="asking", exclusive=True)

    def _say(self, text: str) -> None:
        self._said = text
        self.draw()

    def tell(self, text: str) -> None:
        """Show why a key did nothing."""
        self._say(text)

    def _fail(self, text: str) -> None:
        self._failure = text
        self.draw()

    def _wear(self) -> None:
        self.appearance = self.footer.appearance = appearance_of(self.app)
        self.footer.draw()
        self.draw()

    def action_back(self) -> None:
        """Return to the screen before."""
        self.dismiss(None)
