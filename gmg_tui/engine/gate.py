"""The start of a session's workers: one alone until the mesh caches are written, one after another, or all at once.

Genesis writes its mesh caches without a lock and in place (1.4.5: genesis/utils/mesh.py `open("wb")`, cache.py
`MeshCache.save`), so workers that build their scenes together on a cold cache read each other's half-written files. All
mesh caches are written when it prints `Compiling simulation kernels...`.

Workers may import Genesis, which takes many seconds and writes nothing, while the first one builds its scene. They are
held at the first line that Genesis prints (`genesis.init`, seconds before the first mesh). A script that has Genesis
print nothing could not be held: its other workers do not start before the gate is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gmg_tui.model import Phase, StartWay

TIMEOUT_S = 120.0
"""How long the first worker may keep the others waiting without a sign that it builds a Genesis scene."""
LONGEST_S = 900.0
"""How long it may while it builds one: convex decompositions of detailed meshes take many minutes."""
STAGGER_S = 3.0

_WRITING = frozenset({Phase.INITIALISING, Phase.CREATING, Phase.ADDING, Phase.MESHES, Phase.BUILDING})
_WRITTEN = frozenset({Phase.COMPILING, Phase.VISUALIZER, Phase.RUNNING})


class Gate:
    """Says of each worker when it may start, and when it may build its scene. The first that asks goes first.

    Args:
        way: How to start.
    """

    def __init__(self, way: StartWay) -> None:
        self._way = way
        self._line: list[str] = []
        """The slots whose workers have asked, in that order."""
        self._ajar = False
        """Whether the others may start: the first worker has begun with Genesis."""
        self._open = way is not StartWay.GATED
        """Whether everybody may build scenes."""
        self._news = asyncio.Event()
        """Set when any of this changes; another one takes its place then."""

    def enter(self, slot: str) -> str | None:
        """The worker on `slot` would start. What it has to wait for, in one line; None when for nothing."""
        again = slot in self._line
        first, place = self._first(slot), self._line.index(slot)
        if self._way is StartWay.STAGGERED and place and not again:
            return f"staggered: starts {STAGGER_S * place:.0f} s after {first}"
        return None if self._may_start(slot) else self._awaited

    async def wait(self, slot: str, say: Callable[[str], None]) -> None:
        """Wait until the worker on `slot` may start; to be called where `enter` named something.

        Args:
            slot: Whose.
            say: Told what is waited for, in one line, when that changes.
        """
        if self._way is StartWay.STAGGERED:
            await asyncio.sleep(STAGGER_S * self._line.index(slot))
        else:
            await self._until(lambda: self._may_start(slot), TIMEOUT_S, say)

    def holds(self, slot: str, phase: Phase) -> str | None:
        """What the worker on `slot`, which has come to `phase`, has to wait for before it goes on; None for nothing."""
        return None if phase not in _WRITING or self._may_build(slot) else self._awaited

    async def opened(self, slot: str, say: Callable[[str], None]) -> None:
        """Wait until the worker on `slot`, which is held, may go on; `say` as in `wait`."""
        await self._until(lambda: self._may_build(slot), LONGEST_S, say)

    def heard(self, slot: str, phase: Phase) -> None:
        """The worker on `slot` has come to `phase`."""
        if self._open or self._line[:1] != [slot]:
            return
        if phase in _WRITTEN:
            self._open_wide()
        elif phase in _WRITING and not self._ajar:
            self._ajar = True
            self._tell()

    def ended(self, slot: str) -> None:
        """The worker on `slot` has ended by itself, or does nothing any more: nobody waits for it."""
        if self._line[:1] == [slot]:
            self._open_wide()

    def left(self, slot: str) -> None:
        """A person has ended the worker on `slot`, which says nothing about the caches: the next one is the first."""
        if self._way is StartWay.GATED and slot in self._line:
            self._ajar = self._ajar and self._line[0] != slot
            self._line.remove(slot)
            self._tell()

    def _first(self, slot: str) -> str:
        """The slot that goes first, now that `slot` has asked."""
        if slot not in self._line:
            self._line.append(slot)
        return self._line[0]

    def _may_start(self, slot: str) -> bool:
        return self._first(slot) == slot or self._ajar or self._open

    def _may_build(self, slot: str) -> bool:
        return self._first(slot) == slot or self._open

    @property
    def _awaited(self) -> str:
        return f"for {self._line[0]} to write the mesh caches"

    async def _until(self, may_go: Callable[[], bool], timeout_s: float, say: Callable[[str], None]) -> None:
        """Wait until `may_go`; when that takes too long, everybody goes."""
        try:
            async with asyncio.timeout(timeout_s):
                while not may_go():
                    say(self._awaited)
                    await self._news.wait()
        except TimeoutError:
            self._open_wide()

    def _open_wide(self) -> None:
        self._open = True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
