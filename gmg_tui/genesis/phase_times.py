"""What is remembered of a script's runs: whether its caches are written, and how long each phase took.

The kernels of a run are saved when it ends in order, its meshes before its first step. Cold and warm starts differ by
minutes, so their times are kept apart.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import msgspec

from gmg_tui.files import open_regular, write_atomic
from gmg_tui.model import Phase

MAX_SCRIPTS = 200
"""Scripts that are remembered; the least recently run is forgotten first."""
KEPT = 5
"""Times that are kept of each phase; their median is what is expected."""
_MAX_BYTES = 1 << 20
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d_,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")

_SEED = re.compile(r"seed(?:$|=)", re.IGNORECASE)
"""An option that ends with the word, as in `--seed 1`, `--seed=1`, hydra's `env.seed=1`."""


def key_of(script: str, args: Sequence[str], kind: str) -> str:
    """What a script is remembered by: its path or module, its slots' kind, and its arguments but for their numbers.

    One warm cache serves every n_envs (Genesis 1.4.5, ndarray mode), and learning rates compile nothing. The number of a
    seed stays: each has kernels of its own (Genesis 1.4.5: `qd.init(random_seed=…)`, part of a compiled kernel's key).
    """
    words = [
        arg if _SEED.search(arg) or _SEED.search(before) else _NUMBER.sub("#", arg)
        for before, arg in pairwise(["", *args])
    ]
    return " ".join([script, *words, "on", kind])


class Known(msgspec.Struct):
    """What is kept of one script."""

    versions: str = ""
    """Of Genesis and its compiler, when the rest was recorded."""
    meshes_written: bool = False
    kernels_saved: bool = False
    cold: dict[str, list[float]] = {}
    warm: dict[str, list[float]] = {}


class PhaseTimes:
    """What is remembered of one script, kept in a file with others: the newest script last."""

    def __init__(self, path: Path, key: str, versions: str = "", *, caches_exist: bool = True) -> None:
        """Read what `path` holds of the script `key` (`key_of`); nothing where it is not what `save` writes.

        With other `versions` of Genesis and its compiler everything is compiled anew, as it is without caches.
        """
        self._path = path
        self._key = key
        self._known = _read(path).get(key, Known(versions))
        if self._known.versions != versions:
            self._known = Known(versions)
        if not caches_exist:
            self._known.meshes_written = self._known.kernels_saved = False
        self._changed = False

    @property
    def meshes_written(self) -> bool:
        """Whether a run of this script has got past preparing its meshes."""
        return self._known.meshes_written

    @property
    def kernels_saved(self) -> bool:
        """Whether a run of this script has simulated, and ended in order."""
        return self._known.kernels_saved

    def usual(self, phase: Phase, *, warm: bool) -> float | None:
        """How long `phase` takes, seconds: the median of the last starts of this kind; None if unknown."""
        times = self._of(warm=warm).get(phase.value)
        return statistics.median(times) if times else None

    def record(self, phases: Iterable[tuple[Phase, float]], *, warm: bool) -> None:
        """Remember how long each of an attempt's `phases` took.

        The running phase is left out: its length does not predict the next run's.
        """
        for phase, seconds in dict(phases).items():
            if phase not in (Phase.NONE, Phase.RUNNING) and seconds >= 0:
                times = self._of(warm=warm).setdefault(phase.value, [])
                times[:] = [*times, seconds][-KEPT:]
                self._changed = True

    def simulated(self) -> None:
        """A run has reported progress: its meshes are written."""
        if not self._known.meshes_written:
            self._known.meshes_written = self._changed = True

    def saved(self) -> None:
        """A run that has simulated has ended in order: its kernels are saved."""
        if not self._known.kernels_saved:
            self._known.kernels_saved = self._changed = True

    def save(self) -> None:
        """Write any changes, keeping what other sessions wrote meanwhile. Raises `OSError`."""
        if not self._changed:
            return
        self._changed = False  # before writing: the engine writes in a thread, and may record meanwhile
        scripts = _read(self._path)
        scripts.pop(self._key, None)
        scripts[self._key] = self._known
        kept = dict(list(scripts.items())[-MAX_SCRIPTS:])
        try:
            write_atomic(self._path, msgspec.json.encode(kept) + b"\n")
        except OSError:
            self._changed = True
            raise

    def _of(self, *, warm: bool) -> dict[str, list[float]]:
        return self._known.warm if warm else self._known.cold


class FindPhaseTimes(Protocol):
    """Gives what is remembered of a script with arguments, before placeholders are filled in."""

    def __call__(self, script: str, args: Sequence[str], *, module: bool) -> PhaseTimes:
        """`script` is a path, or with `module` a module's name."""


def _read(path: Path) -> dict[str, Known]:
    try:
        with open(open_regular(path), "rb") as file:  # noqa: PTH123 - a descriptor
            return msgspec.json.decode(file.read(_MAX_BYTES), type=dict[str, Known])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
