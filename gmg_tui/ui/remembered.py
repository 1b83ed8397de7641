"""What the screen remembers from one session to the next: the theme. This module knows no Textual."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import msgspec
import platformdirs

from gmg_tui.files import write_atomic
from gmg_tui.ui.drawing import themes

_MOST_BYTES: Final = 65_536
"""So much of the file is read; it has less."""
_CLOSE_S: Final = 1.0
"""How long the end of the screen waits for the disk."""


class _Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is in the file."""

    theme: str = ""


class Memory:
    """The theme that was chosen last, in a file in the state folder, beside the sessions.

    It is written by a thread: a disk that does not answer must not keep the screen from its keys.

    Attributes:
        theme: A name of `themes.NAMES`; None for the default.
        trouble: Why the file was ignored or not written, in one line; empty if all is well.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or platformdirs.user_state_path("gmg-tui") / "screen.json"
        self._writer: threading.Thread | None = None
        self._lock = threading.Lock()
        self.theme: str | None = None
        self.trouble = ""
        try:
            with self._file.open("rb") as opened:
                settings = msgspec.json.decode(opened.read(_MOST_BYTES), type=_Settings)
        except FileNotFoundError:
            return
        except OSError as error:
            self.trouble = f"{self._file} is ignored: {error.strerror or error}"
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            self.trouble = f"{self._file} is ignored: {error}"
        else:
            self.theme = settings.theme if settings.theme in themes.NAMES else None

    def keep(self, theme: str) -> None:
        """Remember the theme."""
        self.theme = theme
        self._writer = threading.Thread(target=self._write, name="remember", daemon=True)
        self._writer.start()

    def _write(self) -> None:
        try:
            with self._lock:  # two choices in a row: the one that is written last has the newest
                self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_atomic(self._file, msgspec.json.encode(_Settings(self.theme or "")))
        except OSError as error:
            self.trouble = f"The theme is not remembered: {self._file}: {error.strerror or error}"

    def close(self) -> None:
        """Wait a moment for what is being written."""
        if self._writer is not None:
            self._writer.join(_CLOSE_S)
