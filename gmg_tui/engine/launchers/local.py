"""Agents that are processes of this machine, for tests and simulations: `--nodes local:2`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from gmg_tui.engine.launchers.launcher import AGENT, PROGRAM, CommandLauncher
from gmg_tui.errors import GmgError

NODE = "GMG_NODE"
"""Names the node in the environment of its agent, which a simulated driver shows other cards by."""
_MOST = 4096


class Local(CommandLauncher):
    """As many nodes as `where` says."""

    def __init__(self, where: str) -> None:
        if not where.isdecimal() or not 1 <= int(where) <= _MOST:
            raise GmgError(f"--nodes local:{where}: give how many agents to start on this machine, as in local:2")
        self._count = int(where)

    async def nodes(self) -> tuple[str, ...]:
        """`n1`, `n2` and so on."""
        return tuple(f"n{number}" for number in range(1, self._count + 1))

    def command(self, node: str, words: Sequence[str] = AGENT) -> Sequence[str]:
        """The program itself."""
        return (*PROGRAM, *words)

    def environ(self, node: str) -> Mapping[str, str]:
        """With the node's name."""
        return {**os.environ, NODE: node}
