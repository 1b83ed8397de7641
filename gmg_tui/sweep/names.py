"""The jobs' names: those that the file gives, and those that are made of the values that vary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from gmg_tui.genesis.placeholders import as_text
from gmg_tui.model import Value

MAX_NAME = 80
"""Characters; a name is a part of files' names."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._=,+-]+")


def of_values(values: Mapping[str, Value]) -> str:
    """`branch_counts=2,method=sde`: the values as a name that a file may have."""
    return ",".join(f"{name}={safe(as_text(value))}" for name, value in values.items())


def safe(text: str) -> str:
    """`text` with a dash in the place of whatever is no sign for a file's name; none at the ends."""
    return "-".join(part for part in _UNSAFE.split(text) if part)


class Names:
    """Gives each job a name that no other has.

    Args:
        given: Names that are spoken for.
    """

    def __init__(self, given: Iterable[str] = ()) -> None:
        self._taken = set(given)
        self._tries: Counter[str] = Counter()

    def unlike_others(self, wish: str) -> str:
        """`wish`, or its beginning when it is long; with a number after it when another job has that name."""
        wish = wish[:MAX_NAME]
        name = wish
        while name in self._taken:
            self._tries[wish] += 1
            number = f"-{self._tries[wish] + 1}"
            name = wish[: MAX_NAME - len(number)] + number
        self._taken.add(name)
        return name
