"""The help: the keys, and the manual's page on the screen; and the manual."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Markdown, MarkdownViewer

from gmg_tui.ui.dialogs import Dialog
from gmg_tui.ui.pages.page import Fact, Facts, Scroll

_GUIDE: Final = Path(__file__).parents[2] / "guide" / "screen.md"


class HelpScreen(Dialog[None]):
    """The help, opened on `screen`: on a page it begins with the keys of that page."""

    DEFAULT_CSS = """
    HelpScreen {
        & > #box { width: 100; height: 100%; }
        Markdown { padding: 0; }
        Facts { margin-bottom: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "cancel", "Close", show=False, id="help")]
    heading = "Help"

    def __init__(self, screen: Screen[Any], main: Screen[Any]) -> None:
        super().__init__()
        self._page = list(_keys(screen)) if screen is not main else []
        self._main = list(_keys(main, every=screen is not main))

    def contents(self) -> ComposeResult:
        """The keys as they are set, then what the manual says of the screen, without its list of keys."""
        with Scroll():
            if self._page:
                yield Facts([Fact("Keys of this page"), *self._page])
            yield Facts([Fact("Keys"), *self._main])
            yield Markdown(_GUIDE.read_text("utf-8").partition("\n## Keys")[0], open_links=False)


def _keys(screen: Screen[Any], *, every: bool = False) -> Iterator[Fact]:
    """The keys that work on `screen` now, or `every` one, with what they do; keys with the same action are together."""
    actions: dict[str, list[str]] = {}
    for each in screen.active_bindings.values():
        if (each.enabled or every) and each.binding.id:
            text = each.tooltip or each.binding.description
            actions.setdefault(text, []).append(screen.app.get_key_display(each.binding))
    for text, displayed in actions.items():
        yield Fact(" ".join(sorted(displayed, key=len)), text)


# The manual


class GuideApp(App[None]):
    """Shows a Markdown text."""

    BINDINGS: ClassVar = [("q,escape", "quit", "quit")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The text and the keys."""
        yield MarkdownViewer(self._text, open_links=False, show_table_of_contents=False)
        yield Footer()

    def on_mount(self) -> None:
        """Let the keys scroll the text at once."""
        self.query_one(MarkdownViewer).focus()


def show(text: str) -> None:
    """Show a text until the reader quits."""
    GuideApp(text).run()
