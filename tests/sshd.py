"""A real sshd of a test's own, on the loopback."""

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.patience import wait_until

PRIVILEGE_SEPARATION = Path("/run/sshd")
"""Debian's sshd, started by root, wants this folder; its service makes it."""


class Sshd(NamedTuple):
    """How it is reached."""

    client: str
    flags: tuple[str, ...]
    """Of the client: the port, the key, and that the host is not known."""
    user: str
    process: subprocess.Popen[bytes]


@contextmanager
def sshd(folder: Path, address: str = "127.0.0.1", within: Sequence[str] = ()) -> Iterator[Sshd]:
    """Serve at the address until the context ends; skips the test where there is no OpenSSH.

    `within` are the words that begin a command in the network where that address is.
    """
    programs = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("sshd", "ssh", "ssh-keygen")]
    if None in programs:
        pytest.skip("openssh-server and openssh-client are not installed")
    program, client, keygen = map(str, programs)
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # free here, and in a network of its own all are
        port = probe.getsockname()[1]
    settings = {
        "ListenAddress": f"{address}:{port}",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "user.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "prohibit-password",
        "PasswordAuthentication": "no",
        "AcceptEnv": "*",
    }
    (folder / "config").write_text("".join(f'{name} "{value}"\n' for name, value in settings.items()))
    made = os.getuid() == 0 and not PRIVILEGE_SEPARATION.exists()
    if made:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755)
    log = (folder / "sshd.log").open("wb")
    server = subprocess.Popen([*within, program, "-D", "-e", "-f", str(folder / "config")], stderr=log)
    try:
        wait_until(lambda: _listens(address, port) or server.poll() is not None)
        assert server.poll() is None, (folder / "sshd.log").read_text()
        options = ("StrictHostKeyChecking=no", f'UserKnownHostsFile="{folder / "known"}"', "IdentitiesOnly=yes")
        flags = [word for option in options for word in ("-o", option)]
        reach = ("-p", str(port), "-i", str(folder / "user"), *flags)
        yield Sshd(client, reach, getpass.getuser(), server)
    finally:
        server.terminate()
        server.wait()
        log.close()
        if made:
            PRIVILEGE_SEPARATION.rmdir()


def _listens(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0
