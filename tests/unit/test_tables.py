"""The row model and its renderers: one declaration of columns for the terminal, HTML, CSV and JSON."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gmg_tui import columns, tables, units
from gmg_tui.columns import Column


class Row(NamedTuple):
    name: str
    mib: float | None = None
    fps: float | None = None
    note: str | None = None


COLUMNS = (
    Column[Row]("name", lambda row: row.name, priority=100, left=True),
    Column[Row]("memory_mib", lambda row: row.mib, "VRAM", "GiB", units.gib, priority=10),
    Column[Row]("fps", lambda row: row.fps, "FPS", write=units.fps, priority=90),
    Column[Row]("note", lambda row: row.note, left=True, priority=5, limit=12),
)
ROWS = [Row("日本", 2048, 1234.5678), Row("abcdef", None, 20.0)]


def test_a_terminal_aligns_columns_and_leaves_out_those_without_a_value() -> None:
    assert tables.terminal(COLUMNS, ROWS) == [
        "name    VRAM GiB    FPS",
        "日本         2.0  1,235",
        "abcdef         –  20.00",
    ]
    assert tables.terminal(COLUMNS, []) == []


def test_a_narrow_terminal_drops_the_least_important_columns_and_names_them() -> None:
    assert tables.terminal(COLUMNS, ROWS, width=14) == [
        "name      FPS",
        "日本    1,235",
        "abcdef  20.00",
        "no room for: VRAM GiB",
    ]
    assert tables.terminal(COLUMNS, ROWS, width=1)[-1] == "no room for: VRAM GiB, FPS"


def test_a_style_does_not_count_as_width() -> None:
    columns = [*COLUMNS, Column[Row]("state", lambda row: "failed")]
    styled = tables.terminal(columns, ROWS, colour=True, styles={"failed": "red"})
    assert "\x1b[31mfailed\x1b[0m" in styled[1]
    assert len(styled) == 3


def test_csv_has_all_columns_and_values_in_full() -> None:
    rows = [*ROWS, Row("-B 4096", note="a,b\n")]
    assert b"".join(columns.as_csv(COLUMNS, rows)).decode() == (
        'name,memory_mib,fps,note\n日本,2048,1234.568,\nabcdef,,20.0,\n-B 4096,,,"a,b\n"\n'
    )


def test_html_escapes_texts_and_has_numbers_in_full() -> None:
    page = tables.html(COLUMNS, [Row("<b>\0", 1536.5)], kind=lambda row: "failed")
    assert "&lt;b&gt;·" in page
    assert '<td data-value="1536.5">1.5</td>' in page
    assert "FPS" not in page


@given(st.text(max_size=60))
def test_a_long_text_is_cut_in_a_terminal_and_whole_in_a_pipe(text: str) -> None:
    rows = [Row("日本", note=text)]
    whole = COLUMNS[3].text(rows[0])
    assert all(cell_len(line) <= 20 for line in tables.terminal(COLUMNS, rows, width=200))
    assert tables.terminal(COLUMNS, rows)[1] == f"日本  {whole}".rstrip()


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "[red]x", ":smile:", "\u202e"])
def test_a_cell_is_shown_literally_and_is_harmless(text: str) -> None:
    heading, line = tables.terminal(COLUMNS, [Row(text)])
    assert heading == "name"
    assert line == COLUMNS[0].text(Row(text))
    assert "\x1b" not in line
