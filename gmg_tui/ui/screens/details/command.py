"""The command line of a worker, to be pasted into a shell."""

from __future__ import annotations

import shlex
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from gmg_tui.model import Details
from gmg_tui.ui import keys
from gmg_tui.ui.screens.dialog_base import Dialog, as_shown, bindings, foot, scroll, signs_of

LEFT_OUT: Final = "GMG_SESSION_ID"
"""By this the watchdog and `gmg-tui ls` find the processes of an engine that was killed, and end them."""
_NOTE: Final = f"The rest of the environment is the shell's. {LEFT_OUT} is left out: a process that has it is ended with the session."


def shell_line(details: Details) -> str:
    """A line for a POSIX shell that starts the worker's script as its last attempt was started; empty before the first."""
    if not details.command:
        return ""
    unset = (word for name in details.unset for word in ("-u", name))
    variables = (f"{name}={value}" for name, value in details.env.items() if name != LEFT_OUT)
    command = details.command
    if "=" in command[0]:  # env(1) would take it for a variable
        command = ("sh", "-c", 'exec "$0" "$@"', *command)
    return f"cd {shlex.quote(details.cwd)} && {shlex.join(['env', *unset, *variables, *command])}"


class CommandScreen(Dialog[None]):
    """Shows the command line, and copies it."""

    DEFAULT_CSS = """
    CommandScreen > .box { width: 120; }
    CommandScreen #said { margin-top: 1; color: $text-muted; }
    """
    SCOPED_CSS: ClassVar[bool] = False
    SCROLLS: ClassVar[bool] = True
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys.COMMAND)

    def __init__(self, slot: str, line: str) -> None:
        super().__init__()
        self.heading = f"The command of {slot}"
        self._line = line

    def contents(self) -> ComposeResult:
        """The line, what to know of it, and the keys."""
        yield Static(as_shown(self._line, self.app), markup=False)
        yield Static(as_shown(_NOTE, self.app), markup=False, id="said")
        yield Static(foot(keys.COMMAND, signs_of(self.app)), markup=False, classes="foot")

    def action_copy(self) -> None:
        """Put the line on the terminal's clipboard."""
        self.app.copy_to_clipboard(self._line)
        self.query_one("#said", Static).update("Copied, if the terminal takes it (OSC 52).")

    def action_scroll(self, where: str) -> None:
        """Scroll: `up`, `down`, `page_up`, `page_down`, `home` or `end`."""
        scroll(self.query_one(".box"), where)
