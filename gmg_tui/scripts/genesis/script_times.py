"""The memory of a script's earlier starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gmg_tui.model import RunSpec, StartMode
from gmg_tui.scripts.genesis import caches
from gmg_tui.scripts.genesis.phase_times import PhaseTimes, key_of
from gmg_tui.scripts.interpreter import versions
from gmg_tui.scripts.script_imports import may_use_genesis

PHASE_TIMES = "phase_times"
"""Beside the sessions' folder: what is remembered of each script's starts."""


class ScriptTimes:
    """The memory of a session's script, in a folder of the user's state."""

    def __init__(self, spec: RunSpec, state_folder: Path, *, on_gpu: bool) -> None:
        self._folder = state_folder / PHASE_TIMES
        self._kind = "gpu" if on_gpu else "cpu"
        self._script = spec.script if spec.module else str(Path(spec.cwd, spec.script).resolve())
        installed = versions(spec.python)
        self._versions = f"{installed.genesis} {installed.compiler}"
        self._caches_exist = caches.exist({**os.environ, **spec.env}, spec.cwd)
        self._known: dict[str, PhaseTimes] = {}

    def of(self, args: Sequence[str]) -> PhaseTimes:
        """Returns the times of the script with these arguments, before placeholders are filled in; reads the disk."""
        key = key_of(self._script, args, self._kind)
        if key not in self._known:
            self._known[key] = PhaseTimes(self._folder, key, self._versions, caches_exist=self._caches_exist)
        return self._known[key]

    def save(self) -> None:
        """Write what has changed. Raises `OSError`."""
        for times in list(self._known.values()):
            times.save()

    def start_mode(self, spec: RunSpec) -> StartMode:
        """Returns the default start mode: gated if the mesh caches may be cold.

        They are warm for a script that has simulated before. Ranks of one group wait for each other as they start.
        """
        ranks = spec.ddp is not None or all(name in spec.env or name in os.environ for name in ("RANK", "WORLD_SIZE"))
        if ranks or self.of(spec.args).meshes_written or not (spec.module or may_use_genesis(Path(self._script))):
            return StartMode.TOGETHER
        return StartMode.GATED
