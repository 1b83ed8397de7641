"""Nodes that share a mesh cache write it one after another."""

from __future__ import annotations

import asyncio

from gmg_tui.engine.nodes.messages import Ready
from gmg_tui.engine.nodes.turns import Turns


class Node:
    """As much of a node as has a turn."""

    def __init__(self, cache: str) -> None:
        self.ready = Ready("id", 0, (), "", cache, 0.0)
        self.gate_opened = asyncio.Event()
        self.lost_since: float | None = None


async def test_the_second_node_of_a_cache_waits_for_the_first_and_others_do_not() -> None:
    nodes = {"a": Node("one"), "b": Node("one"), "c": Node("another")}
    turns, said = Turns(), list[str]()
    turns.begin(nodes)
    await turns.wait("a", said.append)
    await turns.wait("c", said.append)
    waiting = asyncio.create_task(turns.wait("b", said.append))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert said == ["for a to write the mesh caches, which b shares"]
    nodes["a"].gate_opened.set()
    await waiting
    await turns.wait("b", said.append)  # once is enough
    assert len(said) == 1
