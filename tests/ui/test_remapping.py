"""Other keys for actions: their names, and what is wrong with them."""

from __future__ import annotations

import string
import subprocess
import sys

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
    of_others = (keys.DETAILS, keys.COMMAND[:2], keys.PROCESSES, keys.STACKS, keys.EDIT, keys.QUEUE, keys.GPUS)
    # Without the digits, of which each is given to their action.
    assert len(actions) == sum(map(len, (keys.KEYS, *of_others, keys.TUNE, keys.TRIED))) - 1
    built_in = {name: remapping.written(key) for name, key in actions.items()}
    assert not list(remapping.wrong(built_in))
    for name, key in actions.items():
        left = [one for one in key.keys.split(",") if one != "ctrl+c" and not one.startswith("super+")]
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
        ({"quit": ["c"], "in-details.command": ["C"], "in-queue.GPUs": ["C"]}, {}),
        ({"in-queue.skip": ["d"]}, {"in-queue.skip": "detach"}),
        ({"in-queue.skip": ["d"], "detach": ["D"]}, {}),
        ({"in-queue.skip": ["r"]}, {"in-queue.skip": "in-queue.retry"}),
        ({"in-queue.skip": ["x"]}, {}),
        ({"in-details.charts": ["x"]}, {"in-details.charts": "stop"}),
        ({"in-tuning.run": ["ctrl+l"]}, {"in-tuning.run": "redraw"}),
        ({"in-edit.apply": ["a"]}, {"in-edit.apply": "typed there"}),
        ({"in-edit.apply": ["f2"], "in-edit.double": ["ctrl+u"]}, {}),
        ({"view": ["f5", "nothing"]}, {"view": "no key"}),
    ],
)
def test_keys_that_are_in_each_others_way_are_named(choice: dict[str, list[str]], wrong: dict[str, str]) -> None:
    found = dict(remapping.wrong(choice))
    assert found.keys() == wrong.keys()
    for name, text in wrong.items():
        assert text in found[name]


def test_other_keys_stand_in_tables_helps_and_messages() -> None:
    # In a process of its own: tables are changed for good.
    choice = {
        "in-queue.skip": ["x"],
        "in-queue.up": ["ctrl+up"],
        "in-queue.retry": ["f5"],
        "in-details.page-down": ["f"],
        "in-edit.undo-earlier": ["f2"],
        "queue": ["J"],
        "in-queue.back": ["b"],
        "in-queue.down": ["n"],
        "tried": ["A"],
    }
    code = f"""
from gmg_tui.ui import keys, remapping
assert not list(remapping.wrong({choice}))
remapping.use({choice})
from gmg_tui.ui.screens.queue.screen import QueueScreen
from gmg_tui.ui.screens.help import _TABLES
queue = {{key.action: key for key in QueueScreen.KEYS}}
assert dict(_TABLES)["In the queue of a sweep"] is QueueScreen.KEYS
assert (queue["skip"].keys, queue["skip"].shown) == ("x", "x")
assert queue["shift('up')"].keys == "ctrl+up" and "also" not in queue["shift('up')"].help
assert queue["back"].keys == "b"
assert keys.now("r", "in-queue") == "f5" and keys.now("r") == "r"
assert [key.keys for key in keys.COMMAND if key.action == "scroll('page_down')"] == ["f"]
assert "f2 has undone" in {{key.action: key.help for key in keys.EDIT}}["redo"]
assert {{key.action: key.keys for key in keys.TRIED}}["back"] == "escape,A"
bound = {{binding.key: binding.action for binding in QueueScreen.BINDINGS}}
assert bound["x"] == "skip" and "s" not in bound
"""
    subprocess.run([sys.executable, "-c", code], check=True)
