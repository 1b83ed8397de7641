"""How fast the slots of one model are, compared with each other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

_ROUNDS = 20

Key = TypeVar("Key", str, int)


def of(measured: Iterable[tuple[str, int, float]]) -> dict[str, float]:
    """The factor of each slot that measured a value which another one measured too, from (slot, value, rate).

    Each rate is taken as that of the value times the factor of the slot, and both are fitted in turns. 1 is a usual
    slot: the middle one, of two the faster, as it is the slow one that something ails.
    """
    logs = [(slot, value, math.log(rate)) for slot, value, rate in measured]
    slots_of: dict[int, set[str]] = {}
    for slot, value, _ in logs:
        slots_of.setdefault(value, set()).add(slot)
    shared = [one for one in logs if len(slots_of[one[1]]) > 1]
    found = dict.fromkeys(sorted({slot for slot, _, _ in shared}), 0.0)
    for _ in range(_ROUNDS):
        values = _means((value, log - found[slot]) for slot, value, log in shared)
        found = _means((slot, log - values[value]) for slot, value, log in shared)
    middle = sorted(found.values())[len(found) // 2] if found else 0.0
    return {slot: math.exp(log - middle) for slot, log in found.items()}


def _means(pairs: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    sums: dict[Key, list[float]] = {}
    for key, number in pairs:
        sums.setdefault(key, []).append(number)
    return {key: sum(numbers) / len(numbers) for key, numbers in sums.items()}
