"""What the screens share: safe text, bindings and foot lines from key tables, the frame of a dialog, a menu."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.scrollbar import ScrollBarRender
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from gmg_tui.ui.keys import Key
from gmg_tui.ui.look import ASCII, STYLES, UNICODE, Look, Signs
from gmg_tui.ui.themes import make_look

Result = TypeVar("Result")

ASCII_CLASS = "-ascii"
"""Class of the app when only ASCII may be drawn."""
_WORDS = str.maketrans({"↑": "up", "↓": "down", "←": "left", "→": "right", "·": "-", "–": "-", "…": "...", "Σ": "Sum"})


def signs_of(app: App[Any]) -> Signs:
    """The signs that `app` may draw."""
    return ASCII if app.has_class(ASCII_CLASS) else UNICODE


def look_of(app: App[Any]) -> Look:
    """The styles and signs of the theme that `app` wears now."""
    return make_look(app.get_css_variables(), ascii_only=app.has_class(ASCII_CLASS))


def as_shown(text: str, app: App[Any]) -> str:
    """`text` as `app` may show it: nothing that a terminal would act on, and ASCII where only that is wanted."""
    return Look({}, signs_of(app)).text(text)


def spelled(text: str, signs: Signs) -> str:
    """`text` with its arrows and dashes in ASCII where the signs are."""
    return text.translate(_WORDS) if signs.levels.isascii() else text


def style(name: str, *more: str) -> str:
    """The style called `name` in `look.STYLES` for a `Content`, which follows the theme by itself (`more`: bold, underline)."""
    return " ".join((*more, f"${STYLES[name]}"))


def bindings(keys: Iterable[Key]) -> list[BindingType]:
    """The bindings that a table of keys makes."""
    return [Binding(key.keys, key.action, key.label, show=False) for key in keys]


def foot(keys: Iterable[Key], signs: Signs, namespace: str = "screen") -> Content:
    """The foot line of a table of keys; each can be clicked.

    Args:
        keys: The table; only what has its place in the footer is taken.
        signs: ASCII ones spell arrows out.
        namespace: Whose actions they are: `screen` or `app`.
    """
    parts: list[Content] = []
    for key in keys:
        if key.footer:
            action = key.action if key.action.endswith(")") else f"{key.action}()"
            text = Content.assemble((f" {spelled(key.shown, signs)} ", "bold"), f"{spelled(key.label, signs)} ")
            parts.append(text.stylize(Style.from_meta({"@click": f"{namespace}.{action}"})))
    return Content("").join(parts)


def scrolling() -> list[BindingType]:
    """The keys that scroll, for a screen with `action_scroll`."""
    return [
        Binding("up,k", "scroll('up')", "up", show=False),
        Binding("down,j", "scroll('down')", "down", show=False),
        Binding("pageup", "scroll('page_up')", "page up", show=False),
        Binding("pagedown,space", "scroll('page_down')", "page down", show=False),
        Binding("home", "scroll('home')", "top", show=False),
        Binding("end", "scroll('end')", "bottom", show=False),
    ]


def scroll(widget: Widget, where: str) -> None:
    """Scroll `widget` at once: `up`, `down`, `page_up`, `page_down`, `home` or `end`."""
    ways: dict[str, Callable[..., None]] = {
        "up": widget.scroll_up,
        "down": widget.scroll_down,
        "page_up": widget.scroll_page_up,
        "page_down": widget.scroll_page_down,
        "home": widget.scroll_home,
        "end": widget.scroll_end,
    }
    ways[where](animate=False)


class _WholeCells(ScrollBarRender):
    """A scrollbar without the signs of a part of a cell that Textual draws at its ends."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]


def fit_scrollbar(widget: Widget) -> None:
    """Have the scrollbar of `widget`, which is mounted, drawn with what the app may draw."""
    if widget.app.has_class(ASCII_CLASS):
        widget.vertical_scrollbar.renderer = _WholeCells  # type: ignore[misc]  # as `ScrollBar.renderer` says


