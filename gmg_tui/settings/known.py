"""What may stand in the file, as those who know the commands, the keys and the themes say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class Option(NamedTuple):
    """An option of a command that can have another default."""

    param: str
    """What click calls it."""
    help: str
    """What it does, in one line."""
    example: Any
    """Its default, or where it has none a value that it might have."""
    check: Callable[[object], str]
    """What is wrong with a value, to follow its name and "="; empty if nothing is."""
    many: bool = False
    """Whether its value is a list, of which one alone may be written without brackets."""


class KeyAction(NamedTuple):
    """What keys do, of which there may be others."""

    keys: tuple[str, ...]
    """The built-in ones."""
    help: str


class Known(NamedTuple):
    """All that may stand in the file."""

    options: Mapping[str, Mapping[str, Option]]
    """Of each command its options, by the names without dashes before."""
    refused: Callable[[str], str]
    """Why an option, whichever command's, cannot stand in the file; empty where it can or is unknown."""
    keys: Callable[[], Mapping[str, KeyAction]]
    wrong_keys: Callable[[Mapping[str, tuple[str, ...]]], Iterable[tuple[str, str]]]
    """What is wrong with other keys of actions: the action, and why."""
    themes: Callable[[], tuple[str, ...]]
    check_pattern: Callable[[tuple[str, ...], str], object]
    """Raises `GmgError`, whose text begins with the second argument, for patterns that cannot be used."""
