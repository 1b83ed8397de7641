"""The application: takes what the engine sends, and ends in order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.console import RenderableType
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Paste, Resize
from textual.geometry import Size
from textual.screen import Screen

from gmg_tui.model import Snapshot
from gmg_tui.protocol import Bye, Lines, Update
from gmg_tui.source import Source
from gmg_tui.ui.drawing import themes
from gmg_tui.ui.keys import KEYS
from gmg_tui.ui.permissions import Permissions
from gmg_tui.ui.permitted_actions import PermittedActions
from gmg_tui.ui.remembered import Memory
from gmg_tui.ui.screens.main import MainScreen
from gmg_tui.ui.screens.small import SmallScreen, is_small
from gmg_tui.ui.state import UiState
from gmg_tui.ui.terminal.internals import load_differ
from gmg_tui.ui.terminal.key_order import KeyOrder
from gmg_tui.ui.terminal.notification import sequences
from gmg_tui.ui.terminal.pending_keys import PendingKeys
from gmg_tui.ui.terminal.refresh_limiter import RefreshLimiter
from gmg_tui.ui.terminal.suspension import Suspension
from gmg_tui.ui.terminal.true_size import TrueSizeScreen, window_size

if TYPE_CHECKING:
    from gmg_tui.past.source import PastSource

PACE_S = 0.9
"""Shortest time between two redraws of metrics, seconds: a little under the engine's interval of one second."""
SWEEP_PACE_S = 0.25
"""Shortest time between two redraws of a sweep's states, seconds: jobs may be shorter than that."""


