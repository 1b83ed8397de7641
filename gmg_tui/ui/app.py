"""The application: takes what the engine sends, and ends in order."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import ClassVar, cast

from rich.console import RenderableType
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Resize
from textual.geometry import Size
from textual.screen import Screen

from gmg_tui.client import Engine
from gmg_tui.model import Snapshot
from gmg_tui.protocol import Bye, Lines, Update
from gmg_tui.ui import Outcome, themes
from gmg_tui.ui.actions import Actions
from gmg_tui.ui.board import Board
from gmg_tui.ui.held_keys import HeldKeys
from gmg_tui.ui.keys import KEYS
from gmg_tui.ui.look import Look
from gmg_tui.ui.main_screen import MainScreen
from gmg_tui.ui.pace import Pace
from gmg_tui.ui.shadow import Frame, Shadow
from gmg_tui.ui.state import UiState

PACE_S = 0.9
"""Shortest time between two drawings of figures, seconds; the engine's clock of one second has room beside it."""
SWEEP_PACE_S = 0.25
"""Shortest time between two drawings of what has become of a sweep's workers, seconds: jobs may be shorter than that."""


class GmgApp(Actions, App[Outcome], inherit_bindings=False):
    """The interface of one session.

    Args:
        engine: The session's engine, connected.
        theme: A name of `themes.NAMES`; None for the default.
        ascii_only: Whether only ASCII characters may be drawn.
        pace_s: Shortest time between two drawings of figures, seconds.
    """

    TITLE = "gmg-tui"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        # Textual sends a key that nobody has the focus for on a round through the screen before its binding is looked
        # up; keys that came with it are looked at meanwhile. With priority it acts at once, on the main screen alone.
        *(Binding(key.keys, f"at_once({key.action!r})", show=False, system=True, priority=True) for key in KEYS),
        *(Binding(key.keys, key.action, key.label, show=False, system=True) for key in KEYS),
    ]

    def __init__(
        self, engine: Engine, *, theme: str | None = None, ascii_only: bool = False, pace_s: float = PACE_S
    ) -> None:
        # Without this Textual 8.2.8 makes greys of colours for NO_COLOR, and sends them (`app.py`, `Monochrome`).
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.engine = engine
        self.state = UiState(engine.welcome)
        self.ascii_only = ascii_only
        self.set_class(ascii_only, "-ascii")
        for one in themes.all_themes():
            self.register_theme(one)
        self.theme = themes.textual_name(theme, no_color=self.no_color)
        self.main = MainScreen(self.state, self.look)
        self.keys = HeldKeys(super().on_event)
        self.left_by_stop = False
        self._pace = Pace(self, self.draw, pace_s, least_s=0.0 if self.state.queue is None else SWEEP_PACE_S)
        self.shadow = Shadow()
        self._size_drawn = Size(0, 0)

    @property
    def look(self) -> Look:
        """The styles and signs of the present theme."""
        return themes.make_look(self.get_css_variables(), ascii_only=self.ascii_only)

    async def on_event(self, event: Event) -> None:
        """Keep keys for a screen that is being opened."""
        if isinstance(event, Key) and not event.is_forwarded and self.keys.keep(event):
            return
        await super().on_event(event)

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return self.main

    def on_mount(self) -> None:
        """Begin to listen."""
        self.theme_changed_signal.subscribe(self, lambda _: self.main.wear(self.look))
        self._size_drawn = self.size
        self.app_resume_signal.subscribe(self, lambda _: self.shadow.forget())
        self.run_worker(self._listen(), name="listen")
        self.main.log_view.open(self.state.chosen)

    def on_ready(self) -> None:
        """Follow once the first frame is drawn: the workers of a session that begins start when somebody watches."""
        self.call_after_refresh(self.follow_chosen)

    def on_resize(self, event: Resize) -> None:
        """A terminal of another size may have moved its rows."""
        if event.size != self._size_drawn:
            self._size_drawn = event.size
            self.shadow.forget()

    async def _listen(self) -> None:
        async for event in self.engine.events():
            match event:
                case Update(snapshot=snapshot):
                    self._apply(snapshot)
                case Lines():
                    self.main.log_view.take(event)
                case Bye(reason=reason):
                    self._parted(reason)
                    return

    def _apply(self, snapshot: Snapshot) -> None:
        """Make `snapshot` what is shown: at once when a worker's state changed, else at the pace of the eye."""
        states = [(worker.state, worker.stuck) for worker in self.state.snapshot.workers]
        if self.state.apply(snapshot):
            self.open_log()
        if snapshot.ended and self.left_by_stop:
            self.finish("stopped")
            return
        self._pace.ask(now=states != [(worker.state, worker.stuck) for worker in snapshot.workers])

    def draw(self) -> None:
        """Draw what the state says now on the screen that is on top; another one catches up when it is."""
        with self.batch_update():
            if self.screen is self.main:
                self.main.draw()
            else:
                show = getattr(self.screen, "show", None)
                if show is not None:
                    show(self.state.snapshot)

    def _parted(self, reason: str) -> None:
        """The engine is gone: a result is kept on the screen, and anything else is a loss."""
        if self.left_by_stop:
            self.finish("stopped")
        elif self.state.snapshot.ended:
            self.say(f"the engine has left: {reason}")
        else:
            self.finish("lost", reason)

    def finish(self, how: str, reason: str = "") -> None:
        """End the interface; the engine goes on without it."""
        self.exit(Outcome(how, self.state.session, self.state.snapshot, reason))

    def on_board_chosen(self, event: Board.Chosen) -> None:
        """A worker was clicked."""
        if self.state.choose(event.slot):
            self.chosen_changed()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every key's action, and the themes."""
        for key in KEYS:
            if not key.action.startswith(("move", "command_palette")):
                yield SystemCommand(key.label, f"{key.help} ({key.shown})", self._runner(key.action))
        for name in themes.NAMES:
            yield SystemCommand(f"theme: {name}", f"Draw in the colours of {name}.", self._wearer(name))

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send a frame by way of the shadow, which leaves out what the terminal shows already."""
        if isinstance(renderable, LayoutUpdate | ChopsUpdate):
            super()._display(screen, cast("RenderableType", Frame(renderable, self.shadow)))
        else:
            super()._display(screen, renderable)
