"""What is not as it should be while a worker runs, as its lines tell."""

from __future__ import annotations

from gmg_tui.genesis import lines
from gmg_tui.text import clean

_MAX_TEXT = 200

_DEVICE, _LOCK, _RENDERING, _HEALED = range(4)
"""The kinds, the gravest first."""


class Alerts:
    """The warnings of one attempt, each kind once."""

    def __init__(self, gpu_slot: bool) -> None:
        self._gpu_slot = gpu_slot
        self._texts: dict[int, str] = {}
        self._healed = 0
        self._fell_back = False

    @property
    def texts(self) -> tuple[str, ...]:
        """One line each, the gravest first."""
        return tuple(self._texts[kind] for kind in sorted(self._texts))

    def device(self, name: str, backend: str) -> None:
        """Genesis says what it runs on."""
        self._texts.pop(_DEVICE, None)
        if not self._gpu_slot or backend != "cpu":
            return
        if self._fell_back:
            self._note(_DEVICE, f"fell back to the CPU ({name}): Genesis found no usable card")
        else:
            self._note(_DEVICE, f"runs on the CPU ({name}), not on the card of its slot")

    def message(self, text: bytes) -> bool:
        """Look at a text of Genesis's logger; returns whether the warnings changed."""
        if text.startswith(lines.CORRUPTED_CACHE):
            self._healed += 1
            times = "" if self._healed == 1 else f" ({self._healed} times)"
            return self._note(_HEALED, f"Genesis found a corrupted mesh cache file and made it anew{times}")
        if text.startswith(lines.SOFTWARE_RENDERING):
            # Nothing is amiss on a slot without a card.
            return self._gpu_slot and self._note(_RENDERING, "renders in software, slowly: EGL does not use the card")
        return self._fallback(text)

    def other(self, line: bytes) -> bool:
        """Look at a line that is not of Genesis's logger; returns whether the warnings changed."""
        lock = lines.LOCK.search(line)
        if lock is not None:
            path = clean(lock["path"])
            return self._note(_LOCK, f"kernel cache off, each start compiles anew: held or left behind: {path}")
        return self._fallback(line)

    def _fallback(self, text: bytes) -> bool:
        if lines.NO_BACKEND.search(text) is None:
            return False
        self._fell_back = True
        return self._gpu_slot and self._note(_DEVICE, "fell back to the CPU: Genesis found no usable card")

    def _note(self, kind: int, text: str) -> bool:
        text = text[:_MAX_TEXT]
        if self._texts.get(kind) == text:
            return False
        self._texts[kind] = text
        return True
