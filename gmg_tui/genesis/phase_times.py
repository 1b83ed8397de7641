"""How long each phase of a script took the last time it ran, so that a long silence can be told from a usual one."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec

from gmg_tui.files import write_atomic
from gmg_tui.model import Phase

MAX_SCRIPTS = 200
"""Scripts that are remembered; the one that ran longest ago is forgotten first."""
_MAX_BYTES = 1 << 20

_decoder = msgspec.json.Decoder(dict[str, dict[str, float]])


class PhaseTimes:
    """The phases' times of one script, kept in a file with those of others: the newest script last."""

    def __init__(self, path: Path, key: str, known: dict[str, float] | None = None) -> None:
        """The times `known` of the script `key`, to be kept in `path`; use `load` to read them from there."""
        self._path = path
        self._key = key
        self._known = dict(known or {})
        self._changed = False

    @classmethod
    def load(cls, path: Path, key: str) -> Self:
        """What `path` holds of the script `key`; nothing where it is absent, or not what `save` writes.

        Args:
            path: The file, shared by all sessions of this user.
            key: The script's absolute path or module name, with the kind of its slots.
        """
        return cls(path, key, _read(path).get(key))

    def usual(self, phase: Phase) -> float | None:
        """How long `phase` took the last time, seconds; None when it was never seen."""
        return self._known.get(phase.value)

    def record(self, phase: Phase, seconds: float) -> None:
        """Remember that `phase` took so long. How long a script runs says nothing of the next time, and is left out."""
        if phase not in (Phase.NONE, Phase.RUNNING) and seconds >= 0 and self._known.get(phase.value) != seconds:
            self._known[phase.value] = seconds
            self._changed = True

    def save(self) -> None:
        """Write what has changed, if anything, beside what other sessions wrote meanwhile. Raises `OSError`."""
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


def _read(path: Path) -> dict[str, dict[str, float]]:
    try:
        with path.open("rb") as file:
            return _decoder.decode(file.read(_MAX_BYTES))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
