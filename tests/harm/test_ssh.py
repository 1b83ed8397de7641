"""Over a real SSH connection, which falls asleep and is then killed."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.engine.harness import FAKE
from tests.terminal.screen import Terminal

from .patience import wait_until
from .scale import full
from .sessions import STEPS, look, shown, steps, stop, the_session
from .stamps import largest_gap_s, last_number

pytestmark = [pytest.mark.terminal, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PRIVILEGE_SEPARATION = Path("/run/sshd")
"""Debian's sshd, started by root, wants this folder; its service makes it."""


def _over(ssh: list[str], *args: str, columns: int = 120, rows: int = 36) -> Terminal:
    """A terminal with `ssh` in it, and gmg-tui at the other end."""
    variables = [f"{name}={os.environ[name]}" for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "PATH")]
    remote = shlex.join(("env", *variables, sys.executable, "-m", "gmg_tui", *args))
    return Terminal(f"cd {shlex.quote(str(ROOT))} && {remote}", columns=columns, rows=rows, command=ssh)


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[list[str]]:
    """The beginning of an `ssh` command line to a server of this test's own, on the loopback."""
    programs = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("sshd", "ssh", "ssh-keygen")]
    if None in programs:
        pytest.skip("openssh-server and openssh-client are not installed")
    sshd, client, keygen = map(str, programs)
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "user.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "prohibit-password",
        "PasswordAuthentication": "no",
    }
    (tmp_path / "config").write_text("".join(f'{name} "{value}"\n' for name, value in settings.items()))
    made = os.getuid() == 0 and not PRIVILEGE_SEPARATION.exists()
    if made:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755)
    log = (tmp_path / "sshd.log").open("wb")
    server = subprocess.Popen([sshd, "-D", "-e", "-f", str(tmp_path / "config")], stderr=log)
    try:
        wait_until(lambda: _listens(port) or server.poll() is not None)
        assert server.poll() is None, (tmp_path / "sshd.log").read_text()
        options = ("StrictHostKeyChecking=no", f'UserKnownHostsFile="{tmp_path / "known"}"', "IdentitiesOnly=yes")
        flags = [word for option in options for word in ("-o", option)]
        yield [
            *(client, "-tt", "-q", "-F", "none", "-p", str(port), "-i", str(tmp_path / "user"), *flags),
            f"{getpass.getuser()}@127.0.0.1",
        ]
    finally:
        server.terminate()
        server.wait()
        log.close()
        if made:
            PRIVILEGE_SEPARATION.rmdir()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_connection_that_sleeps_and_dies_leaves_a_session_to_come_back_to(ssh: list[str], tmp_path: Path) -> None:
    stall_s = full(60.0, short=6.0)
    stamps = tmp_path / "stamps"
    with _over(ssh, "--cpu", "1", FAKE, *STEPS, "--stamp", str(stamps)) as line:
        line.until("cpu0 log", lambda text: shown(text) > 20)
        found = the_session()
        before = look(found)
        client = psutil.Process(line.pid)
        client.suspend()  # a laptop that sleeps: the connection stands, and nobody reads
        for _ in range(20):
            line.press("\x0c")
        time.sleep(stall_s)
        with _over(ssh, "attach", columns=90, rows=28) as again:
            printed = last_number(stamps)
            again.until("cpu0 log", lambda text: shown(text) >= printed)
            client.kill()
            wait_until(lambda: not line.alive)
            wait_until(lambda: look(found).clients == 2)  # this one, and the one that looks
            printed = last_number(stamps)
            again.until("cpu0 log", lambda text: shown(text) >= printed)
            assert [worker.pid for worker in look(found).workers] == [worker.pid for worker in before.workers]
            again.press("d")
            assert again.until_ended() == 0
    stop(found)
    assert largest_gap_s(stamps) < stall_s * 2 / 3
    assert steps(found, "cpu0")[: last_number(stamps)] == list(range(last_number(stamps)))
