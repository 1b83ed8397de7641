"""The jobs' names: given by the file, or made from the values that vary."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gmg_tui.genesis.placeholders import as_text
from gmg_tui.model import Value

MAX_BYTES = 80
"""Of a name, which is part of file names: those have at most 255 bytes on Linux."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._=,+\x80-\U0010ffff-]+")
"""What is left is ASCII and safe, or what `_letters` has let pass."""


def of_values(values: Mapping[str, Value]) -> str:
    """`branch_counts=2,method=sde`: the values as a name that is safe in file names."""
    return ",".join(f"{name}={safe(as_text(value))}" for name, value in values.items())


def safe(text: str) -> str:
    """`text` with every run of characters that are unsafe in file names replaced by a dash, and none at the ends.

    Letters and digits of all scripts are safe where the encoding of file names has them. They are composed (NFC): some
    file systems treat two spellings of a letter as one name.
    """
    if not text.isascii():
        text = "".join(_letters(unicodedata.normalize("NFC", text)))
    return "-".join(part for part in _UNSAFE.split(text) if part)


def given(name: str) -> str | None:
    """`name` as a file gives it, its letters composed; None where it cannot be part of a file name as it is."""
    composed = unicodedata.normalize("NFC", name)
    fits = composed == safe(composed) and not composed.startswith(tuple(".-=,+")) and 0 < size(composed) <= MAX_BYTES
    return composed if fits else None


def size(name: str) -> int:
    """The bytes of a name in UTF-8."""
    return len(name.encode())


def _letters(text: str) -> Iterator[str]:
    """The characters of `text`, with a space for each beyond ASCII that is no letter, no digit and no mark on one."""
    marked = False
    for char in text:
        kind = unicodedata.category(char)[0]
        fits = char.isascii() or ((kind in "LN" or (kind == "M" and marked)) and _in_file_names(char))
        marked = fits and kind in "LMN"
        yield char if fits else " "


def _in_file_names(char: str) -> bool:
    """Whether the encoding of file names, which the locale decides, has `char`."""
    try:
        os.fsencode(char)
    except UnicodeEncodeError:
        return False
    return True


def cut(name: str, limit_bytes: int) -> str:
    """`name` in at most so many bytes of UTF-8."""
    return name.encode()[:limit_bytes].decode(errors="ignore")


class Names:
    """Gives each job a unique name, other than those already given."""

    def __init__(self, given: Iterable[str] = ()) -> None:
        self._taken = set(given)
        self._tries: Counter[str] = Counter()

    def ending(self, name: str, end: str) -> str:
        """`name` with `end`, of which the latter is kept whole, and numbered when another job has that name."""
        return self.unique(cut(name, MAX_BYTES - size(end)) + end)

    def unique(self, wanted: str) -> str:
        """`wanted`, cut when it is too long, and numbered when another job has that name."""
        wanted = cut(wanted, MAX_BYTES)
        name = wanted
        while name in self._taken:
            self._tries[wanted] += 1
            number = f"-{self._tries[wanted] + 1}"
            name = cut(wanted, MAX_BYTES - len(number)) + number
        self._taken.add(name)
        return name
