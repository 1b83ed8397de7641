"""The time that a line of output carries itself, by which the lines of several ranks are put in order."""

from __future__ import annotations

import re
from typing import Final

from gmg_tui.genesis.output.log_text import head

_CLOCK: Final = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_OWN: Final = re.compile(
    # torch's prefix of a rank, then glog's and torch's `[E1122 23:14:37.123456`, or a date and a time as Python's
    # logging writes them. A bare time must stand in brackets: `00:00:05` alone may be how long something took.
    rf"(?:\[rank\d+\]:)?\s?(?:\[?[A-Z]\d{{4,6}} |\[?\d{{4}}-\d\d-\d\d[ T]|\[){_CLOCK}"
)
_HEAD_CLOCK: Final = re.compile(_CLOCK)


def clock_s(text: str) -> float | None:
    """The time of day with which a line begins, seconds after midnight; None where it has none."""
    found = head(text)
    match = _HEAD_CLOCK.match(found.clock) if found is not None else _OWN.match(text)
    if match is None:
        return None
    hours, minutes, seconds, fraction = match.groups()
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")