class Dialog(ModalScreen[Result]):
    """A framed box in the middle of the screen, over what was there; it scrolls where the terminal is small."""

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
    """A rule that names the app stands outside the dialog."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "cancel", show=False)]
    TITLE_TEXT: ClassVar[str] = ""

    def compose(self) -> ComposeResult:
        """The frame, with `contents` in it."""
        with VerticalScroll(classes="box", can_focus=False) as box:
            box.border_title = Text(as_shown(self.heading(), self.app))
            yield from self.contents()

    def on_mount(self) -> None:
        """Scroll with what the app may draw."""
        fit_scrollbar(self.query_one(".box"))

    def heading(self) -> str:
        """What stands in the frame."""
        return self.TITLE_TEXT

    def contents(self) -> ComposeResult:
        """The widgets of the dialog."""
        raise NotImplementedError

    def action_cancel(self) -> None:
        """Close without doing anything."""
        self.dismiss(None)


class Choice(NamedTuple):
    """One thing to choose."""

    key: str
    """The key that chooses it."""
    label: str
    explanation: str
    """What it does, in one or two sentences; may be empty."""
    value: Any
    """What it stands for."""


class Menu(Vertical, can_focus=True):
    """A few choices, each with what it does: the arrows and enter, a click, or the choice's own key."""

    DEFAULT_CSS = """
    Menu { height: auto; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k,shift+tab,left", "move(-1)", "up", show=False),
        Binding("down,j,tab,right", "move(1)", "down", show=False),
        Binding("enter,space", "take", "choose", show=False),
    ]

    class Taken(Message):
        """A choice was made."""

        def __init__(self, value: Any) -> None:
            super().__init__()
            self.value = value

    def __init__(self, choices: Sequence[Choice], *, at: int = 0) -> None:
        super().__init__()
        self._choices = tuple(choices)
        self._at = at

    def compose(self) -> ComposeResult:
        """One item for each choice."""
        for number, choice in enumerate(self._choices):
            yield _Item(number, choice)

    def on_mount(self) -> None:
        """Point at the choice to begin with."""
        self._point()

    def on_key(self, event: Any) -> None:
        """Take the choice whose key it is."""
        for choice in self._choices:
            if event.key == choice.key:
                event.stop()
                self.post_message(self.Taken(choice.value))

    def action_move(self, step: int) -> None:
        """Point at the next choice, or at the one before."""
        self._at = (self._at + step) % len(self._choices)
        self._point()

    def action_take(self) -> None:
        """Take the choice pointed at."""
        self.post_message(self.Taken(self._choices[self._at].value))

    def take(self, number: int) -> None:
        """Take the choice with this number."""
        self._at = number
        self._point()
        self.action_take()

    def _point(self) -> None:
        for item in self.query(_Item):
            item.point(item.number == self._at)
            if item.number == self._at:
                self.call_after_refresh(item.scroll_visible, animate=False)


class _Item(Vertical):
    """One choice of a menu."""

    DEFAULT_CSS = """
    _Item {
        height: auto;
        & > .label { text-style: bold; }
        & > .explanation { padding-left: 5; color: $text-muted; }
        &.-at > .label { color: $primary; }
        &:hover > .label { text-style: bold underline; }
    }
    """

    def __init__(self, number: int, choice: Choice) -> None:
        super().__init__()
        self.number = number
        self._choice = choice

    def compose(self) -> ComposeResult:
        """The label, and what the choice does under it."""
        yield Static("", classes="label", markup=False)
        if self._choice.explanation:
            yield Static(as_shown(self._choice.explanation, self.app), classes="explanation", markup=False)

    def point(self, at: bool) -> None:
        """Draw the choice with or without the pointer."""
        self.set_class(at, "-at")
        pointer = signs_of(self.app).pointer if at else " "
        label = as_shown(self._choice.label, self.app)
        self.query_one(".label", Static).update(f"{pointer} {self._choice.key}  {label}", layout=False)

    def on_click(self) -> None:
        """Take this choice."""
        menu = self.parent
        assert isinstance(menu, Menu)
        menu.take(self.number)
