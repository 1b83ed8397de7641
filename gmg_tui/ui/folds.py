"""The nodes of a session on several machines: which are folded, and what is drawn below the line of each. This module knows no Textual."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gmg_tui.model import Slot

MANY = 64
"""Slots of a session from which more are folded at the start."""


class Part(NamedTuple):
    """Slots that are drawn one after the other, below their node's line where there is one."""

    node: str
    """Whose line stands above them, or in their place; empty where none does."""
    folded: bool
    slots: tuple[str, ...]


class Band(NamedTuple):
    """What is drawn side by side: a row of the table, tiles, or a node's line."""

    slots: tuple[str, ...]
    """On a folded node's line all that it stands for; on another node's line none, as nothing there can be selected."""
    node: str = ""
    """The node whose line it is; empty where it has slots themselves."""

    @property
    def folded(self) -> bool:
        """Whether it stands for the slots of a folded node."""
        return bool(self.node and self.slots)


def bands(parts: Iterable[Part], columns: int) -> tuple[Band, ...]:
    """What is drawn from the top, with so many slots side by side at most."""
    found: list[Band] = []
    for part in parts:
        if part.node:
            found.append(Band(part.slots if part.folded else (), part.node))
        if not part.folded:
            found += [Band(part.slots[at : at + columns]) for at in range(0, len(part.slots), columns)]
    return tuple(found)


class Folds:
    """Which nodes are folded. A session of one node has none that could be.

    Attributes:
        slots: The slots of each node, in their own order; empty in a session of one machine.
        version: Another number after each change.
    """

    def __init__(self, slots: Sequence[Slot]) -> None:
        nodes: dict[str, list[str]] = {}
        for slot in slots:
            nodes.setdefault(slot.node, []).append(slot.name)
        several = len(nodes) > 1
        self.slots: Mapping[str, tuple[str, ...]] = (
            {node: tuple(names) for node, names in nodes.items()} if several else {}
        )
        self.version = 0
        self._node_of = {name: node for node, names in self.slots.items() for name in names}
        self._at_first = len(slots) > MANY
        self._folded = set(self.slots) if self._at_first else set[str]()

    def node_of(self, slot: str) -> str:
        """The node of a slot; empty in a session of one machine."""
        return self._node_of.get(slot, "")

    def holds(self, slot: str) -> bool:
        """Whether a slot is behind the line of a folded node."""
        return self.node_of(slot) in self._folded

    def fold(self, *nodes: str, folded: bool = True) -> None:
        """Fold nodes, or unfold them."""
        self._folded = self._folded | set(nodes) if folded else self._folded - set(nodes)
        self.version += 1

    @property
    def all_folded(self) -> bool:
        """Whether no node is left to be folded."""
        return len(self._folded) == len(self.slots)

    @property
    def chosen(self) -> dict[str, bool]:
        """The nodes that are not as they were at the start, each with whether it is folded."""
        return {node: not self._at_first for node in self.slots if (node in self._folded) is not self._at_first}

    def choose(self, folds: Mapping[str, bool]) -> None:
        """Fold and unfold as was `chosen` before."""
        for folded in (True, False):
            self.fold(*(node for node, one in folds.items() if one is folded and node in self.slots), folded=folded)

    def parts(self, slots: Sequence[str], *, headed: bool) -> tuple[Part, ...]:
        """What `slots` are drawn as, in their order.

        With `headed` the slots of a node stand together below its line. Without, only a folded node has a line, where the
        first of its slots would be: a sorting by a figure is one over all nodes.
        """
        if not self.slots:
            return (Part("", folded=False, slots=tuple(slots)),) if slots else ()
        found: list[tuple[str, list[str]]] = []
        of_node: dict[str, list[str]] = {}
        for slot in slots:
            node = self._node_of[slot]
            if headed or node in self._folded:
                if node not in of_node:
                    of_node[node] = []
                    found.append((node, of_node[node]))
                of_node[node].append(slot)
            elif found and not found[-1][0]:
                found[-1][1].append(slot)
            else:
                found.append(("", [slot]))
        return tuple(Part(node, node in self._folded, tuple(names)) for node, names in found)
