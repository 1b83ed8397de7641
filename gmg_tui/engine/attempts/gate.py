"""How a session's workers start: one alone until the mesh caches are written, one after another, or all at once.

Genesis writes its mesh caches without a lock and in place (1.4.5: genesis/utils/mesh.py `open("wb")`, cache.py
`MeshCache.save`), so workers that build their scenes together on a cold cache read each other's half-written files. All
mesh caches are written when it prints `Compiling simulation kernels...`.

The others do not start before that. Of a script that silences Genesis, the probe sees it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from gmg_tui.model import Phase, StartMode

PLAIN_S = 10.0
"""How long the others wait for a first worker that is seen not to import Genesis."""
TIMEOUT_S = 120.0
"""The same for a worker without visible phases."""
LONGEST_S = 900.0
"""The same while it builds a scene: convex decomposition of detailed meshes takes many minutes."""
CHECK_S = 1.0
"""How often the first worker is checked."""
STAGGER_S = 3.0

_ANNOUNCED = frozenset({Phase.CREATING, Phase.BUILDING})
"""Of a scene, whose end is seen too."""
_WRITTEN = frozenset({Phase.COMPILING, Phase.BUILT, Phase.RUNNING})


class Gate:
    """Decides when each worker may start. The first to ask goes first."""

    def __init__(self, way: StartMode) -> None:
        self._way = way
        self._queue: list[str] = []
        """The slots whose workers have asked, in that order."""
        self._open = way is not StartMode.GATED
        """Whether everybody may start."""
        self._announced = False
        """Whether the first worker is seen to build a scene."""
        self._may_build: Callable[[], bool] = lambda: True
        """Whether the first worker may use Genesis, as far as that is seen."""
        self._since = 0.0
        """When the first worker began, monotonic seconds."""
        self._watching: asyncio.Task[None] | None = None
        self._change = asyncio.Event()
        """Set, and replaced, when any of this changes."""

    async def wait(self, slot: str, report: Callable[[str | None], None]) -> None:
        """Wait until the worker on `slot` may start; `report` is called with what it waits for."""
        again = slot in self._queue
        if not again:
            self._queue.append(slot)
        if self._way is StartMode.STAGGERED:
            wait_s = 0.0 if again else STAGGER_S * self._queue.index(slot)
            if wait_s:
                report(f"staggered: starts {wait_s:.0f} s after {self._queue[0]}")
            await asyncio.sleep(wait_s)
            return
        while not self._open and self._queue[0] != slot:
            if self._watching is None:
                self._since = time.monotonic()
                self._watching = asyncio.create_task(self._watch())
            report(f"for {self._queue[0]} to write the mesh caches")
            await self._change.wait()

    def began(self, slot: str, may_build: Callable[[], bool]) -> None:
        """The worker on `slot` has a process; `may_build` is whether that may use Genesis, as far as that is visible."""
        if self._queue[:1] == [slot]:
            self._may_build = may_build

    def reached(self, slot: str, phase: Phase) -> None:
        """The worker on `slot` has reached `phase`."""
        if self._open or self._queue[:1] != [slot]:
            return
        self._announced |= phase in _ANNOUNCED
        if phase in _WRITTEN:
            self._open_wide()

    def ended(self, slot: str) -> None:
        """The worker on `slot` has ended or is stuck: nobody waits for it."""
        if self._queue[:1] == [slot]:
            self._open_wide()

    def left(self, slot: str) -> None:
        """The user has ended the worker on `slot`, which does not affect the caches: the next in line goes first."""
        if self._way is StartMode.GATED and slot in self._queue:
            if self._queue[0] == slot:
                self._announced = False
                self._may_build, self._since = lambda: True, time.monotonic()
            self._queue.remove(slot)
            self._changed()

    async def _watch(self) -> None:
        """Open the gate when the first worker takes too long."""
        while not self._open:
            longest_s = LONGEST_S if self._announced else TIMEOUT_S if self._may_build() else PLAIN_S
            if time.monotonic() - self._since > longest_s:
                self._open_wide()
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await self._change.wait()

    def _open_wide(self) -> None:
        self._open = True
        self._changed()

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
