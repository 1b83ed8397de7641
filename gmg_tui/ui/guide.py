"""The manual on the screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.widgets import Footer, MarkdownViewer

_WIDE = 132
"""Columns that the widest commands need beside the table of contents."""


class GuideApp(App[None]):
    """Shows a Markdown text, on a wide terminal with its table of contents."""

    BINDINGS: ClassVar = [("t", "contents", "table of contents"), ("q,escape", "quit", "quit")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The text and the keys."""
        yield MarkdownViewer(self._text, open_links=False, show_table_of_contents=self.size.width >= _WIDE)
        yield Footer()

    def on_mount(self) -> None:
        """Let the keys scroll the text at once."""
        self.query_one(MarkdownViewer).focus()

    def action_contents(self) -> None:
        """Show or hide the table of contents."""
        viewer = self.query_one(MarkdownViewer)
        viewer.show_table_of_contents = not viewer.show_table_of_contents


def show(text: str) -> None:
    """Show a text until the reader quits."""
    GuideApp(text).run()
