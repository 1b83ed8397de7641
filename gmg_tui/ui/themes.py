"""The themes: their names, which cost nothing to know, and their colours, which need Textual.

All colours of `dark` and `light` are of the 256 that `TERM=xterm-256color` has, because COLORTERM does not cross SSH:
the screen looks the same with 256 colours and with 16 million.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.theme import Theme

    from gmg_tui.ui.look import Look

NAMES = ("dark", "light", "ansi", "contrast")
"""What `--theme` takes; the first is the default."""
_PREFIX = "gmg-"


def textual_name(name: str | None, *, no_color: bool) -> str:
    """Textual's name of the theme called `name`; without colours only `ansi` sends none."""
    return _PREFIX + ("ansi" if no_color else name or NAMES[0])


def all_themes() -> list[Theme]:
    """The themes, ready to be registered."""
    return [_dark(), _light(), _ansi(), _contrast()]


def make_look(variables: Mapping[str, str], *, ascii_only: bool) -> Look:
    """The styles and signs for a theme.

    Args:
        variables: The theme's variables, as `App.theme_variables` has them.
        ascii_only: Whether only ASCII characters may be drawn.
    """
    from rich.style import Style
    from textual.color import Color

    from gmg_tui.ui.look import ASCII, ATTRIBUTES, STYLES, UNICODE, Look

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
    return Look(styles, ASCII if ascii_only else UNICODE)


def _dark() -> Theme:
    from textual.theme import Theme

    return Theme(
        name=_PREFIX + "dark",
        primary="#87afff",
        secondary="#87afd7",
        accent="#5fd7ff",
        success="#87d787",
        warning="#ffd75f",
        error="#ff8787",
        foreground="#d0d0d0",
        background="#121212",
        surface="#1c1c1c",
        panel="#262626",
        dark=True,
        variables={
            "text-muted": "#8a8a8a",
            "border": "#ffffff",
            "border-blurred": "#585858",
            "block-cursor-foreground": "#121212",
        },
    )


def _light() -> Theme:
    from textual.theme import Theme

    return Theme(
        name=_PREFIX + "light",
        primary="#005faf",
        secondary="#0087af",
        accent="#8700af",
        success="#008700",
        warning="#af5f00",
        error="#d70000",
        foreground="#262626",
        background="#ffffff",
        surface="#eeeeee",
        panel="#e4e4e4",
        dark=False,
        variables={
            "text-muted": "#6c6c6c",
            "border": "#000000",
            "border-blurred": "#a8a8a8",
            "block-cursor-foreground": "#ffffff",
        },
    )


def _contrast() -> Theme:
    from textual.theme import Theme

    return Theme(
        name=_PREFIX + "contrast",
        primary="#00ffff",
        secondary="#5fffff",
        accent="#ffffff",
        success="#00ff00",
        warning="#ffff00",
        error="#ff5f5f",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#1c1c1c",
        dark=True,
        variables={
            "text-muted": "#d0d0d0",
            "border": "#ffff00",
            "border-blurred": "#bcbcbc",
            "block-cursor-foreground": "#000000",
        },
    )


def _ansi() -> Theme:
    from dataclasses import replace

    from textual.theme import BUILTIN_THEMES

    base = BUILTIN_THEMES["ansi-dark"]
    variables = {
        **base.variables,
        "text-muted": "ansi_default",
        "border": "ansi_default",
        "border-blurred": "ansi_default",
    }
    return replace(base, name=_PREFIX + "ansi", accent="ansi_cyan", secondary="ansi_blue", variables=variables)
