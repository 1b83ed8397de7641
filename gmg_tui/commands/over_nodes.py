"""A command of gmg-tui on several machines: what each of them answers as JSON, for the command to bring together."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gmg_tui import units
from gmg_tui.commands.messages import notice, tell
from gmg_tui.commands.where import nodes_of
from gmg_tui.engine.launchers.find import launcher_of
from gmg_tui.engine.launchers.launcher import Launcher, Ran
from gmg_tui.errors import GmgError
from gmg_tui.text import clean

_AT_ONCE = 64
"""Nodes that are asked at once: each is a process here."""
_WITHIN_S = 180.0
"""How long a node may take; `doctor` imports torch there, which takes a minute from a cold network disk."""
_ORPHAN_WAIT_S = 60.0
_NAMED = 4
_JSON = re.compile(rb"^[\[{]", re.MULTILINE)


class Answer(NamedTuple):
    """What a node has said."""

    value: Any = None
    """What it printed, decoded; None where it could not be asked."""
    error: str = ""
    """Why it could not, in one line."""
    said: float = 0.0
    """As `Ran.said`."""


def ask(where: str, words: Sequence[str], doing: str) -> Mapping[str, Answer]:
    """What each node that `where` names, as `--nodes` takes it, answers to `gmg-tui WORDS`. Raises `GmgError`."""
    spec = nodes_of(where, None, _ORPHAN_WAIT_S)
    assert spec is not None
    with notice(f"{doing} on all nodes"):
        return asyncio.run(_ask(launcher_of(spec, cpu=words[0] != "gpus"), words))  # others are for nodes without, too


async def _ask(launcher: Launcher, words: Sequence[str]) -> Mapping[str, Answer]:
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one(node: str) -> Answer:
        async with at_once:
            try:
                return _answer(await launcher.run(node, words, _WITHIN_S))
            except GmgError as error:
                return Answer(error=str(error))

    try:
        names = await launcher.nodes()
        return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
    finally:
        await launcher.close()


def _answer(ran: Ran) -> Answer:
    """The JSON that was printed, before which a shell may have printed anything."""
    for found in _JSON.finditer(ran.stdout):
        try:
            return Answer(msgspec.json.decode(ran.stdout[found.start() :]), said=ran.said)
        except msgspec.DecodeError:
            continue
    last = clean(ran.stderr.strip().rpartition(b"\n")[2]).removeprefix("gmg-tui: ")
    return Answer(error=last or f"nothing was printed, and the exit status was {ran.exit_code}")


def rows(answers: Mapping[str, Answer]) -> list[dict[str, Any]]:
    """All rows of JSON that the nodes have answered with, each with its node; of one that could not be asked its error."""
    found: list[dict[str, Any]] = []
    for node, answer in answers.items():
        found += [{"node": node, "error": answer.error}] if answer.error else []
        found += [{"node": node, **row} for row in answer.value or ()]
    return found


def print_json(value: object) -> None:
    """Print a value as the commands' `--json` does."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def tell_errors(answers: Mapping[str, Answer]) -> int:
    """Say which nodes could not be asked, and why; the exit status."""
    for node, answer in answers.items():
        if answer.error:
            tell(f"{node}: {answer.error}")
    return int(any(answer.error for answer in answers.values()))


def named(nodes: Iterable[str], count: int) -> str:
    """Some of `count` nodes: `n1, n2`; `all 8 nodes`; `n1, n2, n3, n4 and 9 more`."""
    names = list(nodes)
    if len(names) == count > 1:
        return f"all {units.count(count, 'node')}"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
