"""How a session's workers start: one alone until the mesh caches are written, one after another, or all at once.

Genesis writes its mesh caches without a lock and in place (1.4.5: genesis/utils/mesh.py `open("wb")`, cache.py
`MeshCache.save`), so workers that build their scenes together on a cold cache read each other's half-written files. All
mesh caches are written when it prints `Compiling simulation kernels...`.

While the first worker builds its scene, the others may import Genesis, which takes many seconds and writes nothing.
They are held at Genesis's first line (`genesis.init`, seconds before the first mesh). Workers of a script that silences
Genesis could not be held, so they do not start before the gate is open; what can be seen from outside opens it then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.genesis.quiet_signs import QuietSigns
from gmg_tui.model import Phase, StartMode

TIMEOUT_S = 120.0
"""How long the others wait for a first worker that does not say that it builds a Genesis scene."""
LONGEST_S = 900.0
"""The same while it says so: convex decomposition of detailed meshes takes many minutes."""
LOOK_S = 1.0
"""How often a first worker that says nothing is looked at."""
STAGGER_S = 3.0

_ANNOUNCED = frozenset({Phase.CREATING, Phase.ADDING, Phase.MESHES, Phase.BUILDING})
"""Reached by Genesis' own INFO lines of a scene, after which it also says when it compiles."""
_WRITING = _ANNOUNCED | {Phase.AT_WORK, Phase.INITIALISING}
_WRITTEN = frozenset({Phase.COMPILING, Phase.VISUALIZER, Phase.RUNNING})


class Gate:
    """Decides when each worker may start, and when it may build its scene. The first to ask goes first."""

    def __init__(self, way: StartMode, signs: QuietSigns) -> None:
        self._way = way
        self._signs = signs
        self._queue: list[str] = []
        """The slots whose workers have asked, in that order."""
        self._ajar = False
        """Whether the others may start: the first worker has initialised Genesis."""
        self._open = way is not StartMode.GATED
        """Whether everybody may build scenes."""
        self._announced = False
        """Whether the first worker prints what it does."""
        self._first_pids: Callable[[], Iterable[int]] = tuple
        """Gives the PIDs of the first worker's processes."""
        self._since = 0.0
        """When the first worker began, monotonic seconds."""
        self._looking: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        """Set, and replaced, when any of this changes."""

    @property
    def is_open(self) -> bool:
        """Whether everybody may build scenes."""
        return self._open

    def enter(self, slot: str) -> str | None:
        """Ask to start the worker on `slot`. Returns what it has to wait for, in one line; None if nothing."""
        again = slot in self._queue
        first, position = self._first(slot), self._queue.index(slot)
        if self._way is StartMode.STAGGERED and position and not again:
            return f"staggered: starts {STAGGER_S * position:.0f} s after {first}"
        return None if self._may_start(slot) else self._awaited

    async def wait(self, slot: str, say: Callable[[str], None]) -> None:
        """Wait until the worker on `slot` may start, if `enter` named a reason; `say` is told when the reason changes."""
        if self._way is StartMode.STAGGERED:
            await asyncio.sleep(STAGGER_S * self._queue.index(slot))
        else:
            await self._until(lambda: self._may_start(slot), say)

    def holds(self, slot: str, phase: Phase) -> str | None:
        """What the worker on `slot` has to wait for in `phase`; None if nothing."""
        return None if phase not in _WRITING or self._may_build(slot) else self._awaited

    async def opened(self, slot: str, say: Callable[[str], None]) -> None:
        """Wait until the worker on `slot`, which is held, may continue; `say` as in `wait`."""
        await self._until(lambda: self._may_build(slot), say)

    def began(self, slot: str, pids: Callable[[], Iterable[int]]) -> None:
        """The worker on `slot` has a process; `pids` gives its processes at any later moment."""
        if self._queue[:1] == [slot]:
            self._first_pids = pids

    def heard(self, slot: str, phase: Phase) -> None:
        """The worker on `slot` has reached `phase`."""
        if self._open or self._queue[:1] != [slot]:
            return
        self._announced |= phase in _ANNOUNCED
        if phase in _WRITTEN:
            self._open_wide()
        elif phase in _WRITING and not self._ajar:
            self._ajar = True
            self._tell()

    def ended(self, slot: str) -> None:
        """The worker on `slot` has ended or is stuck: nobody waits for it."""
        if self._queue[:1] == [slot]:
            self._open_wide()

    def left(self, slot: str) -> None:
        """The user has ended the worker on `slot`, which says nothing about the caches: the next in line goes first."""
        if self._way is StartMode.GATED and slot in self._queue:
            if self._queue[0] == slot:
                self._ajar = self._announced = False
                self._first_pids, self._since = tuple, time.monotonic()
                self._signs.restart()
            self._queue.remove(slot)
            self._tell()

    def _first(self, slot: str) -> str:
        """The slot that goes first; `slot` joins the queue if it is not in it."""
        if slot not in self._queue:
            self._queue.append(slot)
        return self._queue[0]

    def _may_start(self, slot: str) -> bool:
        return self._first(slot) == slot or self._ajar or self._open

    def _may_build(self, slot: str) -> bool:
        return self._first(slot) == slot or self._open

    @property
    def _awaited(self) -> str:
        return f"for {self._queue[0]} to write the mesh caches"

    async def _until(self, may_go: Callable[[], bool], say: Callable[[str], None]) -> None:
        if self._looking is None and not self._open:
            self._since = time.monotonic()
            self._looking = asyncio.create_task(self._look())
        while not may_go():
            say(self._awaited)
            await self._news.wait()

    async def _look(self) -> None:
        """Open the gate when the first worker has written its meshes without a word, or takes too long."""
        while not self._open:
            if self._announced:
                open_now = time.monotonic() - self._since > LONGEST_S
            else:
                written = False
                with suppress(TimeoutError):  # the cache's disk may hang
                    # Not `wait_for`, which may swallow a cancellation before Python 3.12.
                    async with asyncio.timeout(TIMEOUT_S):
                        written = await in_daemon_thread(self._signs.written, tuple(self._first_pids()))
                open_now = time.monotonic() - self._since > TIMEOUT_S or (written and not self._announced)
            if open_now:
                self._open_wide()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._news.wait()

    def _open_wide(self) -> None:
        self._open = True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
