"""Widgets that draw rows and refresh only changed cells, such as the footer with the keys."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import ClassVar

from rich.style import Style
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Region, Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from gmg_tui.ui.drawing import WHEEL_ROWS, Appearance, Row
from gmg_tui.ui.themes import appearance

_BLANK = Strip([], 0)
_MAX_GAP_CELLS = 8
"""Maximum unchanged cells to resend between two changes, which takes fewer bytes than moving the cursor."""


def is_seen(widget: Widget) -> bool:
    """Returns True if no page covers the widget's screen; a dialog leaves the screen visible."""
    stack = widget.app.screen_stack
    above = stack[stack.index(widget.screen) + 1 :] if widget.screen in stack else stack
    return all(isinstance(screen, ModalScreen) for screen in above)


def _cells(strip: Strip) -> list[tuple[str, Style | None]]:
    """Returns each cell's character and style; empty if any character is not one cell wide."""
    cells = [(character, style) for text, style, _ in strip for character in text]
    return cells if len(cells) == strip.cell_length else []


def changed_regions(y: int, old: Strip, new: Strip, width: int) -> list[Region]:
    """Returns the runs of cells that differ between two rows; the whole row for wide characters or a new width."""
    if old is new or old == new:
        return []
    old_cells, new_cells = _cells(old), _cells(new)
    if not old_cells or len(old_cells) != len(new_cells):
        return [Region(0, y, width, 1)]
    cells = zip(old_cells, new_cells, strict=True)
    different = [x for x, (old_cell, new_cell) in enumerate(cells) if old_cell != new_cell]
    runs: list[list[int]] = []
    for x in different:
        if runs and x - runs[-1][1] <= _MAX_GAP_CELLS:
            runs[-1][1] = x + 1
        else:
            runs.append([x, x + 1])
    return [Region(start, y, end - start, 1) for start, end in runs]


class Rows(ScrollView, can_focus=False, inherit_bindings=False):
    """A widget that renders its visible rows, and refreshes only changed cells."""

    DEFAULT_CSS = "Rows { overflow: hidden; scrollbar-size: 0 0; }"
    ALLOW_SELECT: ClassVar[bool] = False
    auto_links = False  # do not restyle clickable pieces

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as Textual names it
        super().__init__(id=id)
        self._strips: list[Strip] = []
        self._made_for: object = None
        """The size, theme and scroll offset that the strips were made for; None to make them again."""

    @property
    def text(self) -> str:
        """The text to copy; empty if there is none."""
        return ""

    @property
    def appearance(self) -> Appearance:
        """The styles of the current theme."""
        return appearance(self.app)

    def make_rows(self, width: int, height: int) -> Sequence[Row]:
        """Returns the visible rows, from the top."""
        raise NotImplementedError

    def make_strips(self, width: int, height: int) -> list[Strip]:
        """Returns the visible rows in the colours of the theme."""
        return [row.strip(self.appearance) for row in self.make_rows(width, height)]

    def update_rows(self) -> None:
        """Refreshes changed cells; a hidden widget is redrawn once it is shown."""
        if not self.is_mounted or not self.display or not self.room or not is_seen(self):
            if self._made_for is not None:
                self._made_for = None
                self.refresh()  # Textual would draw cached rows
            return
        if self._made_for != self._key:
            self.refresh()
            return
        old_strips, width = self._strips, self.room.width
        self._make()
        pairs = zip_longest(old_strips, self._strips, fillvalue=_BLANK)
        if changed := [region for y, (old, new) in enumerate(pairs) for region in changed_regions(y, old, new, width)]:
            self.refresh(*changed)

    @property
    def room(self) -> Size:
        """The size in cells, without the scrollbar."""
        return self.scrollable_content_region.size

    @property
    def _key(self) -> object:
        return self.room, self.app.theme, self.scroll_offset

    def _make(self) -> None:
        self._made_for = self._key
        self._strips = self.make_strips(*self.room)

    def scroll_wheel(self, steps: int) -> None:
        """Scrolls by steps of the mouse wheel, down if positive."""
        self.scroll_relative(y=steps * WHEEL_ROWS, animate=False)

    def reveal(self, first: int, end: int, headings: int = 0) -> None:
        """Scrolls just enough to show rows `first` to `end` (exclusive) below `headings` rows, unless the size is 0."""
        top = min(first, max(round(self.scroll_y), end + headings - self.size.height))
        if self.size and top != round(self.scroll_y):
            self.scroll_to(y=top, animate=False, force=True)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scrolls up."""
        event.prevent_default().stop()
        self.scroll_wheel(-1)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scrolls down."""
        event.prevent_default().stop()
        self.scroll_wheel(1)

    def action_go(self, direction: str) -> None:
        """Scrolls a line (`line-up`, `line-down`) or a page (`up`, `down`), or to an end (`home`, `end`)."""
        page = max(1, self.size.height - 1)
        steps = {"line-up": -1, "line-down": 1, "up": -page, "down": page, "home": -1e9, "end": 1e9}
        self.scroll_relative(y=steps[direction], animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """Returns row `y`, padded to the full width."""
        if self._made_for != self._key:
            self._make()
        strip = self._strips[y] if y < len(self._strips) else _BLANK
        return strip.adjust_cell_length(self.room.width, self.appearance["text"])


class Lines(Rows):
    """Rows that a function returns for a width and a height."""

    def __init__(self, make: Callable[[int, int], Sequence[Row]], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._make_lines = make
        self._subject: object = None

    def make_rows(self, width: int, height: int) -> Sequence[Row]:
        """Returns the rows."""
        return self._make_lines(width, height)

    def show(self, subject: object) -> None:
        """Redraws if `subject`, which the rows depend on, has changed."""
        if subject != self._subject:
            self._subject = subject
            self.update_rows()

    def fit(self) -> int:
        """Sets the height to the number of rows, and returns that number."""
        self.styles.height = count = len(self._make_lines(self.app.size.width, 0))
        self.update_rows()
        return count


class KeysFooter(Rows):
    """A footer with the keys that fit; those without an effect are dimmed."""

    DEFAULT_CSS = "KeysFooter { dock: bottom; height: 1; }"

    def __init__(self, has_effect: Callable[[str], bool]) -> None:
        super().__init__()
        self._has_effect = has_effect

    def on_mount(self) -> None:
        """Subscribes to changes of the bindings and the snapshot."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.update_rows())
        self.watch(self.app, "snapshot", self.update_rows, init=False)

    def make_rows(self, width: int, height: int) -> Sequence[Row]:
        """Returns the row of keys."""
        row, descriptions = Row(width), set[str]()
        for key, active in self.screen.active_bindings.items():
            text, display = active.binding.description, self.app.get_key_display(active.binding)
            if not active.binding.show or text in descriptions:
                continue
            if len(display) + len(text) + 1 > row.room:
                break
            descriptions.add(text)
            is_dim = not active.enabled or not self._has_effect(active.binding.action)
            styles, click = ("dim", "dim") if is_dim else ("title", "text"), ("app.simulate_key", key)
            row.add(display, styles[0], click=click).add(f" {text}", styles[1], click=click).add(" ")
        return [row]
