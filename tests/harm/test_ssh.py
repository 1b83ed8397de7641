"""Over a real SSH connection, which falls asleep and is then killed."""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.engine.harness import FAKE
from tests.patience import wait_until
from tests.sshd import sshd
from tests.terminal.screen import Terminal

from .sessions import STEPS, newest_step, snapshot_of, steps, stop, the_session, written

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


def test_a_session_survives_a_suspended_and_lost_connection(ssh: list[str], tmp_path: Path) -> None:
    stamps = tmp_path / "stamps"
    with _over(ssh, "--cpu", "1", FAKE, *STEPS, "--stamp", str(stamps)) as line:
        line.until("cpu0 log", lambda text: newest_step(text) > 20)
        entry = the_session()
        before = snapshot_of(entry)
        client = psutil.Process(line.pid)
        client.suspend()  # a laptop that sleeps: the connection stands, and nobody reads
        line.press(*["\x0c"] * 20)
        printed = written(stamps)
        wait_until(lambda: len(steps(entry, "cpu0")) > printed + 60)
        with _over(ssh, "attach", columns=90, rows=28) as again:
            printed = written(stamps)
            again.until("cpu0 log", lambda text: newest_step(text) >= printed)
            client.kill()
            wait_until(lambda: not line.alive)
            wait_until(lambda: snapshot_of(entry).clients == 2)  # this one, and the one that asks
            printed = written(stamps)
            again.until("cpu0 log", lambda text: newest_step(text) >= printed)
            assert [worker.pid for worker in snapshot_of(entry).workers] == [worker.pid for worker in before.workers]
            again.press("d")
            assert again.until_ended() == 0
    stop(entry)
    assert steps(entry, "cpu0")[: written(stamps)] == list(range(written(stamps)))
