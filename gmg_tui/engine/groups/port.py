"""A free port for a group's store."""

from __future__ import annotations

import socket

_ANY_6, _ANY_4 = "::", "0.0.0.0"  # noqa: S104 - as torch's TCPStore binds it (torch/csrc/distributed/c10d/socket.cpp)


def free_port() -> int:
    """A TCP port that nobody listens on at this moment; another program may take it before the group does."""
    if socket.has_dualstack_ipv6():
        with socket.create_server((_ANY_6, 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
            return int(server.getsockname()[1])
    with socket.create_server((_ANY_4, 0)) as server:
        return int(server.getsockname()[1])
