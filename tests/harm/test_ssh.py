"""Over a real SSH connection, which falls asleep and is then killed."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.engine.harness import FAKE
from tests.sshd import sshd
from tests.terminal.screen import Terminal

from .patience import wait_until
from .scale import full
from .sessions import STEPS, look, shown, steps, stop, the_session
from .stamps import largest_gap_s, last_number

pytestmark = [pytest.mark.terminal, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def _over(ssh: list[str], *args: str, columns: int = 120, rows: int = 36) -> Terminal:
    """A terminal with `ssh` in it, and gmg-tui at the other end."""
    variables = [f"{name}={os.environ[name]}" for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "PATH")]
    remote = shlex.join(("env", *variables, sys.executable, "-m", "gmg_tui", *args))
    return Terminal(f"cd {shlex.quote(str(ROOT))} && {remote}", columns=columns, rows=rows, command=ssh)


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[list[str]]:
    """The beginning of an `ssh` command line to a server of this test's own, on the loopback."""
    with sshd(tmp_path) as server:
        yield [server.client, "-tt", "-q", "-F", "none", *server.flags, f"{server.user}@127.0.0.1"]


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
