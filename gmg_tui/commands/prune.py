"""`prune`: remove the sessions that ended long ago."""

from __future__ import annotations

import math
import time

from gmg_tui import clearing
from gmg_tui import session as sessions
from gmg_tui.clearing import Removable
from gmg_tui.commands import removing
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError
from gmg_tui.session import Found
from gmg_tui.sweep.checks import span_s


def prune(*, older: str | None, keep: int | None, dry_run: bool, yes: bool) -> int:
    """Remove the sessions that ended longer ago than `older` and are not among the `keep` last; the exit status.

    What has never begun counts as none of the last. With `dry_run` nothing is removed.

    Raises:
        GmgError: Neither `older` nor `keep` is given or one is wrong, or `yes` is needed.
    """
    if older is None and keep is None:
        raise GmgError("prune: give --older AGE, --keep N, or both, as in: gmg-tui prune --older 30d --keep 20")
    if keep is not None and keep < 0:
        raise GmgError(f"--keep {keep}: at least 0")
    before = time.time() - (0.0 if older is None else _age_s(older))
    removing.prepare(dry_run=dry_run)
    listed = sessions.listing()
    unbegun = [one for one in clearing.left_over(listed) if one.state == "unbegun"]
    found = [one for one in [*_ended(listed)[keep or 0 :], *unbegun] if one.ended <= before]
    if not found:
        print("nothing to remove")
        return 0
    chosen = removing.measured(found)
    if not dry_run:
        return removing.remove(chosen, yes=yes)
    removing.show(chosen)
    print(f"{removing.total(chosen)} would be removed")
    return 0


def _ended(listed: list[Found]) -> list[Removable]:
    """Those that can be removed, the one that ended last first."""
    found = []
    for one in listed:
        if one.state == "running":
            continue
        try:
            found.append(clearing.removable(one.name))
        except GmgError as error:
            tell(f"gmg-tui: {error}")
    return sorted(found, key=lambda one: one.ended, reverse=True)


def _age_s(text: str) -> float:
    seconds = span_s(text)
    if seconds is None or not 0 <= seconds < math.inf:
        raise GmgError(f"--older {text}: give an age, as in 30d, 12h, 1d12h, 45m")
    return seconds
