"""Reads messages without figures: about buffer overflows (`overflows.toml`), which make results wrong, and saved files."""

import re
from collections import Counter, deque
from functools import cache
from pathlib import Path

import msgspec

from gmg_tui.model import Sign, units
from gmg_tui.model.text import visible

_MAX_BUFFERS = 16
_ISAAC_LAB = {"Contact buffer": "gpu_max_rigid_contact_count", "Patch buffer": "gpu_max_rigid_patch_count"}
"""PhysX' buffers with other names in Isaac Lab's `PhysxCfg`."""
_CAPITAL = re.compile(r"(?=[A-Z])")

_MAX_PATHS = 32
_MAX_LINE_BYTES = 1000
_SAVE_WORDS = (b"aved", b"aving", b"riting", b"ritten", b"rote")
_SAVED = re.compile(
    r"\b(?:sav(?:ed|ing)|writ(?:ten|ing)|wrote)\b[^/\\]{0,80}?\b(?:to|in|into|at|as)[:\s]{1,3}['\"]?"
    r"(?P<path>[\w./-][\w./+=~-]{0,300}\.(?:pt|pth|ckpt|zip|npz|npy|pkl|safetensors|onnx|h5|msgpack|csv|mp4))\b",
    re.IGNORECASE,
)


@cache
def _rows() -> list[tuple[bytes, re.Pattern[bytes]]]:
    rows = msgspec.toml.decode(Path(__file__).with_name("overflows.toml").read_bytes(), type=dict[str, dict[str, str]])
    return [(row["word"].encode(), re.compile(row["line"].encode())) for row in rows.values()]


class Overflows:
    """The buffer overflows that one attempt has printed."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._sizes: dict[str, int] = {}
        """The largest size that the simulator asked for, by setting."""

    def feed(self, block: bytes) -> None:
        """Reads a block of whole lines."""
        for word, line in _rows():
            for match in line.finditer(block) if word in block else ():
                name = match["name"].decode()
                if name in self._counts or len(self._counts) < _MAX_BUFFERS:
                    self._counts[name] += 1
                    groups = match.groupdict()
                    size = int((groups.get("size") or b"0")[:18]) or 2 * int((groups.get("limit") or b"0")[:18])
                    self._sizes[name] = max(self._sizes.get(name, 0), size)

    @property
    def sign(self) -> Sign | None:
        """The sign of trouble for these overflows; None if there were none."""
        if not self._counts:
            return None
        counts = ", ".join(f"{units.count(count, 'overflow')} of {name}" for name, count in self._counts.most_common(3))
        settings = (self._setting(name) for name, _ in self._counts.most_common(3))
        return Sign("overflow", f"contacts or constraints were dropped: {counts}", f"set {', '.join(settings)}")

    def _setting(self, name: str) -> str:
        size = f" to at least {self._sizes[name]:,}" if self._sizes[name] else " higher"
        if name in _ISAAC_LAB:
            return f"{_ISAAC_LAB[name]}{size}"
        if name[:1].islower() and _CAPITAL.search(name):  # PhysX' own name
            return f"{name} (Isaac Lab: gpu_{_CAPITAL.sub('_', name).lower()}){size}"
        return f"{name}{size}"


class SavedPaths:
    """The newest paths that one attempt printed (`Saved model to runs/a/model_100.pt`), oldest first (`paths`)."""

    def __init__(self) -> None:
        self.paths: deque[str] = deque(maxlen=_MAX_PATHS)

    def feed(self, block: bytes) -> None:
        """Reads whole lines."""
        newest = block[-_MAX_PATHS * _MAX_LINE_BYTES :]
        if any(word in newest for word in _SAVE_WORDS):
            for raw in newest.splitlines()[-_MAX_PATHS:]:
                text = visible(raw[:_MAX_LINE_BYTES]).decode("utf-8", "replace")
                if (match := _SAVED.search(text)) is not None and match["path"] not in self.paths:
                    self.paths.append(match["path"])
