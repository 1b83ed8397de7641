"""When the workers of each node may start: where nodes share a cold mesh cache, one node after another node's gate.

The gate of an agent holds the workers of its own node (`engine.attempts.gate`); nodes with a cache on a shared disk would
race as the workers of one node do. And an interpreter on a shared disk is not imported by all nodes at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from gmg_tui.engine.nodes.messages import Ready

_AT_ONCE = 8
"""So many nodes with one cache import at once …"""
_PAUSE_S = 2.0
"""… and as many more after this time."""
_LONGEST_S = 900.0
"""How long the first node is waited for at most: as long as a gate is closed."""


class Turn(Protocol):
    """A node, as far as its turn is concerned."""

    ready: Ready
    gate_opened: asyncio.Event
    lost_since: float | None


class Turns:
    """The nodes in their order; `begin` is called once when all are known."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, Turn]] = {}
        """For each node the one that goes first, of those that share its cache."""
        self._pauses_s: dict[str, float] = {}
        self._done: set[str] = set()

    def begin(self, nodes: Mapping[str, Turn]) -> None:
        """These are the nodes."""
        by_cache: dict[str, list[str]] = {}
        for name, node in nodes.items():
            sharers = by_cache.setdefault(node.ready.cache, [])
            self._pauses_s[name] = len(sharers) // _AT_ONCE * _PAUSE_S
            sharers.append(name)
            self._first[name] = (sharers[0], nodes[sharers[0]])

    async def wait(self, name: str, say: Callable[[str], None]) -> None:
        """Wait until the workers of a node may start; `say` is told what for."""
        first, turn = self._first[name]
        if name in self._done:
            return
        if first != name and not turn.gate_opened.is_set() and turn.lost_since is None:
            say(f"for {first} to write the mesh caches, which {name} shares")
            try:
                async with asyncio.timeout(_LONGEST_S):
                    await turn.gate_opened.wait()
            except TimeoutError:
                say(f"for {name}")
        await asyncio.sleep(self._pauses_s[name])
        self._done.add(name)
