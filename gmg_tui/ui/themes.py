"""The themes, the styles of each theme, and the replacement of characters for `--ascii`.

`dark` and `light` use only the 256 colours of `TERM=xterm-256color`, so they look the same over SSH, which does not
forward COLORTERM.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color, ColorParseError
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

from gmg_tui.model.errors import GmgError, join_words, suggest
from gmg_tui.session.options import THEMES
from gmg_tui.ui.drawing import ATTRIBUTES, STYLES, Appearance

_PREFIX = "gmg-"
_MIN_LIGHT_BRIGHTNESS = 0.5
"""Minimum brightness of a light theme's background, from 0 to 1."""
_COLOR_FIELDS = ("primary", "secondary", "accent", "success", "warning", "error", "foreground", "background")
_COLORS: dict[str, tuple[Sequence[str], Mapping[str, str], Mapping[str, str]]] = {
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
"""Each theme's colours for `_COLOR_FIELDS`, its other backgrounds, and overrides of variables that Textual derives."""


def names() -> tuple[str, ...]:
    """Returns the names of all themes."""
    return (*THEMES, *(name for name in _COLORS if name not in THEMES))


def add(tables: Mapping[str, Mapping[str, str]]) -> None:
    """Adds the themes in the settings: a `base` and the colours that differ. Raises `GmgError` for invalid ones."""
    for name, table in tables.items():
        base = table.get("base", THEMES[0])
        if name in THEMES:
            raise GmgError(f"[themes.{name}] is built in; choose another name")
        if base not in _COLORS or base not in THEMES:
            raise GmgError(f"[themes.{name}] base = {base!r} is not a built-in theme; give dark, light or contrast")
        colors, *others = _COLORS[base]
        groups = [dict(zip(_COLOR_FIELDS, colors, strict=True)), *map(dict, others)]
        for key, value in table.items():
            group = next((group for group in groups if key in group), None)
            if group is None and key != "base":
                known = ["base", *(key for group in groups for key in group)]
                raise GmgError(
                    f"[themes.{name}] {key} is not a theme colour{suggest(key, known)}; available: {join_words(known)}"
                )
            if group is not None:
                try:
                    group[key] = Color.parse(value).hex6
                except (ColorParseError, ValueError, OverflowError):
                    raise GmgError(f"[themes.{name}] {key} = {value!r} is not a colour; give #rrggbb") from None
        _COLORS[name] = (tuple(groups[0].values()), groups[1], groups[2])


def textual_name(name: str | None, *, no_color: bool) -> str:
    """Returns Textual's name for a theme (None for the first) or, with `no_color`, for the theme `ansi`."""
    return _PREFIX + ("ansi" if no_color else name or THEMES[0])


def all_themes() -> list[Theme]:
    """Returns all themes, for Textual to register."""
    return [*(_theme(name, *colors) for name, colors in _COLORS.items()), _ansi()]


_appearances: dict[str, Appearance] = {}
"""Cache of styles by theme: deriving a theme's colours takes longer than drawing a frame."""


def appearance(app: App[Any]) -> Appearance:
    """Returns the styles of the current theme."""
    if app.theme not in _appearances:
        _appearances[app.theme] = make_appearance(app.get_css_variables())
    return _appearances[app.theme]


def make_appearance(variables: Mapping[str, str]) -> Appearance:
    """Returns the styles of the theme that has these CSS variables."""
    background = Color.parse(variables["background"])
    # Keep the terminal's background only with the terminal's colours: others may be illegible on it.
    fill = Style() if background.ansi is not None else Style(bgcolor=background.rich_color)
    styles = {}
    for name, variable in STYLES.items():
        color = Color.parse(variables[variable])
        attributes = fill + Style.parse(ATTRIBUTES.get(name, ""))
        if color.ansi is not None and name in {"dim", "border"}:
            attributes += Style(dim=True)
        styles[name] = Style(color=color.rich_color) + attributes
    return styles


def _theme(name: str, colors: Sequence[str], backgrounds: Mapping[str, Any], variables: Mapping[str, str]) -> Theme:
    named: dict[str, Any] = dict(zip(_COLOR_FIELDS, colors, strict=True))
    derived = {**variables, "block-cursor-foreground": named["background"]}
    derived |= {f"footer-{part}background": named["background"] for part in ("", "key-", "item-", "description-")}
    return Theme(
        _PREFIX + name,
        **named,
        **backgrounds,
        dark=Color.parse(named["background"]).brightness < _MIN_LIGHT_BRIGHTNESS,
        variables=derived,
    )


def _ansi() -> Theme:
    base = BUILTIN_THEMES["ansi-dark"]
    cursor = ("block-cursor-foreground", "block-cursor-background")
    default = dict.fromkeys(("text-muted", "border", "border-blurred", *cursor), "ansi_default")
    # Keep the cursor visible without colours.
    default |= {"block-cursor-text-style": "bold reverse", "block-cursor-blurred-text-style": "underline"}
    return replace(
        base, name=_PREFIX + "ansi", accent="ansi_cyan", secondary="ansi_blue", variables={**base.variables, **default}
    )


# `--ascii`

_BAR_CELLS = " .:-=+*##"
"""Cells of a bar from empty to full, in eighths."""
_LINE_CELLS = "'-._"
"""Cells of a line from top to bottom."""


def _line_in_ascii(bits: int) -> str:
    """Returns the ASCII character for a braille cell with these dots."""
    rows = [row for row, dots in enumerate((0x09, 0x12, 0x24, 0xC0)) if bits & dots]
    return " " if not rows else "|" if rows[-1] - rows[0] > 1 else _LINE_CELLS[rows[0]]


_REPLACEMENT_PAIRS = (
    '─-━=│|┃#┏#┓#┗#┛#┈-┉-╌-╎!┊:▀"▔"▐|▕|░.▒:▓*…~·.•*–-—-−-×x±~° ΣS←<↤<→>▸>▶>▷>❯>↑^▲^▴^↓v▼v▾v▽v'
    "⚠!✓+✔+✗x✘x◆*↻*●@◉@○o◔b◑c◌-■#▪#◇+□%△&▵&"
)
"""Characters, each followed by its replacement."""
_ASCII_REPLACEMENTS = {
    **dict.fromkeys(range(0x2500, 0x2580), "+"),  # box drawing: corners and crossings
    **{0x2800 + bits: _line_in_ascii(bits) for bits in range(256)},  # braille
    **{0x2580 + eighths: _BAR_CELLS[eighths] for eighths in range(1, 9)},  # blocks from below
    **{0x2590 - eighths: _BAR_CELLS[eighths] for eighths in range(1, 9)},  # blocks from the left
    **dict(zip(map(ord, _REPLACEMENT_PAIRS[::2]), _REPLACEMENT_PAIRS[1::2], strict=True)),
}


@lru_cache(4096)
def to_ascii(text: str) -> str:
    """Returns `text` in ASCII at the same width, with `?` for unknown characters."""
    if text.isascii():
        return text
    return "".join(
        character if character.isascii() else "?" * cell_len(character)
        for character in text.translate(_ASCII_REPLACEMENTS)
    )


class TextFilter(LineFilter):
    """Rewrites the text of every line, including Textual's own frames, bars and buttons."""

    def __init__(self, rewrite: Callable[[str], str]) -> None:
        super().__init__()
        self._rewrite = rewrite

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Returns the segments with rewritten texts."""
        return [
            segment if (text := self._rewrite(segment.text)) is segment.text else Segment(text, *segment[1:])
            for segment in segments
        ]
