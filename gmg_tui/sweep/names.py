"""The jobs' names: given by the file, or made from the values that vary; safe in file names and unique."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

from gmg_tui.model import Value
from gmg_tui.placeholders import as_text

MAX_BYTES = 80
"""Of a name, which is part of file names: those have at most 255 bytes on Linux."""
_UNSAFE = re.compile(r"[^\w.=,+-]+")


def of_values(values: Mapping[str, Value]) -> str:
    """`branch_counts=2,method=sde`: the values as a name."""
    return ",".join(f"{name}={safe(as_text(value))}" for name, value in values.items())


def safe(text: str) -> str:
    """`text` with a dash for every run of other characters than letters and digits of any script and `._=,+-`.

    Letters are composed (NFC): some file systems treat two spellings of a letter as one name.
    """
    return "-".join(part for part in _UNSAFE.split(unicodedata.normalize("NFC", text)) if part)


def fits(name: str) -> bool:
    """Whether a file may give that name to a job."""
    return (
        unicodedata.normalize("NFC", name) == safe(name)
        and not name.startswith(tuple(".-=,+"))
        and 0 < len(name.encode()) <= MAX_BYTES
    )


def cut(name: str, limit_bytes: int) -> str:
    """`name` in at most so many bytes of UTF-8."""
    return name.encode()[:limit_bytes].decode(errors="ignore")


class Names:
    """Gives each job a unique name."""

    def __init__(self) -> None:
        self._taken = set[str]()
        self._tries: Counter[str] = Counter()

    def unique(self, wanted: str) -> str:
        """`wanted`, cut where it is too long, and numbered when another job has that name."""
        wanted = name = cut(wanted, MAX_BYTES)
        while name in self._taken:
            self._tries[wanted] += 1
            number = f"-{self._tries[wanted] + 1}"
            name = cut(wanted, MAX_BYTES - len(number)) + number
        self._taken.add(name)
        return name
