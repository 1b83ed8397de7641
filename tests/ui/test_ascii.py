"""What `--ascii` draws: as many cells as without, all of them ASCII."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gmg_tui.ui.drawing import SIGNS
from gmg_tui.ui.themes import in_ascii


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("╭─┬─╮ │ ┃ ┗━┛", "+-+-+ | # #=#"),
        (SIGNS.levels, " .:-=+*##"),
        ("⣀⣤⣶⣿ ⠁", ":=*# ."),
        ("█▌░", "#=."),
        ("2 → 4 … 61 °C ±3 %", "2 > 4 . 61  C ~3 %"),
        ("é 好", "? ??"),
    ],
)
def test_each_character_has_an_ascii_equivalent(text: str, drawn: str) -> None:
    assert in_ascii(text) == drawn


@given(st.text())
def test_ascii_text_keeps_its_width(text: str) -> None:
    assert in_ascii(text).isascii()
    assert len(in_ascii(text)) == cell_len(text) or any(
        ord(character) < 0x20 or ord(character) == 0x7F for character in text
    )


def test_states_have_distinct_symbols() -> None:
    signs = [in_ascii(sign) for sign in (*SIGNS.states.values(), SIGNS.warn)]
    assert len(set(signs)) == len(signs)
