"""The palette of commands, and what it offers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.screen import Screen

from gmg_tui.ui import keys
from gmg_tui.ui.drawing import themes
from gmg_tui.ui.pages.page import Page
from gmg_tui.ui.terminal.true_size import TrueSizeScreen

if TYPE_CHECKING:
    from gmg_tui.ui.app import GmgApp


class Palette(CommandPalette, TrueSizeScreen[None]):
    """Textual's, which is laid out for the size that the terminal has."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "app.quit_session", "quit", show=False, priority=True),
    ]


def commands(app: GmgApp, screen: Screen[object]) -> Iterator[SystemCommand]:
    """What the keys of `screen` do, then what has no key, then the themes."""
    active = [each for each in screen.active_bindings.values() if each.tooltip]
    bindings = {each.binding.action: each for each in reversed(active)}
    for node, binding, enabled, tooltip in bindings.values():
        if enabled and not binding.action.startswith(("command_palette", "move")):
            title = f"{binding.description} ({app.get_key_display(binding)})"
            yield SystemCommand(title, tooltip, partial(app.run_action, binding.action, node))
    if isinstance(screen, Page):
        yield from screen.commands()
    main = app.main
    for title, text, action in keys.COMMANDS if screen is not main else keys.COMMANDS + main.commands():
        node = main if hasattr(main, f"action_{action.partition('(')[0]}") else app
        if node.check_action(action, ()):
            yield SystemCommand(title, text, partial(app.run_action, action, node))
    for name in themes.NAMES:
        yield SystemCommand(f"Theme: {name}", f"Use the colours of {name}.", partial(app.choose_theme, name))
