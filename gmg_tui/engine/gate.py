"""The start of a session's workers: one alone until the mesh caches are written, one after another, or all at once.

Genesis writes its mesh caches without a lock and in place (1.4.5: genesis/utils/mesh.py `open("wb")`, cache.py
`MeshCache.save`), so workers that start together on a cold cache read each other's half-written files. All mesh caches
are written when it prints `Compiling simulation kernels...`.
"""

from __future__ import annotations

import asyncio

from gmg_tui.model import Phase, StartWay

TIMEOUT_S = 120.0
"""How long the first worker may keep the others waiting."""
STAGGER_S = 3.0

_WRITTEN = frozenset({Phase.COMPILING, Phase.VISUALIZER, Phase.RUNNING, Phase.SAVING})


class Gate:
    """Says of each worker when it may start.

    Args:
        way: How to start.
        first: The slot of the worker that goes first.
    """

    def __init__(self, way: StartWay, first: str) -> None:
        self._way = way
        self._first = first
        self._open = asyncio.Event()
        if way is not StartWay.GATED:
            self._open.set()

    def reason(self, index: int) -> str | None:
        """What the worker with this number waits for, in one line; None when it may start."""
        if self._way is StartWay.STAGGERED and index:
            return f"staggered: starts {STAGGER_S * index:.0f} s after {self._first}"
        if self._open.is_set() or index == 0:
            return None
        return f"for {self._first} to write the mesh caches (at most {TIMEOUT_S:.0f} s)"

    async def wait(self, index: int) -> None:
        """Wait until the worker with this number may start."""
        if self._way is StartWay.STAGGERED:
            await asyncio.sleep(STAGGER_S * index)
        elif index:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await self._open.wait()
            except TimeoutError:
                self._open.set()

    def heard(self, slot: str, phase: Phase, *, ended: bool) -> None:
        """The worker on `slot` has come to `phase`, or its attempt has ended."""
        if slot == self._first and (ended or phase in _WRITTEN):
            self._open.set()
