"""What a page's table shows, as text."""

from __future__ import annotations

from typing import Any

from textual.app import App

from gmg_tui.ui.pages.page import TablePage


def page(app: App[Any]) -> TablePage[Any]:
    """The page that is shown."""
    assert isinstance(app.screen, TablePage)
    return app.screen


def _cells(app: App[Any]) -> list[list[str]]:
    table = page(app).table
    return [[cell.__rich__().plain for cell in table.get_row(row.key)] for row in table.ordered_rows]


def rows(app: App[Any]) -> list[str]:
    """The rows of the table, from the top, with single spaces; also those that are scrolled out of view."""
    return [" ".join(" ".join(cells).split()) for cells in _cells(app)]


def column(app: App[Any], name: str) -> list[str]:
    """The cells of the column with this name, from the top."""
    number = [column.key.value for column in page(app).table.ordered_columns].index(name)
    return [cells[number] for cells in _cells(app)]


def selected(app: App[Any]) -> str:
    """The row under the cursor."""
    return rows(app)[page(app).table.cursor_row]


def headings(app: App[Any]) -> str:
    """The headings of the table, with single spaces."""
    return " ".join(str(column.label) for column in page(app).table.ordered_columns)
