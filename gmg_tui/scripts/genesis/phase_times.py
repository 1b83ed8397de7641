"""Kept between the runs of a script: whether its caches are written, and how long each phase took.

The kernels of a run are saved when it ends in order, its meshes before its first step. Cold and warm starts differ by
minutes, so their times are kept apart. Each script has a file of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec

from gmg_tui.machine.files import reading, write_atomic
from gmg_tui.model import Phase

MAX_SCRIPTS = 200
"""Scripts that are kept; the file that was written longest ago is removed first."""
_MAX_BYTES = 1 << 16
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d_,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_SEED = re.compile(r"seed(?:$|=)", re.IGNORECASE)
"""An option that ends with the word, as in `--seed 1`, `--seed=1`, hydra's `env.seed=1`."""


def key_of(script: str, args: Sequence[str], kind: str) -> str:
    """Returns what identifies a script: its path or module, its slots' kind, and its arguments without their numbers.

    One warm cache serves every n_envs (Genesis 1.4.5, ndarray mode), and learning rates compile nothing. The number of a
    seed stays: each has kernels of its own (Genesis 1.4.5: `qd.init(random_seed=…)`, part of a compiled kernel's key).
    """
    words = [
        arg if _SEED.search(arg) or _SEED.search(before) else _NUMBER.sub("#", arg)
        for before, arg in pairwise(["", *args])
    ]
    return " ".join([script, *words, "on", kind])


class _Stored(msgspec.Struct):
    """The contents of a file."""

    key: str
    versions: str
    """Of Genesis and its compiler, when the rest was recorded."""
    meshes_written: bool = False
    kernels_saved: bool = False
    meshes: int = 0
    meshes_vary: bool = False
    cold: dict[str, float] = {}
    warm: dict[str, float] = {}


class PhaseTimes:
    """The caches and times of one script.

    Attributes:
        meshes_written: Whether a run of this script has got past preparing its meshes.
        kernels_saved: Whether a run of this script has simulated, and ended in order.
        meshes: Number of files in the mesh cache when it was last written.
        meshes_vary: True if other arguments have made other meshes.
    """

    def __init__(self, folder: Path, key: str, versions: str = "", *, caches_exist: bool = True) -> None:
        """Read the file of the script `key` (`key_of`) in `folder`; one that is damaged counts as missing.

        With other `versions` of Genesis and its compiler everything is compiled again, as it is without caches.
        """
        self._path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        stored = _read(self._path)
        if stored is None or (stored.key, stored.versions) != (key, versions):
            stored = _Stored(key, versions)
        self.meshes_written = stored.meshes_written and caches_exist
        self.kernels_saved = stored.kernels_saved and caches_exist
        self.meshes, self.meshes_vary = stored.meshes, stored.meshes_vary
        self._stored = stored
        self._written = msgspec.json.encode(stored)

    def usual(self, phase: Phase, *, warm: bool) -> float | None:
        """Returns how long `phase` took in the last start of this kind, seconds; None if unknown."""
        return (self._stored.warm if warm else self._stored.cold).get(phase.value)

    def record(self, times: Mapping[Phase, float], *, warm: bool) -> None:
        """Record how long each of an attempt's phases took, seconds."""
        durations_s = {phase.value: seconds for phase, seconds in times.items() if phase is not Phase.RUNNING}
        (self._stored.warm if warm else self._stored.cold).update(durations_s)

    def save(self) -> None:
        """Write any changes. Raises `OSError`."""
        self._stored.meshes_written, self._stored.kernels_saved = self.meshes_written, self.kernels_saved
        self._stored.meshes, self._stored.meshes_vary = self.meshes, self.meshes_vary
        data = msgspec.json.encode(self._stored)
        if data == self._written:
            return
        (folder := self._path.parent).mkdir(mode=0o700, exist_ok=True)
        write_atomic(self._path, data + b"\n")
        self._written = data
        with suppress(OSError):  # another session may remove some at the same time
            files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
            for path in files[:-MAX_SCRIPTS]:
                path.unlink()


def _read(path: Path) -> _Stored | None:
    try:
        with reading(path) as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=_Stored)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
