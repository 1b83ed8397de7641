"""What the screen remembers from one session to the next: theme, sorting and folded nodes. This module knows no Textual."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import platformdirs

from gmg_tui.files import write_atomic
from gmg_tui.ui.arrangement import Order
from gmg_tui.ui.drawing import themes
from gmg_tui.ui.view import View

_MOST_BYTES = 65_536
"""So much of the file is read; it has less."""
MOST_FOLDS, _NAME_CHARS = 500, 64
"""Nodes whose folds are kept, those of the newest session first, and how long a node's name may be for that."""
_CLOSE_S = 1.0
"""How long the end of the screen waits for the disk."""


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered."""

    theme: str = ""
    """A name of `themes.NAMES`; empty for the default."""
    order: Order = Order.SLOT
    reverse: bool = False
    folds: dict[str, bool] = {}
    """Nodes that are not as a session of their number of slots starts, each with whether it is folded."""


def path() -> Path:
    """Where it is kept: in the state folder, beside the sessions."""
    return platformdirs.user_state_path("gmg-tui") / "screen.json"


class Memory:
    """The remembered settings, in a file. It is read once, and written only when the user has changed something.

    It is written by a thread: a disk that does not answer must not keep the screen from its keys.

    Attributes:
        settings: What is remembered now.
        trouble: Why the file was ignored or not written, in one line; empty if all is well.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or path()
        self.settings = self._written = Settings()
        self.trouble = ""
        self._lock = threading.Lock()
        self._writer: threading.Thread | None = None
        try:
            with self._file.open("rb") as opened:
                data = opened.read(_MOST_BYTES)
            self.settings = self._written = msgspec.json.decode(data, type=Settings)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.trouble = f"{self._file} is ignored: {error.strerror or error}"
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            self.trouble = f"{self._file} is ignored: {error}"

    def recall(self, view: View) -> str | None:
        """Sort and fold as remembered. Returns the name of the theme, if there is one."""
        view.sort_by(self.settings.order, reverse=self.settings.reverse)
        view.folds.choose(self.settings.folds)
        return self.settings.theme if self.settings.theme in themes.NAMES else None

    def keep_view(self, view: View, theme: str) -> None:
        """Remember how the workers are sorted and folded, and a theme that was chosen; of other nodes, their folds."""
        others = {node: fold for node, fold in self.settings.folds.items() if node not in view.folds.slots}
        folds = [(node, fold) for node, fold in {**view.folds.chosen, **others}.items() if len(node) <= _NAME_CHARS]
        arrangement = view.arrangement
        theme = theme or self.settings.theme
        self.keep(Settings(theme, arrangement.order, arrangement.reverse, dict(folds[:MOST_FOLDS])))

    def keep(self, settings: Settings) -> None:
        """Remember `settings`."""
        with self._lock:
            self.settings = settings
            if settings != self._written and self._writer is None:
                self._writer = threading.Thread(target=self._write, name="remember", daemon=True)
                self._writer.start()

    def _write(self) -> None:
        while True:
            with self._lock:
                settings = self.settings
                if settings == self._written:
                    self._writer = None
                    return
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_atomic(self._file, msgspec.json.encode(settings))
            except OSError as error:
                self.trouble = f"settings are not remembered: {self._file}: {error.strerror or error}"
            self._written = settings

    def close(self) -> None:
        """Wait a moment for what is being written."""
        writer = self._writer
        if writer is not None:
            writer.join(_CLOSE_S)
