"""The least that a Textual program can be: one label. What it takes, every Textual program takes."""

from textual.app import App, ComposeResult
from textual.widgets import Label


class LabelApp(App[None]):
    """Shows one word."""

    def compose(self) -> ComposeResult:
        """The label."""
        yield Label("label-is-shown")


if __name__ == "__main__":
    LabelApp().run()
