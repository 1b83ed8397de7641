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

_ANY = ("with any arguments",)
_HEALS = (0, 3, 12)


def _numbers(version: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (version or "").split(".") if part.isdecimal())


class ScriptTimes:
    """The memory of a session's script, in a folder of the user's state."""

    def __init__(self, spec: RunSpec, state_folder: Path, *, on_gpu: bool) -> None:
        self._folder = state_folder / PHASE_TIMES
        self._kind = "gpu" if on_gpu else "cpu"
        self._script = spec.script if spec.module else str(Path(spec.cwd, spec.script).resolve())
        installed = versions(spec.python)
        self._versions = f"{installed.genesis} {installed.compiler}"
        self._environ, self._cwd = {**os.environ, **spec.env}, spec.cwd
        self._caches_exist = caches.exist(self._environ, self._cwd)
        self._known: dict[str, PhaseTimes] = {}
        self._heals = _numbers(installed.genesis) >= _HEALS
        self._meshes = caches.mesh_count(self._environ, self._cwd)
        self._own, self._any = self.of(spec.args), self.of(_ANY)
        self._new = not self._own.meshes_written
        """True until a worker has built a scene with these arguments for the first time."""

    def of(self, args: Sequence[str]) -> PhaseTimes:
        """Returns the times of the script with these arguments, before placeholders are filled in; reads the disk."""
        key = key_of(self._script, args, self._kind)
        if key not in self._known:
            self._known[key] = PhaseTimes(self._folder, key, self._versions, caches_exist=self._caches_exist)
        return self._known[key]

    def save(self) -> None:
        """Write what has changed. Raises `OSError`."""
        if self._new and self._own.meshes_written:
            self._new, had_all = False, self._any.meshes_written and self._any.meshes <= self._meshes
            self._any.meshes = caches.mesh_count(self._environ, self._cwd)
            self._any.meshes_vary |= had_all and self._any.meshes > self._meshes
            self._any.meshes_written = True
        for times in list(self._known.values()):
            times.save()

    @property
    def _has_meshes(self) -> bool:
        """True if the meshes of earlier runs are there, and none with other arguments needed more.

        If these arguments do, workers race: Genesis reads around that since version `_HEALS`.
        """
        known = self._any.meshes_written and not self._any.meshes_vary
        return known and self._heals and 0 < self._any.meshes <= self._meshes

    def start_mode(self, spec: RunSpec) -> StartMode:
        """Returns the default start mode: gated if the mesh caches may be cold.

        They are warm for a script that has simulated before: with these arguments or, as long as no arguments were seen to
        make other meshes, with any. Ranks of one group wait for each other as they start.
        """
        ranks = spec.ddp is not None or all(name in spec.env or name in os.environ for name in ("RANK", "WORLD_SIZE"))
        if (
            ranks
            or self._own.meshes_written
            or self._has_meshes
            or not (spec.module or may_use_genesis(Path(self._script)))
        ):
            return StartMode.TOGETHER
        return StartMode.GATED
