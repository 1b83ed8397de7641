"""What the screens share: safe text, bindings and footers from key tables, the frame of a dialog, a menu."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Click, Key
from textual.geometry import Region, Size
from textual.screen import ModalScreen
from textual.scrollbar import ScrollBarRender
from textual.style import Style
from textual.widget import Widget

from gmg_tui.ui import keys as tables
from gmg_tui.ui.drawing.appearance import ASCII, STYLES, UNICODE, Appearance, Signs, spelled
from gmg_tui.ui.drawing.page import fold
from gmg_tui.ui.drawing.themes import make_appearance
from gmg_tui.ui.terminal.key_order import KeyOrder
from gmg_tui.ui.terminal.true_size import TrueSizeScreen

Result = TypeVar("Result")

ASCII_CLASS = "-ascii"
"""Class of the app when only ASCII may be drawn."""


def signs_of(app: App[Any]) -> Signs:
    """The signs that `app` may draw."""
    return ASCII if app.has_class(ASCII_CLASS) else UNICODE


def appearance_of(app: App[Any]) -> Appearance:
    """The styles and signs of the present theme of `app`."""
    return make_appearance(app.get_css_variables(), ascii_only=app.has_class(ASCII_CLASS))


def as_shown(text: str, app: App[Any]) -> str:
    """`text` made safe to show: nothing that a terminal would interpret, and only ASCII where that is wanted."""
    return Appearance({}, signs_of(app)).text(text)


def style(name: str, *more: str) -> str:
    """The style called `name` in `appearance.STYLES` for a `Content`, which follows the theme by itself (`more`: bold, underline)."""
    return " ".join((*more, f"${STYLES[name]}"))


def bindings(keys: Iterable[tables.Key], *, priority: bool = False) -> list[BindingType]:
    """The bindings that a table of keys makes; with `priority` before those of the widget that has the focus."""
    return [Binding(key.keys, key.action, key.label, show=False, priority=priority) for key in keys]


def app_bindings(keys: Iterable[tables.Key]) -> list[BindingType]:
    """The bindings of keys of the main table for a dialog, under which Textual looks for none of the app."""
    return bindings(key._replace(action=f"app.{key.action}") for key in keys)


def foot(keys: Iterable[tables.Key], signs: Signs) -> Content:
    """The foot of a dialog that is typed in, for the keys marked `footer`: all of them, in as many lines as it takes.

    A click runs the key's action on the screen, unless the action names another place.
    """
    parts: list[Content] = []
    for key in keys:
        if key.footer:
            action = key.action if "." in key.action.partition("(")[0] else f"screen.{key.action}"
            action = action if action.endswith(")") else f"{action}()"
            text = Content.assemble((f" {spelled(key.shown, signs)} ", "bold"), f"{spelled(key.label, signs)} ")
            parts.append(text.stylize(Style.from_meta({"@click": action})))
    return Content("").join(parts)


def scroll(widget: Widget, where: str) -> None:
    """Scroll `widget` at once: `up`, `down`, `page_up`, `page_down`, `home` or `end`."""
    getattr(widget, f"scroll_{where}")(animate=False)


class _WholeCells(ScrollBarRender):
    """A scrollbar without the partial cells that Textual draws at its ends."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]


def fit_scrollbar(widget: Widget) -> None:
    """Have the scrollbar of `widget`, which is mounted, drawn with what the app may draw."""
    if widget.app.has_class(ASCII_CLASS):
        widget.vertical_scrollbar.renderer = _WholeCells  # type: ignore[misc]  # as `ScrollBar.renderer` says


