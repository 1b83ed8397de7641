"""What of a tuning stands where on the screen, for one size. Pure functions, no widget."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Part(StrEnum):
    """What the lower part of a small screen shows."""

    CURVE = "curve"
    TRIALS = "trials"
    SLOTS = "slots"

    @property
    def following(self) -> Part:
        """The next one, in turns."""
        parts = list(Part)
        return parts[(parts.index(self) + 1) % len(parts)]


class Plan(NamedTuple):
    """Sizes in cells; a part without rows is not drawn."""

    whole: bool
    """Whether all parts are shown at once, with the answer beside the curve."""
    answer_width: int
    answer: int
    curve: int
    slots: int
    trials: int
    """With the heading and the row below."""


WHOLE_WIDTH, WHOLE_HEIGHT = 130, 30
"""Columns and rows of a terminal that all parts have room in."""
_ANSWER_WIDTH: Final = 70
_CURVE_MIN, _CURVE_MAX = 12, 24
_SLOTS_MAX: Final = 10
_PART_MIN: Final = 6
"""Rows that the lower part keeps, however long the answer is."""


def plan(width: int, height: int, slots: int, answer: int, part: Part) -> Plan:
    """The sizes in `height` rows below the head, for so many slots and an answer of so many rows."""
    if width >= WHOLE_WIDTH and height >= WHOLE_HEIGHT - 4:
        rows = min(slots, _SLOTS_MAX, height // 5)
        above = max(_CURVE_MIN, min(_CURVE_MAX, (height - rows) // 2))
        # With a blank row between the parts, and one heading for the slots.
        return Plan(True, _ANSWER_WIDTH, above, above, rows, max(0, height - above - rows - 3))
    answer = max(1, min(answer, height - max(_PART_MIN, height * 5 // 11)))
    rest = max(0, height - answer)
    sizes = {name: rest if name is part else 0 for name in Part}
    return Plan(False, width, answer, sizes[Part.CURVE], sizes[Part.SLOTS], sizes[Part.TRIALS])
