"""Whether a script uses Genesis, judging by its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_WORDS = re.compile(rb"genesis|taichi", re.IGNORECASE)
_IMPORT = re.compile(rb"^[ \t\f]*+(?:from|import)[ \t\f]++\.*+([A-Za-z_][\w.]*)", re.MULTILINE)
_MAX_FILES = 100
_MAX_BYTES = 1 << 20


def may_use_genesis(script: Path) -> bool:
    """Whether `script`, or a file beside it that it imports, names Genesis.

    If not, it does not write Genesis's caches, unless a package does that for it without a trace in the script's files.
    """
    folder = script if script.is_dir() else script.parent
    ahead, seen = [script / "__main__.py" if script.is_dir() else script], set[Path]()
    while ahead:
        path = ahead.pop()
        if path in seen:
            continue
        seen.add(path)
        if len(seen) > _MAX_FILES:
            return True
        try:
            with path.open("rb") as file:
                text = file.read(_MAX_BYTES)
        except OSError:
            return True
        if len(text) == _MAX_BYTES or _WORDS.search(text):
            return True
        ahead += _imported(text, folder)
    return False


def _imported(text: bytes, folder: Path) -> Iterator[Path]:
    """The files in `folder` that a text imports."""
    for match in _IMPORT.finditer(text):
        top = folder / match[1].decode("ascii", "replace").split(".")[0]
        if top.with_suffix(".py").is_file():
            yield top.with_suffix(".py")
        elif top.is_dir():
            yield from sorted(top.rglob("*.py"))
