"""Other keys for the actions of the main table, as the user's settings have them.

The tables in `keys` are changed before a screen's module makes its bindings of them, so bindings, footer, help and
palette have the same keys. Textual's own keymap would leave the footer, the help and what messages name to the built-in ones.
"""

from __future__ import annotations

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
_OTHERS: Final = {
    "a worker's details": keys.DETAILS,
    "the processes": keys.PROCESSES,
    "the stacks": keys.STACKS,
    "the queue": keys.QUEUE,
    "the tuning": keys.TUNE,
    "all that was tried": keys.TRIED,
}
_NAMES_KEYS: Final = frozenset({"search", "mark"})
"""Actions whose help names other keys of the main table, as words of one letter."""
_WORD: Final = re.compile(r"(?<![\w'])[A-Za-z](?!\w)")
_CHARACTERS: Final = {textual_name(chr(code)): chr(code) for code in range(33, 127)}
_chosen: dict[str, tuple[str, ...]] = {}


def actions() -> dict[str, Key]:
    """The actions of the main table by the names that the settings have for them, with their built-in keys."""
    return {key.name: key for key in _BUILT_IN if not key.each}


def chosen() -> dict[str, tuple[str, ...]]:
    """The keys that `use` was given."""
    return dict(_chosen)


def wrong(choice: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """What is wrong with other keys of actions, each of `actions()`: the action, and why."""
    holders = dict[str, str]()
    for name, key in actions().items():
        if name not in choice:
            holders.update(dict.fromkeys(key.keys.split(","), name))
    for name, given in choice.items():
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
            elif place := _elsewhere(name, key_name):
                yield name, f"{sign(one)} does something else in {place}, where {name} has to work too"
            else:
                continue
            break


def _elsewhere(name: str, key_name: str) -> str:
    """Another screen that has a key for something else, and shows this action with its key."""
    action = actions()[name].action
    common, acting = action in {one.action for one in keys.COMMON}, action in {one.action for one in keys.ACTING}
    for place, table in _OTHERS.items():
        if (common or (acting and table is keys.DETAILS)) and any(key_name in one.keys.split(",") for one in table):
            return place
    return ""


def use(choice: Mapping[str, Sequence[str]]) -> None:
    """Give actions other keys, in which `wrong` finds nothing; once, before the interface is imported."""
    if not choice:
        return
    assert "gmg_tui.ui.app" not in sys.modules
    _chosen.update({name: tuple(given) for name, given in choice.items()})
    for key in _BUILT_IN:
        if key.name in choice:
            for built_in in {key.shown, *key.shown.split()}:
                keys.SIGNS[built_in] = sign(choice[key.name][0])
    keys.KEYS = tuple(map(_remapped, _BUILT_IN))
    keys.ACTING = _same(keys.ACTING)
    keys.COMMON = _same(keys.COMMON)
    for action, table in _OPENED.items():
        opener = next(key for key in _BUILT_IN if key.action == action)
        if opener.name in choice:
            changed = tuple(_returning(key, opener) if key.action == "back" else key for key in getattr(keys, table))
            setattr(keys, table, changed)


def _same(table: Sequence[Key]) -> tuple[Key, ...]:
    actions_of = {key.action for key in table}
    return tuple(key for key in keys.KEYS if key.action in actions_of)


def _remapped(key: Key) -> Key:
    if key.action in _NAMES_KEYS:
        key = key._replace(help=_WORD.sub(lambda found: keys.now(found[0]), key.help))
    if key.each:  # of the many keys that it has, others may take some
        taken = {textual_name(one) for given in _chosen.values() for one in given}
        return key._replace(keys=",".join(one for one in key.keys.split(",") if one not in taken))
    given = _chosen.get(key.name)
    if given is None:
        return key
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
    return [_CHARACTERS.get(one, one) for one in key.keys.split(",") if one != _QUIT]
