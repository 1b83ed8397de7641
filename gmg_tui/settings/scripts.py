"""Which script a setting is for."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path


def patterns_of(script: str, patterns: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    """The patterns of the first glob that fits a script's path as it is given, its file's name or its whole path."""
    names = (script, Path(script).name, str(Path(script).absolute()))
    return next((found for glob, found in patterns if any(fnmatchcase(name, glob) for name in names)), ())
