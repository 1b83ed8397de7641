"""The themes: their names, their colours, which need Textual, and the one that was chosen last.

All colours of `dark` and `light` are of the 256 that `TERM=xterm-256color` has, because COLORTERM does not cross SSH:
the screen looks the same with 256 colours and with 16 million.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import platformdirs

from gmg_tui.files import write_atomic

if TYPE_CHECKING:
    from textual.theme import Theme

    from gmg_tui.ui.drawing import Appearance

NAMES = ("dark", "light", "ansi", "contrast")
"""What `--theme` takes; the first is the default."""
_PREFIX = "gmg-"
_FIELDS = ("primary", "secondary", "accent", "success", "warning", "error", "foreground", "background")
_COLORS = {
    "dark": (
        ("#87afff", "#87afd7", "#5fd7ff", "#87d787", "#ffd75f", "#ff8787", "#d0d0d0", "#121212"),
        {"surface": "#1c1c1c", "panel": "#262626"},
        {"text-muted": "#8a8a8a", "border": "#ffffff", "border-blurred": "#585858"},
    ),
    "light": (
        ("#005faf", "#0087af", "#8700af", "#008700", "#af5f00", "#d70000", "#262626", "#ffffff"),
        {"surface": "#eeeeee", "panel": "#e4e4e4"},
        {"text-muted": "#6c6c6c", "border": "#000000", "border-blurred": "#a8a8a8"},
    ),
    "contrast": (
        ("#00ffff", "#5fffff", "#ffffff", "#00ff00", "#ffff00", "#ff5f5f", "#ffffff", "#000000"),
        {"surface": "#000000", "panel": "#1c1c1c"},
        {"text-muted": "#d0d0d0", "border": "#ffff00", "border-blurred": "#bcbcbc"},
    ),
}
"""Of each theme the colours of `_FIELDS`, the backgrounds, and the variables that Textual would derive otherwise."""

_MOST_BYTES: Final = 65_536
"""So much of the file is read; it has less."""
_CLOSE_S: Final = 1.0
"""How long the end of the screen waits for the disk."""


def textual_name(name: str | None, *, no_color: bool) -> str:
    """Textual's name of the theme called `name`; without colours only `ansi` sends none."""
    return _PREFIX + ("ansi" if no_color else name or NAMES[0])


def all_themes() -> list[Theme]:
    """The themes, ready to be registered."""
    return [*(_theme(name, *colors) for name, colors in _COLORS.items()), _ansi()]


def make_appearance(variables: Mapping[str, str]) -> Appearance:
    """The styles for a theme, whose variables are those of `App.theme_variables`."""
    from rich.style import Style
    from textual.color import Color

    from gmg_tui.ui.drawing import ATTRIBUTES, STYLES

    background = Color.parse(variables["background"])
    # The terminal's own background only with the terminal's own colours: others may be illegible on it.
    ground = Style() if background.ansi is not None else Style(bgcolor=background.rich_color)
    styles = {}
    for name, variable in STYLES.items():
        color = Color.parse(variables[variable])
        attributes = ground + Style.parse(ATTRIBUTES.get(name, ""))
        if color.ansi is not None and name in {"dim", "border"}:
            attributes += Style(dim=True)
        styles[name] = Style(color=color.rich_color) + attributes
    return styles


def _theme(name: str, colors: Sequence[str], grounds: Mapping[str, Any], variables: Mapping[str, str]) -> Theme:
    from textual.theme import Theme

    named: dict[str, Any] = dict(zip(_FIELDS, colors, strict=True))
    derived = {**variables, "block-cursor-foreground": named["background"]}
    derived |= {f"footer-{part}background": named["background"] for part in ("", "key-", "item-", "description-")}
    return Theme(_PREFIX + name, **named, **grounds, dark=name != "light", variables=derived)


def _ansi() -> Theme:
    from dataclasses import replace

    from textual.theme import BUILTIN_THEMES

    base = BUILTIN_THEMES["ansi-dark"]
    default = dict.fromkeys(("text-muted", "border", "border-blurred"), "ansi_default")
    return replace(
        base, name=_PREFIX + "ansi", accent="ansi_cyan", secondary="ansi_blue", variables={**base.variables, **default}
    )


# The theme that was chosen last


class _Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is in the file."""

    theme: str = ""


class Memory:
    """The theme that was chosen last, in a file in the state folder, beside the sessions.

    It is written by a thread: a disk that does not answer must not keep the screen from its keys.

    Attributes:
        theme: A name of `NAMES`; None for the default.
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
            self.theme = settings.theme if settings.theme in NAMES else None

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
