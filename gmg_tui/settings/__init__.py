"""What a user has set in `config.toml`: defaults of options, keys, the theme, and patterns of scripts.

`place` knows where the file is, `source` parses it and knows its lines, `reading` judges it, `example` writes one. What may stand in it is
handed to them (`known`): this room knows neither the commands, nor the screen, nor the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple


class Settings(NamedTuple):
    """What the file says, as far as it is right."""

    file: str
    options: Mapping[str, Mapping[str, Any]]
    """Of each command the values of its options, both as click calls them."""
    places: Mapping[tuple[str, str], tuple[str, ...]]
    """Of a command's option the table and the key that set it."""
    keys: Mapping[str, tuple[str, ...]]
    """Of an action its keys."""
    theme: str | None = None
    patterns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names or globs of scripts, each with what reads their progress lines, in the order of the file."""


def patterns_of(script: str, patterns: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    """The patterns of the first glob that fits a script's path as it is given, its file's name or its whole path."""
    names = (script, Path(script).name, str(Path(script).absolute()))
    return next((found for glob, found in patterns if any(fnmatchcase(name, glob) for name in names)), ())
