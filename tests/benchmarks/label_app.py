"""The least that a Textual program can be: one label. What it takes, every Textual program takes."""

from textual.app import App, ComposeResult
from textual.widgets import Label


class LabelApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Label("label-is-shown")


if __name__ == "__main__":
    LabelApp().run()
