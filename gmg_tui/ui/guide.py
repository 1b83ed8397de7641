"""The manual on the screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.widgets import Footer, MarkdownViewer


class GuideApp(App[None]):
    """Shows a Markdown text with its table of contents."""

    BINDINGS: ClassVar = [("q,escape", "quit", "quit")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The text and the keys."""
        yield MarkdownViewer(self._text, open_links=False)
        yield Footer()

    def on_mount(self) -> None:
        """Let the keys scroll the text at once."""
        self.query_one(MarkdownViewer).focus()


def show(text: str) -> None:
    """Show a text until the reader quits."""
    GuideApp(text).run()
