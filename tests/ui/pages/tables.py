"""What a page's table shows, as text."""

from typing import Any

from textual.app import App

from gmg_tui.ui.table import Table


def table(app: App[Any]) -> Table[Any]:
    """The table that is shown, the last one of several."""
    return [each for each in app.screen.query(Table) if each.display and each.size][-1]


def _cells(app: App[Any]) -> list[list[str]]:
    of = table(app)
    return [[text for text, _ in cells] for cells in of.measure({key: of._rows[key] for key in of._keys}).values()]


def rows(app: App[Any]) -> list[str]:
    """The rows of the table, from the top, with single spaces; also those that are scrolled out of view."""
    return [" ".join(" ".join(cells).split()) for cells in _cells(app)]


def column(app: App[Any], name: str) -> list[str]:
    number = [column.name for column in table(app).shown_columns].index(name)
    return [cells[number] for cells in _cells(app)]


def selected(app: App[Any]) -> str:
    return rows(app)[table(app).cursor_row]


def headings(app: App[Any]) -> str:
    of = table(app)
    return " ".join(str(of._heading(of._full_width)).split())
