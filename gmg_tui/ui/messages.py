"""What pages ask of the app."""

from __future__ import annotations

from textual.message import Message


class SelectionChanged(Message):
    """Another worker has been selected in the view; the app opens its log."""


class UseArguments(Message):
    """The edit dialog of the selected worker is to open with these arguments and environment, placeholders unfilled."""

    def __init__(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        super().__init__()
        self.args_given = args
        self.env_given = env
