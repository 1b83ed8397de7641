"""Plain-text tables: what stands under what, whatever the cells hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gmg_tui import tables


def test_text_is_on_the_left_and_numbers_are_on_the_right() -> None:
    rows = [("name", "n"), ("a", "1"), ("long name", "100")]
    assert tables.lines(rows, "lr") == ["name         n", "a            1", "long name  100"]
    assert tables.lines([], "lr") == []


def test_wide_characters_keep_the_columns_straight() -> None:
    lines = tables.lines([("日本", "1"), ("abcdef", "2")], "lr")
    assert lines == ["日本    1", "abcdef  2"]
    assert len(set(map(cell_len, lines))) == 1


def test_a_style_does_not_count_as_width() -> None:
    plain = tables.lines([("state", "x"), ("ok", "y")], "ll")
    styled = tables.lines([("state", "x"), ("ok", "y")], "ll", style=lambda row, _, cell: f"<{row}>{cell}")
    assert [line.replace("<0>", "").replace("<1>", "") for line in styled] == plain


@pytest.mark.parametrize(
    ("text", "cut"), [("abcde", "abcde"), ("abcdef", "abcd…"), ("日本語", "日本…"), ("a" * 500, "aaaa…")]
)
def test_what_is_too_long_ends_in_an_ellipsis(text: str, cut: str) -> None:
    assert tables.cut(text, 5) == cut


@given(st.text(max_size=60), st.integers(2, 30))
def test_a_cut_text_fits(text: str, limit: int) -> None:
    assert tables.text_width(tables.cut(text, limit)) <= limit
