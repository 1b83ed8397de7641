"""Other keys for the actions of the tables in `keys`, as the user's settings have them.

The tables in `keys` are changed before a screen's module makes its bindings of them, so bindings, footer, help and
palette have the same keys. Textual's own keymap would leave the footer, the help and what messages name to the built-in ones.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gmg_tui.ui import keys
from gmg_tui.ui.key_names import sign, textual_name
from gmg_tui.ui.keys import Key

_BUILT_IN: Final = keys.KEYS
_QUIT: Final = "ctrl+c"
"""It always quits, whatever else does."""
_OPENED: Final = {
    "processes": "PROCESSES",
    "stacks": "STACKS",
    "queue": "QUEUE",
    "tuning": "TUNE",
    "tried": "TRIED",
}
"""Actions that open a screen on which the same key returns, and the table of that screen."""
_TABLES: Final = {
    "in-details": "DETAILS",
    "in-command": "COMMAND",
    "in-processes": "PROCESSES",
    "in-stacks": "STACKS",
    "in-edit": "EDIT",
    "in-queue": "QUEUE",
    "in-gpus": "GPUS",
    "in-tuning": "TUNE",
    "in-tried": "TRIED",
}
"""Tables of screens and dialogs, by the names that the settings have for them."""
_BUILT_IN_OF: Final = {place: tuple(getattr(keys, table)) for place, table in _TABLES.items()}
_PLACES: Final = {
    "in-details": "a worker's details",
    "in-processes": "the processes",
    "in-stacks": "the stacks",
    "in-queue": "the queue",
    "in-tuning": "the tuning",
    "in-tried": "all that was tried",
}
"""Screens on which keys of the main table work too, as messages call them."""
_TYPED: Final = "in-edit"
_ANYWHERE: Final = frozenset({"redraw", "suspend", "command_palette"})
_WITH_DETAILS: Final = frozenset({"restart", "stop", "kill", "edit", "processes"})
_NAMES_KEYS: Final = frozenset({"search", "mark"})
"""Actions whose help names other keys of the main table, as words of one letter."""
_ALSO: Final = re.compile(r" \(also [^)]*\)")
_WORD: Final = re.compile(r"(?<![\w'])[A-Za-z](?!\w)")
_CHARACTERS: Final = {textual_name(chr(code)): chr(code) for code in range(33, 127)}
Choice = Mapping[str, Sequence[str]]
_chosen: dict[str, tuple[str, ...]] = {}


def actions() -> dict[str, Key]:
    """All actions by the names that the settings have for them, with their built-in keys.

    Those of another table than the main one have its name before them: `in-queue.skip`.
    """
    found = {key.name: key for key in _BUILT_IN if not key.each}
    return found | {f"{place}.{key.name}": key for place in _TABLES for key in _own(place)}


def _own(place: str) -> tuple[Key, ...]:
    """The actions of a table that are not those of another."""
    return tuple(key for key in _BUILT_IN_OF[place] if place != "in-command" or key not in _BUILT_IN_OF["in-details"])


def chosen() -> dict[str, tuple[str, ...]]:
    """The keys that `use` was given."""
    return dict(_chosen)


def wrong(choice: Choice) -> Iterator[tuple[str, str]]:
    """What is wrong with other keys of actions, each of `actions()`: the action, and why."""
    for place in ("", *_TABLES):
        mine = {name: given for name, given in choice.items() if name.rpartition(".")[0] == place}
        if mine:
            yield from _wrong_in(place, mine, choice)


def _wrong_in(place: str, mine: Choice, choice: Choice) -> Iterator[tuple[str, str]]:
    holders = dict[str, str]()
    for name, key in actions().items():
        if name not in mine and (name.rpartition(".")[0] == place or (place and _shared(place, key, name))):
            holders.update(dict.fromkeys(_names(name, choice), name))
    for name, given in mine.items():
        for one in given:
            try:
                key_name = textual_name(one)
            except ValueError as error:
                yield name, str(error)
                break
            holder = holders.setdefault(key_name, name)
            if key_name == _QUIT:
                yield name, "ctrl+c always quits; leave it out"
            elif holder != name:
                yield name, f"{sign(one)} is the key of {holder}; give {holder} another one too"
            elif place == _TYPED and not _beside_typing(key_name):
                yield name, f"{sign(one)} is for what is typed there; give ctrl, alt or f1 to f24"
            elif not place and (where := _elsewhere(name, key_name, choice)):
                yield name, f"{sign(one)} does something else in {where}, where {name} has to work too"
            else:
                continue
            break


def _elsewhere(name: str, key_name: str, choice: Choice) -> str:
    """Another screen that has a key for something else, and shows this action with its key."""
    action = actions()[name].action
    common, acting = action in {one.action for one in keys.COMMON}, action in {one.action for one in keys.ACTING}
    for place, called in _PLACES.items():
        works = common or (acting and place == "in-details")
        if works and any(key_name in _names(f"{place}.{one.name}", choice) for one in _own(place)):
            return called
    return ""


def _shared(place: str, key: Key, name: str) -> bool:
    """Whether an action of the main table works in `place` too, so that its keys are taken there."""
    if "." in name:
        return place == "in-command" and name.startswith("in-details.") and key.action.startswith("scroll")
    if place in {_TYPED, "in-command", "in-gpus"}:
        return key.action == "redraw"
    common = key.action in {one.action for one in keys.COMMON} or key.action in _ANYWHERE
    return common or (place == "in-details" and key.action in _WITH_DETAILS)


def _beside_typing(key_name: str) -> bool:
    *modifiers, base = key_name.split("+")
    return bool({"ctrl", "alt"} & {*modifiers}) or base in {"escape", "tab"} or bool(re.fullmatch(r"f\d+", base))


def _names(name: str, choice: Choice) -> list[str]:
    """Textual's names of the keys that an action has with `choice`; none of what is no key."""
    if name not in choice:
        return actions()[name].keys.split(",")
    found = list[str]()
    for one in choice[name]:
        with contextlib.suppress(ValueError):
            found.append(textual_name(one))
    return found


