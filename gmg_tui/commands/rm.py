"""`rm`: remove sessions by name, or those that ended long ago."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

import click

from gmg_tui import session as sessions
from gmg_tui import units
from gmg_tui.columns import Column
from gmg_tui.commands.messages import note, print_table, waiting
from gmg_tui.errors import GmgError
from gmg_tui.session import recovery, removal
from gmg_tui.session.removal import Removable

_Measured = tuple[Removable, int]

_COLUMNS = (
    Column[_Measured]("name", lambda each: each[0].name, priority=100, left=True),
    Column[_Measured]("state", lambda each: each[0].state, priority=70, left=True),
    Column[_Measured]("ended", lambda each: f"{units.span(time.time() - each[0].ended)} ago", priority=80, left=True),
    Column[_Measured]("size", lambda each: each[1], write=units.size, priority=90),
)


def rm(names: tuple[str, ...], *, older: float | None, keep: int | None, yes: bool) -> int:
    """Remove the sessions with these names, or those that ended more than `older` seconds ago and are not the last `keep`.

    Returns:
        The exit status, 1 where a session cannot be removed.

    Raises:
        GmgError: Names and a selection are both given, or neither; an option is wrong, or `yes` is needed.
    """
    selects = older is not None or keep is not None
    if bool(names) == selects:
        raise GmgError("give session names, or --older AGE and --keep N, as in: gmg-tui rm --older 30d --keep 5")
    before = time.time() - (older or 0.0)
    recovery.clear(note)
    chosen = _selected(before, keep or 0) if selects else _removable(dict.fromkeys(names))
    status = 0 if selects else int(len(chosen) < len(set(names)))
    if not chosen:
        if not status:
            print("nothing to remove")
        return status
    measured = []
    for number, session in enumerate(chosen, 1):
        with waiting(f"measuring {session.name} ({number} of {len(chosen)})"):
            measured.append((session, removal.size_bytes(session.folder)))
    print_table(_COLUMNS, measured)
    return _remove(measured, yes=yes) or status


def _selected(before: float, keep: int) -> list[Removable]:
    """The sessions that ended before a moment, Unix seconds, but for the last `keep`."""
    ended = _removable(session.name for session in sessions.listing() if session.state != "running")
    ended.sort(key=lambda session: session.ended, reverse=True)
    return [session for session in ended[keep:] if session.ended <= before]


def _removable(names: Iterable[str]) -> list[Removable]:
    """Those of these sessions that can be removed; a line on standard error for each of the others."""
    removable = []
    for name in names:
        try:
            removable.append(removal.removable(name))
        except GmgError as error:
            note(f"gmg-tui: {error}")
    return removable


def _remove(measured: Sequence[_Measured], *, yes: bool) -> int:
    """Ask unless `yes`, and remove the sessions; the exit status, 1 where one could not be removed. Raises `GmgError`."""
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise GmgError("there is no terminal to ask on: add --yes to remove them")
        if not click.confirm(f"remove {units.count(len(measured), 'session')}?", err=True):
            print("nothing was removed")
            return 1
    removed = []
    for number, (session, size) in enumerate(measured, 1):
        try:
            with waiting(f"removing {session.name} ({number} of {len(measured)})"):
                removal.remove(session)
        except GmgError as error:
            note(f"gmg-tui: {error}")
        else:
            removed.append((session, size))
    total = units.size(sum(size for _, size in removed))
    print(f"{units.count(len(removed), 'session')} ({total}) removed")
    return 0 if len(removed) == len(measured) else 1
