"""What is remembered of a session's scripts: how long their starts took, and whether they have simulated before."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.genesis import caches
from gmg_tui.genesis.phase_times import PhaseTimes, key_of
from gmg_tui.interpreter import genesis_versions
from gmg_tui.model import RunSpec, SlotKind, StartMode

PHASE_TIMES = "phase_times"
"""Beside the sessions' folder: what is remembered of each script's starts."""


class ScriptTimes:
    """What is remembered of a session's scripts."""

    def __init__(self, kind: SlotKind, spec: RunSpec) -> None:
        self._kind = kind
        self._cwd = spec.cwd
        self._versions = genesis_versions(spec.python)
        self._caches_exist = caches.exist({**os.environ, **spec.env})
        self._known: dict[str, PhaseTimes] = {}

    def of(self, script: str, args: Sequence[str], module: bool) -> PhaseTimes:
        """What is remembered of a script with arguments, before placeholders are filled in."""
        key = key_of(script if module else str(Path(self._cwd, script).resolve()), args, self._kind)
        if key not in self._known:
            folder = sessions.sessions_folder().parent / PHASE_TIMES
            self._known[key] = PhaseTimes(folder, key, self._versions, caches_exist=self._caches_exist)
        return self._known[key]

    def save(self) -> None:
        """Write what has changed. Raises `OSError`."""
        for times in list(self._known.values()):
            times.save()

    def way(self, spec: RunSpec) -> StartMode:
        """How to start by default: gated if the mesh caches may be cold.

        They are warm for a script that has simulated before. Ranks of one group wait for each other as they start.
        """
        times = self.of(spec.script, spec.args, spec.module)
        ranks = spec.ddp is not None or all(name in spec.env or name in os.environ for name in ("RANK", "WORLD_SIZE"))
        return StartMode.TOGETHER if times.meshes_written or ranks else StartMode.GATED
