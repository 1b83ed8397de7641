"""What `rm` and `prune` share: they list what goes, ask, and remove it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import click

from gmg_tui import clearing, recovery, tables, units
from gmg_tui.clearing import Removable
from gmg_tui.commands.messages import Progress, tell
from gmg_tui.errors import GmgError
from gmg_tui.folder_tree import Size
from gmg_tui.text import clean

_HEADER = ("name", "state", "ended", "size")
_NAMED = 3
"""How many of the things that a session's scripts wrote are named."""


class Chosen(NamedTuple):
    """A session that is to be removed, and what its folder takes."""

    one: Removable
    size: Size


def prepare(*, dry_run: bool = False) -> None:
    """Clean up after lost sessions, and finish removals that were interrupted, unless it is a `dry_run`."""
    recovery.clear(tell)
    if not dry_run:
        with Progress("finishing an interrupted removal", "file") as progress:
            clearing.finish(progress.tick)


def measured(found: Sequence[Removable]) -> list[Chosen]:
    """The sessions with what they take."""
    chosen = []
    with Progress("measuring", "file") as progress:
        for one in found:
            size, seen = Size(one.folder), 0
            while size.step():
                progress.tick(size.entries - seen)
                seen = size.entries
            chosen.append(Chosen(one, size))
    return chosen


def show(chosen: Sequence[Chosen]) -> None:
    """Print what goes, with sizes."""
    rows = [_HEADER, *map(_cells, chosen)]
    header, *drawn = tables.lines(rows, "lllr")
    print(header)
    for line, each in zip(drawn, chosen, strict=True):
        print(line)
        if written := _written(each):
            print(f"  {written}")


def _cells(each: Chosen) -> tuple[str, ...]:
    ago = f"{units.span(time.time() - each.one.ended)} ago"
    return each.one.name, each.one.state, ago, each.size.text


def _written(each: Chosen) -> str:
    """What its scripts wrote into the session's folder, the largest first, in one line; empty if nothing."""
    found = sorted(clearing.by_scripts(each.size).items(), key=lambda item: -item[1])
    if not found:
        return ""
    named = [f"{clean(name.encode(errors='replace'))} {units.size(size)}" for name, size in found[:_NAMED]]
    rest = [f"{len(found) - _NAMED:,} more"] if len(found) > _NAMED else []
    return f"with {units.size(sum(size for _, size in found))} that its scripts wrote: {', '.join([*named, *rest])}"


def total(chosen: Sequence[Chosen]) -> str:
    """How many there are, and what they take together."""
    return f"{units.count(len(chosen), 'session')} ({units.size(sum(each.size.bytes for each in chosen))})"


def remove(chosen: Sequence[Chosen], *, yes: bool) -> int:
    """List the sessions, ask unless `yes`, and remove them; the exit status, 1 where one could not be removed.

    Raises:
        GmgError: There is no terminal to ask on.
    """
    show(chosen)
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise GmgError("there is no terminal to ask on: add --yes to remove them")
        if not click.confirm(f"remove {units.count(len(chosen), 'session')}?", err=True):
            print("nothing was removed")
            return 1
    gone = []
    with Progress("removing", "file") as progress:
        for each in chosen:
            progress.doing = f"removing {each.one.name}"
            try:
                if each.size.mounted is not None:
                    raise GmgError(f"{each.one.name} stays: {each.size.mounted} is another file system; unmount it", 1)
                clearing.remove(each.one, progress.tick)
            except GmgError as error:
                tell(f"gmg-tui: {error}")
            else:
                gone.append(each)
    print(f"{total(gone)} removed")
    return 0 if len(gone) == len(chosen) else 1
