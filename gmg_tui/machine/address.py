"""The address by which other machines reach this one.

Found by the route to another machine, as Debian and Ubuntu map the host's own name to 127.0.1.1 in `/etc/hosts`.
"""

import errno
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address
from typing import Any

LOOPBACKS = ("127.0.0.1", "::1")
_OUTSIDE_ADDRESS = "192.0.2.1"
"""A documentation address (RFC 5737), which selects the default route."""
_DISCARD_PORT = 9
_MAX_PORT_TRIES = 20


@contextmanager
def listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Listens on a port (0: a free one) of an address; of a loopback address, on 127.0.0.1 and ::1. Raises `OSError`.

    `localhost` may mean either: another user could listen on the other one, and be sent what is meant for this one.
    """
    hosts = [host]
    if host in (*LOOPBACKS, "localhost"):
        hosts = [*LOOPBACKS] if host != "::1" else [*reversed(LOOPBACKS)]
    tries_left = 1 if port else _MAX_PORT_TRIES
    while True:
        with ExitStack() as stack:
            try:
                sockets = _bind(hosts, port, stack)
            except OSError as error:
                tries_left -= 1
                if not tries_left or error.errno != errno.EADDRINUSE:
                    raise
                continue  # a free port of the first address may be another program's on the second
            yield sockets
            return


def _bind(hosts: Iterable[str], port: int, stack: ExitStack) -> list[socket.socket]:
    """Returns listening sockets, which `stack` will close; all have the port of the first. Raises `OSError`."""
    sockets: list[socket.socket] = []
    for host in hosts:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            sockets.append(stack.enter_context(socket.create_server((host, port), family=family)))
        except OSError as error:
            if not sockets or error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # e.g. no IPv6
                raise
        port = sockets[0].getsockname()[1]
    return sockets


def launch_hosts(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the machines from which ssh or Slurm started a process, according to its environment."""
    client, *_ = environ.get("SSH_CONNECTION", "").split() or [""]
    names = (client, environ.get("SLURM_LAUNCH_NODE_IPADDR", ""), environ.get("SLURM_SUBMIT_HOST", ""))
    return tuple(filter(None, names))


def is_numeric(name: str) -> bool:
    """True if `name` is an address, which needs no resolving."""
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def is_reachable(address: str) -> bool:
    """True if `address` is an IP address that other machines may reach: neither loopback nor link-local."""
    if "%" in address or not is_numeric(address):
        return False
    ip = ip_address(address)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return not (ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast)


def address_for(peers: Iterable[str]) -> str | None:
    """Returns this machine's address on the route to the first of `peers` that is another machine; None if unknown.

    Without such a peer, uses the default route. May block while resolving names.
    """
    for peer in (*peers, _OUTSIDE_ADDRESS):
        with suppress(OSError, UnicodeError):  # unknown names, no route
            infos = socket.getaddrinfo(peer, _DISCARD_PORT, type=socket.SOCK_DGRAM)
            for family, kind, protocol, _, target in sorted(infos, key=lambda info: info[0] != socket.AF_INET):
                address = _source_address(family, kind, protocol, target)
                if address is not None:
                    return address
    return None


def _source_address(family: int, kind: int, protocol: int, target: Any) -> str | None:
    """Returns the source address of packets to a machine, without sending any; None for loopback or link-local."""
    with suppress(OSError), socket.socket(family, kind, protocol) as probe:
        probe.connect(target)
        address = str(probe.getsockname()[0])
        return address if is_reachable(address) else None
    return None