class Dialog(ModalScreen[Result], TrueSizeScreen[Result]):
    """A framed box in the middle of the screen; it scrolls where the terminal is small."""

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        & > .box {
            width: 76;
            max-width: 100%;
            height: auto;
            max-height: 100%;
            padding: 0 1;
            background: $surface;
            border: round $primary;
            border-title-color: $text;
            border-title-style: bold;
        }
        .foot { height: auto; margin-top: 1; color: $text-muted; link-style: none; link-style-hover: bold; }
    }
    App.-ascii Dialog > .box { border: ascii $primary; }
    """
    SCOPED_CSS: ClassVar[bool] = False
    """Rules that name the app must not be scoped to the dialog."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "cancel", show=False)]
    heading = ""
    """What stands in the frame."""

    def compose(self) -> ComposeResult:
        """The frame, with `contents` in it."""
        with VerticalScroll(classes="box", can_focus=False) as box:
            box.border_title = Text(as_shown(self.heading, self.app))
            yield from self.contents()

    def on_mount(self) -> None:
        """Scroll with what the app may draw."""
        fit_scrollbar(self.query_one(".box"))

    def contents(self) -> ComposeResult:
        """The widgets of the dialog."""
        raise NotImplementedError

    def action_cancel(self) -> None:
        """Close without doing anything."""
        self.dismiss(None)


class Lines(Widget):
    """A widget of lines that depend on its width. Nothing in them is parsed."""

    DEFAULT_CSS = """
    Lines { height: auto; width: 1fr; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id, markup=False)

    def lines(self, width: int) -> list[Content]:
        """The lines at `width`."""
        raise NotImplementedError

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The number of lines at `width`."""
        return len(self.lines(width))

    def render(self) -> Content:
        """All lines."""
        return Content("\n").join(self.lines(self.size.width))


class Choice(NamedTuple):
    """One thing to choose."""

    key: str
    """The key that chooses it."""
    label: str
    explanation: str
    """What it does, in one or two sentences; may be empty."""
    value: Any
    """What it stands for."""


class Menu(Lines, KeyOrder, can_focus=True):
    """A few choices, each with what it does: the arrows and enter, a click, or the choice's own key.

    Not an `OptionList`: that shows its highlight by colours only, and does not keep it in view in a dialog that scrolls.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k,shift+tab,left", "move(-1)", "up", show=False),
        Binding("down,j,tab,right", "move(1)", "down", show=False),
        Binding("enter,space", "take", "choose", show=False),
    ]

    def __init__(self, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._choices = tuple(choices)
        self._at = 0

    def lines(self, width: int) -> list[Content]:
        """Those of all choices."""
        return [line for number in range(len(self._choices)) for line in self._lines(number, width)]

    def _lines(self, number: int, width: int) -> list[Content]:
        """A choice's label, and what it does under it."""
        choice, at = self._choices[number], number == self._at
        label = as_shown(f"{choice.key}  {choice.label}", self.app)
        head = Content.styled(
            f"{signs_of(self.app).pointer if at else ' '} {label}", style("title" if at else "text", "bold")
        )
        text = as_shown(choice.explanation, self.app)
        more = [Content.styled(f"     {part}", style("dim")) for part in fold(text, width - 5)] if text else []
        return [line.stylize(Style.from_meta({"choice": number})) for line in (head, *more)]

    def on_key(self, event: Key) -> None:
        """Take the choice whose key it is."""
        for number, choice in enumerate(self._choices):
            if event.key == choice.key:
                event.stop()
                event.prevent_default()
                self.action_take(number)

    def on_click(self, event: Click) -> None:
        """Take the choice under the mouse."""
        if "choice" in event.style.meta:
            self.action_take(event.style.meta["choice"])

    def action_move(self, step: int) -> None:
        """Point at the next choice, or at the previous one."""
        self._at = (self._at + step) % len(self._choices)
        self.refresh()
        above = sum(len(self._lines(number, self.size.width)) for number in range(self._at))
        here = Region(0, self.virtual_region.y + above, 1, len(self._lines(self._at, self.size.width)))
        self.screen.query_one(".box").scroll_to_region(here, animate=False, force=True)

    def action_take(self, number: int | None = None) -> None:
        """Close the dialog with a choice, or with the one pointed at; a key that follows at once is another screen's."""
        self.screen.dismiss(self._choices[self._at if number is None else number].value)
