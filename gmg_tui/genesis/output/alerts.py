"""Warnings about a running worker, found in its output."""

from __future__ import annotations

from gmg_tui.genesis.output import lines
from gmg_tui.text import clean

_MAX_TEXT = 200

_CLEANING = b"offline_cache.h:run"
"""Where Quadrants removes old kernels as it ends: it says there too that another process has the lock, and loses none."""
_DEVICE, _LOCK, _RENDERING, _HEALED = range(4)
"""The kinds, most serious first."""


class Alerts:
    """The warnings of one attempt, at most one of each kind; `rank` says whether it is one of a group."""

    def __init__(self, gpu_slot: bool, *, rank: bool = False) -> None:
        self._gpu_slot = gpu_slot
        self._rank = rank
        self._texts: dict[int, str] = {}
        self._healed = 0
        self._fell_back = False

    @property
    def texts(self) -> tuple[str, ...]:
        """One line each, most serious first."""
        return tuple(self._texts[kind] for kind in sorted(self._texts))

    def device(self, name: str, backend: str) -> None:
        """Genesis has named the device that it runs on."""
        self._texts.pop(_DEVICE, None)
        if not self._gpu_slot or backend != "cpu":
            return
        fell_back = f"fell back to the CPU ({name}): Genesis found no usable GPU"
        self._note(_DEVICE, fell_back if self._fell_back else f"runs on the CPU ({name}), not on the GPU of its slot")

    def message(self, text: bytes) -> bool:
        """Read a text of Genesis's logger; returns whether the warnings changed."""
        if text.startswith(lines.CORRUPTED_CACHE):
            self._healed += 1
            times = "" if self._healed == 1 else f" ({self._healed} times)"
            return self._note(_HEALED, f"Genesis found a corrupted mesh cache file and rebuilt it{times}")
        if text.startswith(lines.SOFTWARE_RENDERING):
            # On a CPU slot this is as it should be.
            return self._gpu_slot and self._note(_RENDERING, "renders in software, slowly: EGL does not use the GPU")
        return self._fallback(text)

    def other(self, line: bytes, *, saving: bool = False) -> bool:
        """Read a line that is not from Genesis's logger, `saving` kernels or not; returns whether the warnings changed."""
        lock = lines.LOCK.search(line)
        if lock is None:
            return self._fallback(line)
        if _CLEANING in line:
            return False  # what was to be removed at the end of this attempt is removed at the end of another
        # Another worker that ends holds it for a moment; a lock that was left behind is removed before the next attempt.
        path = clean(lock["path"])
        if not saving:
            return self._note(_LOCK, f"kernel cache locked, this attempt may compile all its kernels anew: {path}")
        if self._rank:
            return False  # another rank of its group, which ends too, is saving the same kernels
        return self._note(_LOCK, f"kernel cache locked, what this attempt has compiled is not kept: {path}")

    def _fallback(self, text: bytes) -> bool:
        if lines.NO_BACKEND.search(text) is None:
            return False
        self._fell_back = True
        return self._gpu_slot and self._note(_DEVICE, "fell back to the CPU: Genesis found no usable GPU")

    def _note(self, kind: int, text: str) -> bool:
        text = text[:_MAX_TEXT]
        if self._texts.get(kind) == text:
            return False
        self._texts[kind] = text
        return True
