"""The help, with the keys and the manual's page about the screen, and the viewer of the manual."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Markdown, MarkdownViewer

from gmg_tui.ui import keys
from gmg_tui.ui.dialogs import Dialog
from gmg_tui.ui.facts import Fact, Facts
from gmg_tui.ui.session_app import SessionApp

_GUIDE: Final = Path(__file__).parents[2] / "guide" / "screen.md"


class Scroll(VerticalScroll):
    """A scrollable container that also reacts to `j` and `k`, or to the keys that the user has set instead."""

    DEFAULT_CSS = "Scroll { height: 1fr; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", "Up", show=False, id="up"),
        Binding("j", "scroll_down", "Down", show=False, id="down"),
    ]


class HelpScreen(Dialog[None]):
    """The help: the keys of the current page, if any, those of the main screen, and the manual's page about it."""

    DEFAULT_CSS = """
    HelpScreen {
        & > #box { width: 100; height: 100%; }
        Markdown { padding: 0; }
        Facts { margin-bottom: 1; overflow-y: hidden; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "dismiss", "Close", show=False, id="help")]
    heading = "Help"

    def __init__(self, app: SessionApp) -> None:
        super().__init__()
        page = app.screen.active_bindings.items() if len(app.screen_stack) > 1 else ()
        self._page_facts = list(_key_facts(app, ((key, active.binding) for key, active in page)))
        named = ((binding, keys.action_of(binding)) for binding in keys.MAIN)
        main = [item for item, name in named if name not in keys.CHANGING_ACTIONS or not app.unavailable_reason(name)]
        self._main_facts = list(_key_facts(app, ((key, binding) for binding in main for key in keys.keys_of(binding))))

    def contents(self) -> ComposeResult:
        """Yields the keys, then the manual's page about the screen up to its own list of keys."""
        with Scroll():
            if self._page_facts:
                yield Facts([Fact("Keys of this page"), *self._page_facts])
            yield Facts([Fact("Keys"), *self._main_facts])
            yield Markdown(_GUIDE.read_text("utf-8").partition("\n## Keys")[0], open_links=False)


def _key_facts(app: SessionApp, bindings: Iterable[tuple[str, Binding]]) -> Iterator[Fact]:
    keys_by_text: dict[str, list[str]] = {}
    for key, binding in bindings:
        if binding.id:
            keys_by_text.setdefault(binding.tooltip or binding.description, []).append(key)
    for text, names in keys_by_text.items():
        yield Fact(" ".join(app.get_key_display(Binding(name, "none")) for name in names), text)


# The manual


class GuideApp(App[None]):
    """A viewer for the manual's Markdown pages; `contents` adds a table of contents."""

    CSS = "MarkdownTableOfContents { max-width: 35%; } MarkdownFence > Label { width: 1fr; }"
    BINDINGS: ClassVar = [("q,escape", "quit", "Quit")]
    AUTO_FOCUS = "MarkdownViewer"

    def __init__(self, text: str, *, contents: bool = False) -> None:
        super().__init__()
        self._text, self._contents = text, contents

    def compose(self) -> ComposeResult:
        """Yields the text and the keys."""
        yield MarkdownViewer(self._text, open_links=False, show_table_of_contents=self._contents)
        yield Footer()
