"""What each rank of a group does right now: its Python stack, beside those of the others."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from textual import work
from textual.app import ComposeResult
from textual.containers import ItemGrid
from textual.content import Content
from textual.widgets import Static

from gmg_tui.client import Source
from gmg_tui.errors import GmgError
from gmg_tui.model import Stacks
from gmg_tui.ui.drawing import safe
from gmg_tui.ui.pages.page import Page, Scroll

_FRAME: Final = re.compile(r'\s*File "(?P<path>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<name>.*)')
_ORDER: Final = re.compile(r" \(most recent call first\):$")
_MIN_WIDTH: Final = 46
"""Cells that a stack needs; with less the ranks stand one under the other."""


def frames(stacks: Stacks) -> list[str]:
    """The text with its frames as `step  loop.py:12`, the current thread first."""
    threads: list[list[str]] = [[]]
    for line in stacks.text.splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            threads[-1].append(f"  {frame['name']}  {frame['path'].rpartition('/')[2]}:{frame['line']}")
        elif line.strip():
            if threads[-1] and "hread" in line:
                threads.append([])
            threads[-1].append(_ORDER.sub("", line).strip())
    threads.sort(key=lambda lines: not lines or not lines[0].startswith("Current thread"))
    return [line for lines in threads for line in lines]


def _title(stacks: Stacks) -> str:
    """`rank 1 · gpu1`, or the slot alone."""
    return stacks.slot if stacks.rank is None else f"rank {stacks.rank} · {stacks.slot}"


class StacksPage(Page):
    """The stacks of the worker on a slot and of all ranks of its group, as they were when they were asked for.

    They are asked for once, because a stack is of one moment, and asking interrupts a rank.
    """

    DEFAULT_CSS = """
    StacksPage {
        ItemGrid { height: auto; grid-gutter: 1 2; grid-rows: auto; padding: 1 1 0 1; }
        ItemGrid > Static { height: auto; }
    }
    """
    PALETTE = (
        ("Refresh stacks", "Ask for the stacks again.", "again"),
        ("Copy stacks", "Copy all stacks as they were written.", "copy"),
    )

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
        when = "asking …" if self._asking else self._asked_at
        return Content.assemble((safe(self._slots), "bold $primary"), (f"  Python stacks  {when}", "$text-muted"))

    def action_again(self) -> None:
        """Ask for the stacks, unless the last question is still open."""
        if not self._asking:
            self._asking = True
            self.show_title()
            self._ask()

    @work(group="asking")
    async def _ask(self) -> None:
        try:
            self._stacks = await self._engine.stacks(self._slot)
            self._asked_at, self.failure = f"asked at {time.strftime('%H:%M:%S')}", ""
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
        parts = [Content.styled(safe(_title(stacks)), "bold $primary")]
        if stacks.error is not None:
            parts.append(Content.styled(safe(stacks.error), "$warning"))
        for line in lines:
            muted = not line.startswith("  ") or line in shared
            parts.append(Content.styled(safe(line), "$text-muted" if muted else "$foreground"))
        return Content("\n").join(parts)

    def action_copy(self) -> None:
        """Put all stacks as they were written on the terminal's clipboard."""
        texts = [f"{_title(each)}\n{each.text or each.error or ''}" for each in self._stacks]
        if texts:
            self.copy("\n\n".join(texts))
        else:
            self.app.say("There is nothing to copy yet.")
