"""The application: receives the engine's messages, schedules redraws, and handles the keys of all screens."""

import os
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Event, InputEvent, Resize
from textual.filter import LineFilter
from textual.geometry import Size
from textual.keys import format_key
from textual.screen import Screen

from gmg_tui.model import Snapshot
from gmg_tui.model.text import safe
from gmg_tui.session.client import Source
from gmg_tui.session.protocol import Bye, Update
from gmg_tui.ui import keys, themes
from gmg_tui.ui.dialogs import Commands, Palette
from gmg_tui.ui.main_screen import MainScreen
from gmg_tui.ui.pages.page import Page, TablePage
from gmg_tui.ui.session_app import SessionApp
from gmg_tui.ui.terminal import MAX_CELLS, call_after, notification_sequences


class GmgApp(SessionApp, inherit_bindings=False):
    """The interface of one session. `theme` is one of `themes.names()`; None for the first."""

    TITLE = "gmg-tui"
    CSS_PATH = Path(__file__).with_name("style.tcss")
    REDRAW_INTERVAL_S: ClassVar[float] = 0.25
    """Seconds from a snapshot to its redraw; the engine sends a snapshot each second and after each change."""
    SILENT_S: ClassVar[int] = 4
    """Seconds without a message before the engine, which sends one each second, counts as silent."""
    COMMANDS: ClassVar = {Commands}
    BINDINGS: ClassVar[list[BindingType]] = [*keys.SESSION]

    def __init__(
        self, engine: Source, *, theme: str | None = None, ascii_only: bool = False, web: bool = False
    ) -> None:
        self._text_filters = [themes.TextFilter(safe), *([themes.TextFilter(themes.to_ascii)] if ascii_only else [])]
        super().__init__(engine, web=web)
        for definition in themes.all_themes():
            self.register_theme(definition)
        self.theme = themes.textual_name(theme, no_color=self.no_color)
        self.set_keymap(keys.keymap)
        self.main = MainScreen(self.view, engine)
        self._redraw_scheduled = False
        self._silent_s = 0
        """Seconds since the engine's last message."""

    def get_key_display(self, binding: Binding) -> str:
        """Returns the key as shown in the footer and the palette: `enter`, `ctrl+p`, `/`."""
        return keys.DISPLAY_NAMES.get(binding.key) or format_key(binding.key)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Returns Textual's filters, then ours, which make text safe and, with `--ascii`, replace characters."""
        return [*super().get_line_filters(), *self._text_filters]

    def get_default_screen(self) -> Screen[None]:
        """Returns the main screen."""
        return self.main

    async def on_event(self, event: Event) -> None:
        """Drops input while the app is exiting, and sizes above `MAX_CELLS` (`ESC [ 48 ; … t`)."""
        is_exiting = self.return_value is not None or not self.screen_stack
        is_too_large = isinstance(event, Resize) and max(event.size) > MAX_CELLS
        if not is_too_large and not (is_exiting and isinstance(event, InputEvent)):
            await super().on_event(event)

    # Start and end

    def on_mount(self) -> None:
        """Starts listening to the engine; in a tuning run, also opens the tuning's page."""
        self._window_size = self.size
        self.run_worker(self._listen(), name="listen")
        self.set_interval(1.0, self._tick)
        if self.view.snapshot.tuning is not None:
            self.call_later(self.action_queue)

    def on_ready(self) -> None:
        """Opens the log after the first frame, and tells the engine that a client is watching, so workers can start."""
        self.call_after_refresh(self.main.open_log)
        self.request(self.engine.watch)

    # The terminal

    def on_resize(self, event: Resize) -> None:
        """Redraws everything, even at the same size: an intermediate size may have cropped or moved rows."""
        self._window_size = event.size
        self.action_redraw()

    def _tick(self) -> None:
        """Detects a silent engine and missed resizes, including those whose timer never fired (see `call_after`)."""
        view = self.view
        self._silent_s += 1
        if self._silent_s >= self.SILENT_S and not view.disconnected and not view.already_ended:
            view.silent_s = self._silent_s
            self.publish()
        if self.terminal is not None and (size := Size(*shutil.get_terminal_size())) != self._window_size:
            self.post_message(Resize(size, size))
        if self.screen_stack and self.screen.outer_size != self.size:  # it has no screen once it is closing
            self.screen.post_message(Resize(self.size, self.size))

    # The session

    async def _listen(self) -> None:
        async for event in self.engine.events():
            self._silent_s = self.view.silent_s = 0
            match event:
                case Update(snapshot=snapshot):
                    self._receive(snapshot)
                case Bye(reason=reason):
                    self._handle_disconnect(reason)
                    return

    def _receive(self, snapshot: Snapshot) -> None:
        """Stores a snapshot and sends notifications; then schedules a redraw, or leaves once a stop is complete."""
        last = max((event.number for event in self._newest.occurred), default=0)
        new_events = tuple(event for event in snapshot.occurred if event.number > last and not event.quiet)
        notify = self.view.session.spec.notify
        self.write_to_terminal(notification_sequences(notify, new_events, tmux=bool(os.environ.get("TMUX"))))
        if self._newest is not self.view.snapshot:  # the previous snapshot was never drawn
            self.view.extend_histories(self._newest)
        self._newest = snapshot
        if snapshot.ended and self.view.stopping:
            self.finish("stopped")
        elif not self._redraw_scheduled:
            self._redraw_scheduled = True
            call_after(self, self.REDRAW_INTERVAL_S, self.publish)

    def _handle_disconnect(self, reason: str) -> None:
        """Leaves the interface as `stopped` or `lost`, but keeps a screen that shows the final results."""
        view = self.view
        view.disconnected = True
        if view.stopping:
            self.finish("stopped")
        elif self._newest.ended:
            self.say(f"The engine has exited: {reason}")
        else:
            self.finish("lost", reason)

    def publish(self) -> None:
        """Draws the newest snapshot and the current view; the next snapshot schedules a redraw again."""
        self._redraw_scheduled = False
        super().publish()

    # Bindings and commands

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Returns True if `action` is possible in this session and on this screen."""
        is_typing = bool(self.screen_stack) and self.screen is self.main and self.focused is not None
        if self.unavailable_reason(action) or (is_typing and action != "redraw") or action == "screenshot":  # Textual's
            return False
        pages = [screen for screen in self.screen_stack if isinstance(screen, Page)]
        if action in {"queue", "tried"}:
            return all(action != page.OPENED_BY for page in pages)
        return action not in keys.WORKER_ACTIONS or not pages

    def get_system_commands(self, screen: Screen[object]) -> Iterator[SystemCommand]:
        """Yields commands for the actions of `screen`, with or without keys, and for the themes."""
        positions = {keys.action_of(binding): number for number, binding in enumerate(keys.MAIN)}  # as in the help
        active = [item for item in screen.active_bindings.values() if item.tooltip]
        unique = reversed({item.binding.action: item for item in reversed(active)}.values())
        bindings = sorted(unique, key=lambda item: positions.get(keys.action_of(item.binding), -1))
        for node, binding, enabled, tooltip in bindings:
            if enabled and keys.action_of(binding) not in {"command_palette", "move"}:
                title = f"{binding.description} ({self.get_key_display(binding)})"
                yield SystemCommand(title, tooltip, partial(self.run_action, binding.action, node))
        commands = screen.palette if isinstance(screen, MainScreen | TablePage) else ()
        for title, explanation, action in (*commands, *keys.COMMANDS):
            name = action.partition("(")[0]
            owner = screen if hasattr(screen, f"action_{name}") else self
            if owner.check_action(name, ()):
                yield SystemCommand(title, explanation, partial(self.run_action, action, owner))
        for name in themes.names():
            set_theme = partial(setattr, self, "theme", themes.textual_name(name, no_color=self.no_color))
            yield SystemCommand(f"Theme: {name}", f"Use the colours of {name}.", set_theme)

    # Pages

    async def action_queue(self) -> None:
        """Opens the page of a sweep's queue, or of a tuning run."""
        from gmg_tui.ui.pages.queue import QueuePage
        from gmg_tui.ui.pages.tuning import TuningPage

        page = QueuePage if self.view.snapshot.tuning is None else TuningPage
        await self.push_screen(page())

    async def action_tried(self) -> None:
        """Opens the page of the arguments tried so far."""
        from gmg_tui.ui.pages.tried import TriedPage

        await self.push_screen(TriedPage())

    async def action_help(self) -> None:
        """Opens the help, which begins with the current page's keys."""
        from gmg_tui.ui.pages.help import HelpScreen

        await self.push_screen(HelpScreen(self))

    def action_command_palette(self) -> None:
        """Opens the palette, unless it is already open."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())
