"""Agents on the hosts of a list, by ssh: `--nodes ssh:a,b`.

OpenSSH's client reads its own configuration, so hosts may be aliases from `~/.ssh/config`. It is not
asked for a password: a session that starts sixteen agents cannot ask sixteen times (ssh_config(5), `BatchMode`).
"""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from gmg_tui.engine.launchers.launcher import PROGRAM, Launcher
from gmg_tui.model.errors import GmgError

_HOST = re.compile(r"(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9._:-]*")
_OPTIONS = (
    *("-o", "BatchMode=yes"),
    *("-o", "ConnectTimeout=20"),
    # Tolerate a network that stalls for a minute; notice a lost one after three.
    *("-o", "ServerAliveInterval=30", "-o", "ServerAliveCountMax=6"),
    "-T",
)
COMMAND = "GMG_SSH"
"""Variable with another client and its options: `GMG_SSH="ssh -F config"`."""


class Ssh(Launcher):
    """The hosts listed in `where`."""

    def __init__(self, where: str) -> None:
        self._hosts = {_name(host): host for host in _hosts(where)}
        self._client = shlex.split(os.environ.get(COMMAND, "ssh"))

    async def nodes(self) -> tuple[str, ...]:
        """Returns the hosts, without their users."""
        return tuple(self._hosts)

    def command(self, node: str) -> Sequence[str]:
        """Returns the command that runs this program in this folder, or the host's own `gmg-tui` if missing there."""
        same, python, folder = shlex.join(PROGRAM), shlex.quote(PROGRAM[0]), shlex.quote(str(Path.cwd()))
        there = f"cd {folder} 2>/dev/null; if [ -x {python} ]; then exec {same}; else exec gmg-tui agent; fi"
        # The login shell may be fish or csh, which lack `if … then`.
        return (*self._client, *_OPTIONS, "--", self._hosts[node], f"exec sh -c {shlex.quote(there)}")


def _name(host: str) -> str:
    return host.rpartition("@")[2].replace(":", "-")


def _hosts(where: str) -> tuple[str, ...]:
    """Returns the hosts of a list. Raises `GmgError`."""
    hosts = tuple(host.strip() for host in where.split(",") if host.strip())
    if not hosts:
        raise GmgError(f"--nodes ssh:{where}: give hosts, as in ssh:a,b")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise GmgError(f"--nodes ssh:{where}: {host!r} is not a host")
        if sum(_name(host).casefold() == _name(other).casefold() for other in hosts) > 1:
            raise GmgError(f"--nodes ssh:{where}: {host} is named twice; one agent runs all slots of a host")
    return hosts
