"""What the pages share: a title, the keys, `esc`; and a table that follows the engine, with all about its selected row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Generic, NamedTuple, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import DataTable, Static

from gmg_tui.model.errors import GmgError
from gmg_tui.ui.drawing import Appearance, KeysFooter, ink, plain, safe
from gmg_tui.ui.pages.table import RowTable
from gmg_tui.ui.terminal import TrueSizeScreen

if TYPE_CHECKING:
    from gmg_tui.ui.app import GmgApp

T = TypeVar("T")
_LABEL_CELLS: Final = 13


class Scroll(VerticalScroll):
    """Scrolls with the keys of the main screen too."""

    DEFAULT_CSS = "Scroll { height: 1fr; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", "Up", show=False, id="up"),
        Binding("j", "scroll_down", "Down", show=False, id="down"),
    ]


def waiting(size: Size) -> Iterable[Content]:
    """What a drawing shows before the engine has answered."""
    return (Content.styled("Waiting for the engine", "$text-muted"),)


class Drawing(Widget):
    """Lines that a function draws for the present size, anew where what they show has changed."""

    DEFAULT_CSS = "Drawing { height: 1fr; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown: object = None
        self._draw: Callable[[Size], Iterable[Content]] = waiting

    def show(self, shown: object, draw: Callable[[Size], Iterable[Content]]) -> None:
        """Show what `draw` makes of `shown`."""
        if shown != self._shown:
            self._shown, self._draw = shown, draw
            self.refresh()

    def render(self) -> Content:
        """The lines."""
        return Content("\n").join(self._draw(self.size))


class Fact(NamedTuple):
    """A label and its text; a heading where there is no text."""

    label: str
    text: str = ""
    style: str = "text"
    """The name of the text's style."""


class Facts(Widget):
    """Texts that wrap beside their labels."""

    DEFAULT_CSS = "Facts { height: auto; width: 1fr; }"

    def __init__(self, facts: Sequence[Fact] = (), *, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id)
        self._facts = tuple(facts)

    def show(self, facts: Iterable[Fact]) -> None:
        """Show these facts."""
        facts = tuple(facts)
        if facts != self._facts:
            self._facts = facts
            self.refresh(layout=True)

    def render(self) -> Group:
        """The facts, those after a heading below an empty line."""
        appearance: Appearance = self.app.appearance  # type: ignore[attr-defined]

        def text(of: str, style: str) -> Text:
            return Text(plain(of).plain, ink(appearance[style]))

        parts: list[RenderableType] = []
        for fact in self._facts:
            if not fact.text:
                parts += [""] * bool(parts) + [text(fact.label, "title")]
            if not fact.text or not parts:
                table = Table.grid(padding=(0, 1))
                table.add_column(width=_LABEL_CELLS, overflow="fold")
                table.add_column(overflow="fold")
                parts.append(table)
            if fact.text:
                table.add_row(text(fact.label, "dim"), text(fact.text, fact.style))
        return Group(*parts)


class Page(TrueSizeScreen[None]):
    """Fills the terminal over the main screen, until `esc`."""

    DEFAULT_CSS = """
    Page {
        layout: vertical;
        overflow: hidden;
        #title { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """
    app: GmgApp
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", id="back", tooltip="Go back one step.")]
    PERIOD_S: ClassVar[float] = 3.0
    """Seconds from an answer of the engine to the next query."""
    OPENED_BY: ClassVar[str] = ""
    """The action that opens the page from any screen; not available while it is open."""
    PALETTE: ClassVar[Sequence[tuple[str, str, str]]] = ()
    """Commands without a key: title, help and action of each."""

    shows_worker = False
    """Whether the keys that act on a worker act on the one that the page shows."""

    def __init__(self) -> None:
        super().__init__()
        self._title = Static(id="title")
        self.failure = ""
        """Why what is shown may be out of date."""

    def compose(self) -> ComposeResult:
        """The parts, from the top."""
        yield self._title
        yield from self.body()
        yield KeysFooter()

    def body(self) -> ComposeResult:
        """What is between the title and the keys."""
        raise NotImplementedError

    def title_text(self) -> Content:
        """The title."""
        raise NotImplementedError

    def show_title(self) -> None:
        """Show the title, and the failure."""
        failure = Content.styled(safe(f"⚠ {self.failure}  "), "$warning") if self.failure else Content()
        self._title.update(failure + self.title_text(), layout=False)

    @work(exclusive=True, group="poll")
    async def poll(self) -> None:
        """Ask now, and again every `PERIOD_S`."""
        while True:
            try:
                await self.ask()
                self.failure = ""
            except GmgError as error:
                self.failure = str(error)
            self.show_title()
            await asyncio.sleep(self.PERIOD_S)

    async def ask(self) -> None:
        """Ask the engine for what snapshots do not have and show it. Raises `GmgError` when it does not answer."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether the action is available; on a read-only screen none that changes something is."""
        return self.app.permits(action)

    @property
    def palette(self) -> Sequence[tuple[str, str, str]]:
        """What the palette has of this page without a key."""
        return self.PALETTE

    def action_back(self) -> None:
        """Return to the screen before."""
        self.dismiss(None)


class TablePage(Page, Generic[T]):
    """A table of what the engine knows, and all about the row under the cursor."""

    DEFAULT_CSS = """
    TablePage {
        RowTable { height: 1fr; scrollbar-size: 0 1; background: $background; }
        #selected { height: 3; max-height: 25%; padding: 0 1; color: $text-muted; }
    }
    """
    ENTER: ClassVar[str] = ""
    """The action of `enter`, and of a click on the selected row."""

    def __init__(self, table: RowTable[T]) -> None:
        super().__init__()
        self.table = table
        self._selected = Static(id="selected")

    def body(self) -> ComposeResult:
        """The table and the selected row."""
        yield from (self.table, self._selected)

    def selected_text(self, row: T) -> Content:
        """All about the selected row, whose own cells may be cut."""
        raise NotImplementedError

    def show_rows(self, rows: Sequence[T], empty: str = "") -> None:
        """Show these rows, and the selected one below them, or why there are none."""
        self.table.show(rows)
        self.show_selected(empty)

    def show_selected(self, empty: str = "") -> None:
        """Show all about the selected row."""
        row = self.table.selected
        self._selected.update(Content(empty) if row is None else self.selected_text(row))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Show all about the row to which the cursor has moved."""
        if event.data_table is self.table and self.table.selected is not None:
            self.show_selected()

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Do what `enter` does, for a click on the selected row."""
        if self.ENTER and event.data_table is self.table:
            await self.app.run_action(self.ENTER, self)

    @property
    def palette(self) -> Sequence[tuple[str, str, str]]:
        """What the page has, and the orders of its table."""
        again = "Sort the rows; again: the other way round."
        sort = ((f"Sort by {each.heading}", again, f"sort_by({each.name!r})") for each in self.table.shown_columns)
        return (*self.PALETTE, *sort)

    def action_sort_by(self, name: str) -> None:
        """Sort by the column called `name`."""
        self.table.sort_by(name)
