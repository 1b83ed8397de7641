"""The saved files that a script prints: `Saved model to runs/a/model_100.pt`."""

from __future__ import annotations

import re
from collections import deque

from gmg_tui.model.text import visible

_MAX_PATHS = 32
_MAX_LINE = 1000
_WORDS = (b"aved", b"aving", b"riting", b"ritten", b"rote")
_SAVED = re.compile(
    r"\b(?:sav(?:ed|ing)|writ(?:ten|ing)|wrote)\b[^/\\]{0,80}?\b(?:to|in|into|at|as)[:\s]{1,3}['\"]?"
    r"(?P<path>[\w./-][\w./+=~-]{0,300}\.(?:pt|pth|ckpt|zip|npz|npy|pkl|safetensors|onnx|h5|msgpack|csv|mp4))\b",
    re.IGNORECASE,
)


class SavedPaths:
    """The newest paths of one attempt, as printed, oldest first (`paths`)."""

    def __init__(self) -> None:
        self.paths: deque[str] = deque(maxlen=_MAX_PATHS)

    def feed(self, block: bytes) -> None:
        """Reads whole lines."""
        newest = block[-_MAX_PATHS * _MAX_LINE :]
        if any(word in newest for word in _WORDS):
            for raw in newest.splitlines()[-_MAX_PATHS:]:
                text = visible(raw[:_MAX_LINE]).decode("utf-8", "replace")
                if (match := _SAVED.search(text)) is not None and match["path"] not in self.paths:
                    self.paths.append(match["path"])
