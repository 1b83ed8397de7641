"""What screens and widgets tell the app."""

from __future__ import annotations

from textual.message import Message


class LogBehind(Message):
    """The log is followed again, and lines came meanwhile that it did not take; the app asks for the newest."""


class LogSearched(Message):
    """Another text is searched for in the log, or its lines have to hold another; the footer says what ends that."""


class NodeClicked(Message):
    """The line of a node has been clicked; the app folds the node, or unfolds it."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node


class SelectionChanged(Message):
    """Another worker has been selected in the state; the app opens its log."""


class UseArguments(Message):
    """The edit dialog of the selected worker is to open with these arguments and environment, placeholders unfilled."""

    def __init__(self, args: tuple[str, ...], env: dict[str, str]) -> None:
        super().__init__()
        self.args_given = args
        self.env_given = env
