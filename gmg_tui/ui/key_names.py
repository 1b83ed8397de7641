"""Names of keys: as a user writes them, as Textual has them, and as the screen shows them. Textual is not imported."""

from __future__ import annotations

import unicodedata
from typing import Final

_REPLACED: Final = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Names of characters for which Textual has others (`textual.keys`, 8.2)."""
_ALIASES: Final = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete"}
_NAMED: Final = frozenset(
    {"escape", "enter", "tab", "space", "backspace", "delete", "insert"}
    | {"home", "end", "pageup", "pagedown", "up", "down", "left", "right"}
) | {f"f{number}" for number in range(1, 25)}
_SIGNS: Final = {
    "escape": "esc",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
}
_MODIFIERS: Final = ("ctrl", "alt", "shift")
_SAME: Final = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+[": "escape", "ctrl+h": "backspace"}
"""What terminals send for both."""


def textual_name(key: str) -> str:
    """Textual's name of a key: of a character, such as `R` or `?`, of a key with a name, such as `f5`, or of one with modifiers.

    Raises:
        ValueError: There is no such key, or a terminal cannot tell it from another; the text says so.
    """
    *modifiers, base = key.split("+") if len(key) > 1 else [key]
    modifiers = [one.lower() for one in modifiers]
    base = base if len(base) == 1 else _ALIASES.get(base.lower(), base.lower())
    if len(base) != 1 and base not in _NAMED:
        raise ValueError(f"{key or 'an empty text'} is no key; write a character, ctrl+x, f5, enter, pageup, space …")
    if any(one not in _MODIFIERS for one in modifiers) or len({*modifiers}) != len(modifiers):
        raise ValueError(f"{key} is no key; before + stand ctrl, alt or shift")
    if same := _SAME.get("+".join((*modifiers, base.lower()))):
        raise ValueError(f"a terminal sends {key} as {same}")
    if len(base) == 1:
        if not base.isprintable() or base == " ":
            raise ValueError("a space is written as space, another sign that cannot be seen is no key")
        if "shift" in modifiers:
            raise ValueError(f"{key} is written as the character that shift makes of it")
        base = _of_character(base.lower() if "ctrl" in modifiers else base)
    return "+".join([*(one for one in _MODIFIERS if one in modifiers), base])


def _of_character(character: str) -> str:
    if character.isalnum():
        return character
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return _REPLACED.get(name, name) or character


def sign(key: str) -> str:
    """A key, written as in the settings, as the footer and the help show it."""
    if len(key) == 1:
        return key
    *modifiers, base = textual_name(key).split("+")
    last = key[-1] if len(key.rpartition("+")[2]) == 1 else _SIGNS.get(base, base)
    return "+".join([*modifiers, last])
