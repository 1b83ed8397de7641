"""The keys, on the last row: as many as fit; each can be clicked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from textual import events

from gmg_tui.ui.drawing.appearance import Appearance, spelled
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.keys import COMMON, KEYS, Key
from gmg_tui.ui.log_buffer import LogBuffer
from gmg_tui.ui.permissions import permissions_of
from gmg_tui.ui.state import UiState
from gmg_tui.ui.widgets.row_view import DrawnView

_OF_APP = frozenset(key.action for key in KEYS)
_FEW = 8
"""Slots up to which the keys that are for many are left to the help."""


class Footer(DrawnView):
    """One row with those of `keys` that fit: the first ones first, but those whose action is in `always` before all."""

    def __init__(self, appearance: Appearance, keys: Sequence[Key], always: Collection[str]) -> None:
        super().__init__(appearance)
        self.styles.height = 1
        self._keys = tuple(keys)
        self._always = frozenset(always)

    def offer(self, keys: Sequence[Key]) -> None:
        """Show these keys from now on."""
        self._keys = tuple(keys)
        self.draw()

    def _begin(self) -> str:
        """What stands before the keys."""
        return ""

    def _offered(self) -> tuple[Sequence[Key], frozenset[str]]:
        """The keys, and the actions of those that are shown before all others."""
        return self._keys, self._always

    def _texts(self, key: Key) -> tuple[str, str]:
        signs = self.appearance.signs
        return f" {spelled(key.shown, signs)}", f" {spelled(key.label, signs)}"

    def _places(self) -> Iterator[tuple[range, Key]]:
        """The keys that fit, each with its columns."""
        offered, always = self._offered()
        allowed = permissions_of(self.app).allowed(offered)
        keys = [(key, 1 + sum(map(len, self._texts(key)))) for key in allowed]
        at = len(self._begin())
        room = self.size.width - at - sum(length for key, length in keys if key.action in always)
        for key, length in keys:
            if key.action not in always:
                if length > room:
                    continue
                room -= length
            yield range(at, at + length), key
            at += length

    def draw(self) -> None:
        """Draw the keys."""
        line = Row(self.appearance, self.size.width).add(self._begin(), "warn")
        for columns, key in self._places():
            shown, label = self._texts(key)
            line.to(columns.start).add(shown, "key").add(label, "dim")
        self.show_rows([line.strip()])

    async def on_click(self, event: events.Click) -> None:
        """Do what the key under the mouse does: the app's action, or the screen's for a key of its own."""
        for columns, key in self._places():
            if event.x in columns:
                await self.app.run_action(key.action, self.app if key.action in _OF_APP else self.screen)


class MainFooter(Footer):
    """The main screen's: how many workers are marked, if any, then its keys."""

    def __init__(self, state: UiState, appearance: Appearance, log: Callable[[], LogBuffer]) -> None:
        """Make it for a session; `log` gives what is kept of the log that is shown."""
        sweep, tune = state.queue is not None, state.snapshot.tuning is not None
        groups = state.session.spec.ddp is not None or bool(state.snapshot.groups)
        many, nodes = len(state.session.slots) > _FEW, bool(state.folds.slots)
        shown = [
            key
            for key in KEYS
            if key.footer
            or (sweep and key.sweep)
            or (groups and key.group)
            or (many and key.many)
            or (nodes and key.nodes)
        ]
        keys = [*(key for key in KEYS if tune and key.tune), *shown]
        super().__init__(appearance, keys, {key.action for key in COMMON})
        self._state = state
        self._log = log

    def _begin(self) -> str:
        count = len(self._state.marked)
        return f" {self.appearance.signs.mark} {count} marked " if count else ""

    def _offered(self) -> tuple[Sequence[Key], frozenset[str]]:
        if self._state.looked is not None:
            first = [key for key in KEYS if key.past]
            return [*first, *([] if self._state.over else self._leave()), *self._keys], self._always
        if not self._state.marked:
            return super()._offered()
        return [*self._leave(), *self._keys], self._always | {"leave"}

    def _leave(self) -> list[Key]:
        """The key that leaves what one is in, with what it ends first."""
        log = self._log()
        if log.query or log.filter:
            label = "end search" if log.query else "end filter"
        elif self._state.marked:
            label = "unmark"
        else:
            label = "show all" if self._state.arrangement.filter else "present"
        return [key._replace(label=label) for key in KEYS if key.action == "leave"]