def use(choice: Choice) -> None:
    """Give actions other keys, in which `wrong` finds nothing; once, before the interface is imported."""
    if not choice:
        return
    assert "gmg_tui.ui.app" not in sys.modules
    _chosen.update({name: tuple(given) for name, given in choice.items()})
    for name, key in actions().items():
        place = name.rpartition(".")[0]
        if name in choice:
            for built_in in {key.shown, *key.shown.split()}:
                keys.SIGNS[f"{place}.{built_in}" if place else built_in] = sign(choice[name][0])
    keys.KEYS = tuple(_remapped(key, key.name) for key in _BUILT_IN)
    for place, table in _TABLES.items():
        setattr(keys, table, tuple(_remapped(key, f"{place}.{key.name}") for key in _own(place)))
    keys.COMMAND = (*keys.COMMAND, *(key for key in keys.DETAILS if key.action.startswith("scroll")))
    keys.ACTING = _same(keys.ACTING)
    keys.COMMON = _same(keys.COMMON)
    for action, table in _OPENED.items():
        opener = next(key for key in _BUILT_IN if key.action == action)
        if opener.name in choice:
            (back,) = (key.name for key in _built_in(table) if key.action == "back")
            if f"{_place_of(table)}.{back}" in choice:
                continue
            changed = tuple(_returning(key, opener) if key.action == "back" else key for key in getattr(keys, table))
            setattr(keys, table, changed)


def _place_of(table: str) -> str:
    return next(place for place, name in _TABLES.items() if name == table)


def _built_in(table: str) -> tuple[Key, ...]:
    return _BUILT_IN_OF[_place_of(table)]


def _same(table: Sequence[Key]) -> tuple[Key, ...]:
    actions_of = {key.action for key in table}
    return tuple(key for key in keys.KEYS if key.action in actions_of)


def _remapped(key: Key, name: str) -> Key:
    if name in _NAMES_KEYS:
        key = key._replace(help=_WORD.sub(lambda found: keys.now(found[0]), key.help))
    elif name == f"{_TYPED}.redo-later":
        key = key._replace(help=key.help.replace("ctrl+z", keys.now("ctrl+z", _TYPED)))
    elif key.each:  # of the many keys that it has, others may take some
        taken = {textual_name(one) for place, given in _chosen.items() if "." not in place for one in given}
        return key._replace(keys=",".join(one for one in key.keys.split(",") if one not in taken))
    given = _chosen.get(name)
    if given is None:
        return key
    key = key._replace(help=_ALSO.sub("", key.help))
    names = [textual_name(one) for one in given]
    if _QUIT in key.keys.split(","):
        names.append(_QUIT)
    return key._replace(keys=",".join(dict.fromkeys(names)), shown=" ".join(map(sign, given)))


def _returning(key: Key, opener: Key) -> Key:
    """The key that returns from what `opener` opens, also by the other keys of that."""
    other = [textual_name(one) for one in _chosen[opener.name]]
    left = [one for one in key.keys.split(",") if one not in opener.keys.split(",")]
    shown = keys.now(key.shown) if key.shown == opener.shown else key.shown
    text = key.help.replace(f"; {opener.shown} there", f"; {keys.now(opener.shown)} there")
    return key._replace(keys=",".join(dict.fromkeys([*left, *other])), shown=shown, help=text)


def written(key: Key) -> list[str]:
    """The built-in keys of an action, as the settings have them."""
    return [_CHARACTERS.get(one, one) for one in key.keys.split(",") if one != _QUIT and not one.startswith("super+")]