class GmgApp(PermittedActions, inherit_bindings=False):
    """The interface of one session; `theme` is one of `themes.NAMES`, or None for the one in `memory`.

    `web` says that a browser draws it; `past` is the engine where that is what is kept of a session that has ended.
    """

    TITLE = "gmg-tui"
    SILENT_S: ClassVar[int] = 4
    """Seconds without a message after which the engine, which sends one each second, counts as silent."""
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        # Without a focused widget Textual sends a key through the screen before it looks its binding up, and handles
        # the keys behind it meanwhile. With priority it acts at once, on the main screen only.
        *(
            Binding(names, f"at_once({action!r})", show=False, system=True, priority=True)
            for key in KEYS
            for names, action in key.bound
        ),
        *(Binding(names, action, key.label, show=False, system=True) for key in KEYS for names, action in key.bound),
    ]

    def __init__(
        self,
        engine: Source,
        *,
        theme: str | None = None,
        ascii_only: bool = False,
        confirm: bool = True,
        pace_s: float = PACE_S,
        memory: Memory | None = None,
        web: bool = False,
        past: PastSource | None = None,
    ) -> None:
        # Otherwise Textual 8.2.8 turns colours to greys for NO_COLOR, and sends those (`app.py`, `Monochrome`).
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.engine = self.live = engine
        self._steps = []
        self.state = UiState(engine.welcome, past.look if past is not None else None)
        self.past = past
        self.permissions = Permissions(engine.welcome.readonly, web)
        if past is not None:
            self.permissions = self.permissions._replace(past=self.why_past(past))
            self.state.loss = past.loss
        self.memory = memory
        remembered = self.recall(memory) if memory is not None else None
        self.ascii_only = ascii_only
        self.confirm = confirm
        self.set_class(ascii_only, "-ascii")
        for one in themes.all_themes():
            self.register_theme(one)
        self.theme = themes.textual_name(theme or remembered, no_color=self.no_color)
        self.main = MainScreen(self.state, self.appearance)
        self.keys = PendingKeys(self._give)
        self._pace = RefreshLimiter(self, self.draw, pace_s, least_s=0.0 if self.state.queue is None else SWEEP_PACE_S)
        self.differ = load_differ()
        self._size_drawn = Size(0, 0)
        self._unheard_s = 0
        self._window = self._size_drawn
        self._drawn = False
        self._suspension: Suspension | None = None

    async def on_event(self, event: Event) -> None:
        """Keep what is typed for a screen that is being opened, and drop what comes when the last one is closed."""
        if not isinstance(event, Key | Paste):
            await super().on_event(event)
        elif not self.screen_stack:
            return
        elif event.is_forwarded:
            await super().on_event(event)
        elif not self.keys.keep(event):
            await self._give(event)

    async def _give(self, typed: Key | Paste) -> None:
        """Have what was typed handled: to the end by a widget with the focus that keeps keys in their order."""
        if isinstance(self.focused, KeyOrder):
            await self.focused.obey(typed)
        else:
            await super().on_event(typed)

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return self.main

    def on_mount(self) -> None:
        """Start listening to the engine."""
        self.theme_changed_signal.subscribe(self, lambda _: self.main.wear(self.appearance))
        self.screen_change_signal.subscribe(self, lambda _: self.fit(), immediate=True)
        self._window = self.size
        self.fit()
        if self._driver is not None and not self.is_headless and not self.permissions.web:
            wake = partial(asyncio.get_running_loop().call_soon_threadsafe, self.call_later, self.action_redraw)
            self._suspension = Suspension(self._driver, wake)
        self.run_worker(self._listen(), name="listen")
        self.set_interval(1.0, self._look_round)
        self.main.log_view.open(self.state.chosen, past=self.state.looked is not None)
        if self.state.snapshot.tuning is not None:
            self.call_later(self.action_tuning)

    def on_unmount(self) -> None:
        """Leave the signals alone."""
        if self._suspension is not None:
            self._suspension.close()

    def on_ready(self) -> None:
        """Follow once the first frame is drawn: a session's workers start when a client follows."""
        self._drawn = True
        self.call_after_refresh(self.follow_chosen)

    def on_resize(self, event: Resize) -> None:
        """Draw all of it anew, also in the size that it has: another one in between may have cut or moved its rows."""
        if self._drawn:
            self.forget_terminal()
            self.screen.refresh(layout=True)
        self._window = event.size
        self.fit()

    def fit(self) -> None:
        """Cover a screen that has no room in the terminal, and uncover it once it has."""
        small = is_small(self._window)
        if not self.screen_stack:  # it is ending, and its timers are the last to be stopped
            return
        if isinstance(self.screen, SmallScreen):
            if not small:
                self.pop_screen()
        elif small and not (isinstance(self.screen, TrueSizeScreen) and self.screen.SCROLLS):
            self.push_screen(SmallScreen(self.appearance))

    def _look_round(self) -> None:
        """Notice what nobody announces, once a second: a silent engine, and a window whose change was not heard of."""
        self._count_silence()
        size = None if self.is_headless or self.permissions.web else window_size()
        if size is not None and size != self._window:
            self.post_message(Resize(size, size))
        else:
            self.fit()

    def _count_silence(self) -> None:
        """Say for how long the engine has been silent. Seconds in which this process stood still do not count."""
        self._unheard_s += 1
        if self._unheard_s >= self.SILENT_S and not self.state.parted and not self.state.over:
            self.state.silent_s = self._unheard_s
            self.draw()

    async def _listen(self) -> None:
        async for event in self.live.events():
            self._unheard_s = self.state.silent_s = 0
            match event:
                case Update(snapshot=snapshot):
                    self._apply(snapshot)
                case Lines() if self.engine is self.live:
                    self.main.log_view.take(event)
                case Bye(reason=reason):
                    self._parted(reason)
                    return

    def _apply(self, snapshot: Snapshot) -> None:
        """Show `snapshot`: at once when a worker's state changed, else not faster than one can read."""
        states = [(worker.state, worker.stuck) for worker in self.state.newest.workers]
        self._notify(snapshot)
        if self.state.apply(snapshot) or (self.state.together and self.main.log_view.shows != self.state.log):
            self.open_log()
        if snapshot.ended and self.state.stopping:
            self.finish("stopped")
            return
        if self.state.looked is not None:
            return
        self._pace.ask(now=states != [(worker.state, worker.stuck) for worker in snapshot.workers])

    def _notify(self, snapshot: Snapshot) -> None:
        """Have the terminal tell what has happened since the last snapshot, where that is asked for."""
        new = self.state.occurred_since(snapshot)
        if new and self._driver is not None:
            said = sequences(self.state.session.spec.notify, new, tmux=bool(os.environ.get("TMUX")))
            if said:
                self._driver.write(said)
                self._driver.flush()

    def _parted(self, reason: str) -> None:
        """The engine is gone: final results stay on the screen, anything else is a loss."""
        self.state.parted = True
        if self.state.stopping:
            self.finish("stopped")
        elif self.state.newest.ended:
            self.end_present()
            self.say(f"The engine has exited: {reason}")
        else:
            self.finish("lost", reason)

    def lend_terminal(self) -> AbstractContextManager[object]:
        """Leave the terminal to another program while the context lasts."""
        return self._suspension.lend() if self._suspension is not None else nullcontext()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: the action of every key that works on `screen`, and the themes."""
        for key in self.permissions.allowed(KEYS):
            if not key.action.startswith(("move", "command_palette", "time_jump")) and self.offers(screen, key):
                yield SystemCommand(key.label, f"{key.help} ({key.shown})", partial(self.run_action, key.action))
        for name in themes.NAMES:
            yield SystemCommand(f"theme: {name}", f"Draw in the colours of {name}.", partial(self.wear, name))

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send a frame through the differ, which leaves out what the terminal already shows."""
        if screen.size != self._size_drawn:
            self._size_drawn = screen.size
            self.forget_terminal()  # a frame of the size before may have come after the terminal changed
        if self.differ is not None:
            renderable = self.differ.frame(renderable, sync=self._sync_available)
        super()._display(screen, renderable)

    def _begin_update(self) -> None:
        if self.differ is None:  # else its frames say it
            super()._begin_update()

    def _end_update(self) -> None:
        if self.differ is None:
            super()._end_update()
