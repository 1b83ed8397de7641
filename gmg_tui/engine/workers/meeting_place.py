"""Where the ranks of a group meet: an address, and a free port for its store."""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence

from gmg_tui.ddp.variables import LOOPBACK

_log = logging.getLogger(__name__)

FindPlace = Callable[[Sequence[str]], Awaitable[tuple[str, int]]]
"""Finds where the ranks on these slots meet: rank 0's address, and a port, 0 where none is free."""
_ANY_6, _ANY_4 = "::", "0.0.0.0"  # noqa: S104 - as torch's TCPStore binds it (torch/csrc/distributed/c10d/socket.cpp)


async def own_machine(slots: Sequence[str]) -> tuple[str, int]:
    """A place on this machine, on which all ranks run."""
    try:
        return LOOPBACK, free_port()
    except OSError as error:
        _log.warning("no port for a group: %s", error.strerror)
        return LOOPBACK, 0


def free_port() -> int:
    """A TCP port that nobody listens on at this moment; another program may take it before the group does."""
    if socket.has_dualstack_ipv6():
        with socket.create_server((_ANY_6, 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
            return int(server.getsockname()[1])
    with socket.create_server((_ANY_4, 0)) as server:
        return int(server.getsockname()[1])
