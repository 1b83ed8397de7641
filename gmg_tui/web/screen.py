"""The process that draws the screen for one page of a browser: a client of the engine like any other.

Textual's web driver (`TEXTUAL_DRIVER`) takes what is typed from standard input and sends what is drawn to standard
output, as textual-serve passes both on; the process ends with its standard input.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from gmg_tui import ui
from gmg_tui.errors import GmgError
from gmg_tui.ui import remapping


class Shown(Struct, frozen=True):
    """What is to be shown, and how."""

    socket: str
    """Where the session's engine listens."""
    session_id: str
    readonly: bool = True
    theme: str | None = None
    ascii_only: bool = False
    mouse: bool = True
    confirm: bool = True
    keys: dict[str, tuple[str, ...]] = {}
    """Other keys for actions, as `remapping.use` takes them."""

    def command(self) -> tuple[str, ...]:
        """The command line that shows it."""
        return (sys.executable, "-m", __spec__.name, msgspec.json.encode(self).decode())


def main() -> int:
    """Show what the command line says until the page is closed; the exit status."""
    shown = msgspec.json.decode(sys.argv[1], type=Shown)
    remapping.use(shown.keys)
    try:
        ui.run(
            Path(shown.socket),
            session_id=shown.session_id,
            theme=shown.theme,
            ascii=shown.ascii_only,
            mouse=shown.mouse,
            confirm=shown.confirm,
            readonly=shown.readonly,
            web=True,
        )
    except GmgError as error:
        print(f"gmg-tui: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
