"""Other keys for actions: their names, and what is wrong with them."""

from __future__ import annotations

import string

import pytest
from textual.keys import _character_to_key

from gmg_tui.ui import keys, remapping
from gmg_tui.ui.key_names import sign, textual_name


def test_characters_have_the_names_that_textual_has_for_them() -> None:
    for character in string.ascii_letters + string.digits + string.punctuation + "äß":
        assert textual_name(character) == _character_to_key(character), character
        assert sign(character) == character


@pytest.mark.parametrize(
    ("written", "name", "shown"),
    [
        ("F5", "f5", "f5"),
        ("esc", "escape", "esc"),
        ("Return", "enter", "enter"),
        ("PgUp", "pageup", "PgUp"),
        ("Ctrl+X", "ctrl+x", "ctrl+X"),
        ("shift+left", "shift+left", "shift+←"),
        ("alt+ctrl+d", "ctrl+alt+d", "ctrl+alt+d"),
        ("alt+?", "alt+question_mark", "alt+?"),
        ("+", "plus", "+"),
    ],
)
def test_keys_with_names_and_modifiers(written: str, name: str, shown: str) -> None:
    assert textual_name(written) == name
    assert sign(written).lower() == shown.lower()


@pytest.mark.parametrize(
    "written", ["", " ", "\n", "foo", "f99", "meta+x", "ctrl+ctrl+x", "ctrl+", "shift+x", "ctrl+i"]
)
def test_what_is_no_key_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        textual_name(written)


def test_each_action_has_a_name_of_its_own_and_its_own_keys_are_right() -> None:
    actions = remapping.actions()
    assert len(actions) == len(keys.KEYS) - 1  # the digits, of which each is given to their action
    built_in = {name: remapping.written(key) for name, key in actions.items()}
    assert not list(remapping.wrong(built_in))
    for name, key in actions.items():
        left = [one for one in key.keys.split(",") if one != "ctrl+c"]
        assert [textual_name(one) for one in built_in[name]] == left


@pytest.mark.parametrize(
    ("choice", "wrong"),
    [
        ({"restart": ["x"]}, {"restart": "stop"}),
        ({"restart": ["x"], "stop": ["r"]}, {}),
        ({"restart": ["f5"], "stop": ["f6", "f5"]}, {"stop": "restart"}),
        ({"restart": ["ctrl+c"]}, {"restart": "always quits"}),
        ({"quit": ["c"]}, {"quit": "a worker's details"}),
        ({"restart": ["1"]}, {"restart": "a worker's details"}),
        ({"view": ["1"]}, {}),
        ({"view": ["f5", "nothing"]}, {"view": "no key"}),
    ],
)
def test_keys_that_are_in_each_others_way_are_named(choice: dict[str, list[str]], wrong: dict[str, str]) -> None:
    found = dict(remapping.wrong(choice))
    assert found.keys() == wrong.keys()
    for name, text in wrong.items():
        assert text in found[name]
