"""The history of a script's starts: whether its caches are warm, and how long each phase took.

A run saves its kernels when it ends in order, and its meshes before its first step. Cold and warm starts differ by
minutes, so their times are kept apart.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct

from gmg_tui.machine.files import reading, write_atomic
from gmg_tui.model import Phase, RunSpec, StartMode
from gmg_tui.scripts.genesis import caches
from gmg_tui.scripts.interpreter import version_numbers, versions

PHASE_TIMES = "phase_times"
"""The folder with a file for each script and its arguments, beside the sessions' folder."""
MAX_FILES = 200
"""Of more files, the oldest are removed."""
_MAX_BYTES = 1 << 16
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d_,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_SEED = re.compile(r"seed(?:$|=)", re.IGNORECASE)
"""`--seed 1`, `--seed=1`, hydra's `env.seed=1`."""
_ANY_ARGUMENTS = ("with any arguments",)
_RACE_PROOF = (0, 3, 12)
"""The first version of Genesis that tolerates races for the mesh cache."""

_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_INDIRECT = frozenset({"importlib", "multiprocessing", "runpy", "subprocess"})
"""Modules of the standard library that run code without a visible import."""
_MAX_MODULES, _MAX_SOURCE_BYTES = 64, 1 << 20


def key_of(script: str, args: Sequence[str], kind: str) -> str:
    """Returns the key of a script: its path or module, its arguments without their numbers, and the slots' kind.

    One warm cache serves every n_envs (Genesis 1.4.5, ndarray mode), and learning rates compile nothing. The number of a
    seed stays: each seed has its own kernels (Genesis 1.4.5: `qd.init(random_seed=…)` is part of a kernel's key).
    """
    words = [
        arg if _SEED.search(arg) or _SEED.search(before) else _NUMBER.sub("#", arg)
        for before, arg in pairwise(["", *args])
    ]
    return " ".join([script, *words, "on", kind])


class PhaseTimes(Struct):
    """The history of a script with one set of arguments, as its file has it."""

    key: str
    versions: str
    """The versions of Genesis and its compiler; others compile everything again."""
    meshes_written: bool = False
    """True once a run has got past preparing its meshes."""
    kernels_saved: bool = False
    """True once a run has simulated and ended in order."""
    meshes: int = 0
    """Files in the mesh cache when it was last written."""
    meshes_vary: bool = False
    """True if other arguments have made other meshes."""
    cold: dict[str, float] = {}
    warm: dict[str, float] = {}

    def usual(self, phase: Phase, *, warm: bool) -> float | None:
        """Returns the seconds that `phase` took in the last cold or warm start; None if unknown."""
        return (self.warm if warm else self.cold).get(phase.value)

    def record(self, times: Mapping[Phase, float], *, warm: bool) -> None:
        """Records the seconds of an attempt's phases."""
        seconds = {phase.value: time for phase, time in times.items() if phase is not Phase.RUNNING}
        (self.warm if warm else self.cold).update(seconds)


class ScriptTimes:
    """The histories of a session's script by its arguments, kept in a folder of the user's state."""

    def __init__(self, spec: RunSpec, state_folder: Path, *, on_gpu: bool) -> None:
        self._folder = state_folder / PHASE_TIMES
        self._kind = "gpu" if on_gpu else "cpu"
        self._script = spec.script if spec.module else str(Path(spec.cwd, spec.script).resolve())
        installed = versions(spec.python)
        self._versions = f"{installed.genesis} {installed.compiler}"
        self._is_race_proof = version_numbers(installed.genesis) >= _RACE_PROOF
        self._environ, self._cwd = {**os.environ, **spec.env}, spec.cwd
        self._caches_exist = caches.exist(self._environ, self._cwd)
        self._meshes = caches.mesh_count(self._environ, self._cwd)
        self._known: dict[Path, PhaseTimes] = {}
        self._written: dict[Path, bytes] = {}
        self._own, self._any = self.of(spec.args), self.of(_ANY_ARGUMENTS)
        self._is_first = not self._own.meshes_written
        """True until a worker has built a scene with these arguments for the first time."""

    def of(self, args: Sequence[str]) -> PhaseTimes:
        """Returns the history of the script with these arguments, before placeholders are filled in. Reads the disk."""
        key = key_of(self._script, args, self._kind)
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        if path not in self._known:
            times = _read(path)
            if times is None or (times.key, times.versions) != (key, self._versions):
                times = PhaseTimes(key, self._versions)
            self._written[path] = msgspec.json.encode(times)
            times.meshes_written &= self._caches_exist
            times.kernels_saved &= self._caches_exist
            self._known[path] = times
        return self._known[path]

    def save(self) -> None:
        """Writes the changed histories. Raises `OSError`."""
        if self._is_first and self._own.meshes_written:
            self._is_first, had_all = False, self._any.meshes_written and self._any.meshes <= self._meshes
            self._any.meshes = caches.mesh_count(self._environ, self._cwd)
            self._any.meshes_vary |= had_all and self._any.meshes > self._meshes
            self._any.meshes_written = True
        for path, times in list(self._known.items()):
            data = msgspec.json.encode(times)
            if data != self._written[path]:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                write_atomic(path, data + b"\n")
                self._written[path] = data
                self._evict()

    def _evict(self) -> None:
        with suppress(OSError):  # another session may evict at the same time
            for path in sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-MAX_FILES]:
                path.unlink()

    def start_mode(self, spec: RunSpec) -> StartMode:
        """Returns the default start mode: gated if the mesh caches may be cold.

        They are warm for a script that has simulated before: with these arguments or, as long as no arguments were seen to
        make other meshes, with any. Ranks of one group wait for each other as they start.
        """
        is_rank = spec.ddp is not None or all(name in spec.env or name in os.environ for name in ("RANK", "WORLD_SIZE"))
        if is_rank or self._own.meshes_written or self._has_meshes:
            return StartMode.TOGETHER
        return StartMode.GATED if spec.module or may_use_genesis(Path(self._script)) else StartMode.TOGETHER

    @property
    def _has_meshes(self) -> bool:
        """True if the meshes of earlier runs are there, and other arguments have never needed more."""
        known = self._any.meshes_written and not self._any.meshes_vary
        return known and self._is_race_proof and 0 < self._any.meshes <= self._meshes


def _read(path: Path) -> PhaseTimes | None:
    try:
        with reading(path) as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=PhaseTimes)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def may_use_genesis(script: Path) -> bool:
    """Returns False if the script and the modules beside it only import each other and the standard library."""
    queue, seen = [script], {script}
    while queue:
        try:
            with queue.pop().open("rb") as file:
                text = file.read(_MAX_SOURCE_BYTES)
        except OSError:
            return True
        names = {name.decode() for name in _IMPORT.findall(text)}
        if b"genesis" in text or names & _INDIRECT or len(text) == _MAX_SOURCE_BYTES or len(seen) > _MAX_MODULES:
            return True
        for name in names - sys.stdlib_module_names:
            module = script.with_name(f"{name}.py")
            if not module.is_file():
                return True
            if module not in seen:
                seen.add(module)
                queue.append(module)
    return False
