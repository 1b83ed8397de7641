"""`rm`: remove sessions by name."""

from __future__ import annotations

from gmg_tui import clearing
from gmg_tui.commands import removing
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError


def rm(names: tuple[str, ...], *, yes: bool) -> int:
    """Remove the sessions with these names; the exit status, 1 where one of them cannot be removed.

    Raises:
        GmgError: `yes` is needed.
    """
    removing.prepare()
    found, status = [], 0
    for name in dict.fromkeys(names):
        try:
            found.append(clearing.removable(name))
        except GmgError as error:
            tell(f"gmg-tui: {error}")
            status = 1
    return removing.remove(removing.measured(found), yes=yes) or status if found else status
