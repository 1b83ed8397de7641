"""The file: what it holds, and in which line something stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gmg_tui.errors import GmgError

MOST_BYTES = 1 << 16
"""So large may the file be; each option, key and a hundred patterns take less."""
_PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


class Source:
    """The file's text, and what it says.

    Attributes:
        path: Where it is.
        data: What it says, as tomllib has it.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.data = tomllib.loads(text)
        self._text = text
        self._lines: dict[tuple[str, ...], int] = {}

    def line(self, *keys: str) -> int:
        """The line in which a key begins, given with the tables it is in, from 1.

        Neither tomllib nor tomlkit tells the lines of keys. But a key begins where the file's first lines, read alone,
        stop being TOML without it: behind the last of them that are, before those that have it. That takes a parse for
        each line, and is done once, where something is wrong or is shown.
        """
        if not self._lines:
            lines, before = self._text.splitlines(keepends=True), 0
            for count in range(1, len(lines) + 1):
                try:
                    data = tomllib.loads("".join(lines[:count]))
                except tomllib.TOMLDecodeError:
                    continue
                for place in _places(data):
                    self._lines.setdefault(place, before + 1)
                before = count
        return self._lines.get(keys, 1)


def _places(data: Mapping[str, Any], *above: str) -> Iterator[tuple[str, ...]]:
    """All keys, with the tables they are in."""
    for key, value in data.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from _places(value, *above, key)


def load(file: Path) -> Source | None:
    """The file as it is; None where there is none.

    Raises:
        GmgError: It cannot be read, is too large or is not TOML; the text names the line.
    """
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise GmgError(f"{file}: cannot be read: {error.strerror}") from error
    if len(raw) > MOST_BYTES:
        raise GmgError(f"{file}: is larger than {MOST_BYTES >> 10} KiB; that is no file of settings")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        return Source(file, text)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise GmgError(f"{file}:{line}: is not UTF-8") from error
    except RecursionError as error:
        raise GmgError(f"{file}: is nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        line = int(found["line"]) if found and found["line"] else max(len(text.splitlines()), 1)
        said = _PLACE.sub("", str(error))
        raise GmgError(f"{file}:{line}: is not TOML: {said[:1].lower()}{said[1:]}") from error
