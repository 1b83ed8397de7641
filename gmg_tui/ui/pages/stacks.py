"""What each rank of a group does right now: its Python stack, beside those of the others."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ItemGrid
from textual.content import Content
from textual.widgets import Static

from gmg_tui.client import Source
from gmg_tui.errors import GmgError
from gmg_tui.model import Stacks
from gmg_tui.ui.drawing.appearance import safe
from gmg_tui.ui.pages.page import COMMON, Page, Scroll

_FRAME: Final = re.compile(r'\s*File "(?P<path>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<name>.*)')
_ORDER: Final = re.compile(r" \(most recent call first\):$")
_MIN_WIDTH: Final = 46
"""Cells that a stack needs; with less the ranks stand one under the other."""


def title(stacks: Stacks) -> str:
    """`rank 1 · gpu1`, or the slot alone."""
    return stacks.slot if stacks.rank is None else f"rank {stacks.rank} · {stacks.slot}"


def frames(stacks: Stacks) -> list[str]:
    """The text with its frames as `step  loop.py:12`, the thread that was asked first."""
    threads: list[list[str]] = [[]]
    for line in stacks.text.splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            threads[-1].append(f"  {frame['name']}  {frame['path'].rpartition('/')[2]}:{frame['line']}")
        elif line.strip():
            if threads[-1] and "hread" in line:
                threads.append([])
            threads[-1].append(_ORDER.sub("", line).strip())
    threads.sort(key=lambda rows: not rows or not rows[0].startswith("Current thread"))
    return [row for rows in threads for row in rows]


def copied(all_stacks: Sequence[Stacks]) -> str:
    """All of them as they were written, for the clipboard."""
    return "\n\n".join(f"{title(one)}\n{one.text or one.error or ''}" for one in all_stacks)


class StacksPage(Page, inherit_bindings=False):
    """The stacks of the worker on a slot and of all ranks of its group, as they were when they were asked for.

    They are asked for once, because a stack is of one moment, and asking interrupts a rank.
    """

    DEFAULT_CSS = """
    StacksPage {
        ItemGrid { height: auto; grid-gutter: 1 2; grid-rows: auto; padding: 1 1 0 1; }
        ItemGrid > Static { height: auto; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *COMMON,
        Binding("r", "again", "Ask again", id="restart"),
        Binding("y", "copy", "Copy", id="copy"),
    ]

    def __init__(self, engine: Source, slot: str, slots: Sequence[str]) -> None:
        """`slots` are those of the group."""
        super().__init__()
        self._engine = engine
        self._slot = slot
        self._slots = ", ".join(slots)
        self._stacks: tuple[Stacks, ...] = ()
        self._asked_at = ""
        self._asking = False
        self._grid = ItemGrid(min_column_width=_MIN_WIDTH)

    def body(self) -> ComposeResult:
        """The stacks, side by side where there is room."""
        with Scroll():
            yield self._grid

    def on_mount(self) -> None:
        """Ask for the stacks."""
        self.action_again()

    def title_text(self) -> Content:
        """The slots, and when their stacks were asked for."""
        when = "asking …" if self._asking else f"asked at {self._asked_at}" if self._asked_at else ""
        return Content.assemble((safe(self._slots), "bold $primary"), (safe(f"  Python stacks  {when}"), "$text-muted"))

    @work(group="asking")
    async def _ask(self) -> None:
        try:
            self._stacks = await self._engine.stacks(self._slot)
            self._asked_at, self.failure = time.strftime("%H:%M:%S"), ""
        except GmgError as error:
            self.failure = str(error)
        self._asking = False
        self.show_title()
        await self._show_stacks()

    async def _show_stacks(self) -> None:
        """Show what not all have brighter than what they share."""
        lines = [frames(stacks) for stacks in self._stacks]
        counts = Counter(line for rows in lines for line in set(rows))
        answered = sum(bool(rows) for rows in lines)
        shared = {line for line, count in counts.items() if answered > 1 and count == answered}
        texts = [self._text(stacks, rows, shared) for stacks, rows in zip(self._stacks, lines, strict=True)]
        async with self.batch():
            await self._grid.remove_children()
            await self._grid.mount_all(Static(text) for text in texts)

    def _text(self, stacks: Stacks, lines: Sequence[str], shared: set[str]) -> Content:
        parts = [Content.styled(safe(title(stacks)), "bold $primary")]
        if stacks.error is not None:
            parts.append(Content.styled(safe(stacks.error), "$warning"))
        for line in lines:
            muted = not line.startswith("  ") or line in shared
            parts.append(Content.styled(safe(line), "$text-muted" if muted else "$foreground"))
        return Content("\n").join(parts)

    # Keys

    def action_again(self) -> None:
        """Ask again, unless the last question is still open."""
        if not self._asking:
            self._asking = True
            self.show_title()
            self._ask()

    def action_copy(self) -> None:
        """Put all stacks as they were written on the terminal's clipboard."""
        if self._stacks:
            self.app.copy_to_clipboard(copied(self._stacks))
            self.tell("Copied, if the terminal supports OSC 52.")
        else:
            self.tell("There is nothing to copy yet.")
