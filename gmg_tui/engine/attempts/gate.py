"""Decides when a session's workers start: one alone until the mesh caches are written, staggered, or all at once.

Genesis writes its mesh caches without a lock and in place (1.4.5: genesis/utils/mesh.py `open("wb")`, cache.py
`MeshCache.save`), so workers that build their scenes together on a cold cache read each other's half-written files. All
mesh caches are written once Genesis prints `Compiling simulation kernels...`.

Until then, one worker builds at a time; if it ends or is stuck, the next in the queue takes over. If a script silences
Genesis, the probe reports the phase.
"""

import asyncio
import time

from gmg_tui.engine.attempts.attempt import Report
from gmg_tui.engine.clock import any_of
from gmg_tui.model import Phase, StartMode

MAX_UNSEEN_WAIT_S = 120.0
"""Maximum wait for a builder that shows no sign of building: importing torch alone may take a minute."""
MAX_BUILD_WAIT_S = 900.0
"""Maximum wait for a builder: convex decomposition of detailed meshes takes many minutes."""
CHECK_INTERVAL_S = 1.0
STAGGER_S = 3.0

_BUILDING = frozenset({Phase.CREATING, Phase.BUILDING})
"""Phases in which a scene is being built."""
_CACHES_WRITTEN = frozenset({Phase.COMPILING, Phase.BUILT, Phase.RUNNING})
"""Phases in which the mesh caches are written."""


class Gate:
    """Decides when each worker may start: first come, first served.

    Attributes:
        opened: True once no worker waits for another to build.
    """

    def __init__(self, mode: StartMode) -> None:
        self._mode = mode
        self._queue: list[str] = []
        """Slots in order of arrival; while the gate is shut, the first one's worker builds."""
        self.opened = mode is not StartMode.GATED
        self._is_building = False
        """True once the builder is known to be building a scene."""
        self._turn_started = time.monotonic()
        """Start of the builder's turn, monotonic seconds."""
        self._watcher: asyncio.Task[None] | None = None
        self._change = asyncio.Event()

    async def wait(self, slot: str, report: Report) -> None:
        """Waits until the worker on `slot` may start; `report` gets the wait reason."""
        is_queued = slot in self._queue
        if not is_queued:
            self._queue.append(slot)
            if len(self._queue) == 1:
                self._turn_started = time.monotonic()
        if self._mode is StartMode.STAGGERED:
            wait_s = 0.0 if is_queued else STAGGER_S * self._queue.index(slot)
            if wait_s:
                report(f"staggered: starts {wait_s:.0f} s after {self._queue[0]}")
            await asyncio.sleep(wait_s)
            return
        while not self.opened and self._queue[0] != slot:
            if self._watcher is None:
                self._watcher = asyncio.create_task(self._watch())
            report(f"for {self._queue[0]} to write the mesh caches")
            await self._change.wait()

    def on_phase(self, slot: str, phase: Phase) -> None:
        """Handles the phase that the worker on `slot` has reached."""
        if phase in _CACHES_WRITTEN:
            self._open()
        elif self._queue[:1] == [slot]:
            self._is_building |= phase in _BUILDING

    def leave(self, slot: str, *, finished: bool = False) -> None:
        """Removes the worker on `slot`, which has ended or is stuck; if it was the builder, the next one builds.

        If it has `finished` without building a scene, the script builds none, and all may start.
        """
        if self.opened or slot not in self._queue:
            return
        is_builder, was_building = self._queue[0] == slot, self._is_building
        self._queue.remove(slot)
        if is_builder:
            self._is_building, self._turn_started = False, time.monotonic()
        if is_builder and finished and not was_building:
            self._open()
        self._notify()

    async def _watch(self) -> None:
        """Replaces a builder that takes too long, and opens the gate if a builder shows no sign of building."""
        while not self.opened:
            waited_s = time.monotonic() - self._turn_started
            if not self._is_building and waited_s > MAX_UNSEEN_WAIT_S:
                self._open()
            elif len(self._queue) > 1 and waited_s > MAX_BUILD_WAIT_S:
                self.leave(self._queue[0])
            await any_of(self._change, timeout_s=CHECK_INTERVAL_S)

    def _open(self) -> None:
        self.opened = True
        self._notify()

    def _notify(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
