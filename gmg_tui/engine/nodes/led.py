"""The connection by which the session's engine leads a node's agent."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui import protocol
from gmg_tui.engine.nodes import messages
from gmg_tui.engine.nodes.messages import Ready
from gmg_tui.errors import GmgError
from gmg_tui.model import Snapshot
from gmg_tui.protocol import Answer, FromAgent, Update

if TYPE_CHECKING:
    from gmg_tui.engine.nodes.agent import Agent


class Led:
    """What a connection has to do with the agent that the engine is; nothing before it leads."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._leads = False
        self._said: deque[messages.FromAgent] = deque()
        self._sent: dict[int, bytes] = {}
        """The last report on each worker, by its key."""

    def take(self, request: protocol.ToAgent) -> Answer:
        """Take a message of the session's engine; its answer."""
        try:
            said = self._agent.take(request.body)
        except GmgError as error:
            return Answer(request.id, error=str(error))
        if isinstance(said, Ready) and not self._leads:
            self._leads = True
            self._agent.led(1)
        if said is not None:
            self._said.append(said)
        return Answer(request.id)

    def heard(self) -> None:
        """Something has come on the connection."""
        if self._leads:
            self._agent.heard()

    def said(self) -> bytes:
        """The frames of what is to be said at once."""
        frames = b"".join(protocol.frame(FromAgent(messages.encode(one))) for one in self._said)
        self._said.clear()
        return frames

    def update(self, snapshot: Snapshot) -> bytes:
        """The frames that tell the newest state."""
        if not self._leads:
            return protocol.frame(Update(snapshot))
        report = protocol.frame(FromAgent(messages.encode(self._agent.report(self._sent))))
        # The reports say more of the workers.
        return protocol.frame(Update(structs.replace(snapshot, workers=(), groups=()))) + report

    def close(self) -> None:
        """The connection has ended."""
        if self._leads:
            self._agent.led(-1)
