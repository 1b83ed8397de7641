"""Two sessions of one name: the first in the state folder below a home, the second below an `XDG_STATE_HOME`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from gmg_tui import session as sessions
from tests.engine.harness import FAKE

from .patience import wait_until
from .sessions import STEPS

NAME = "sama"


class Namesake:
    """A detached session called `sama`, with one worker that prints for ever.

    Args:
        environ: The environment of all that is run for it.
        state: The state folder that this environment leads to.
    """

    def __init__(self, environ: Mapping[str, str], state: Path) -> None:
        self.environ = dict(environ)
        self.folder = state / "gmg-tui" / "sessions" / NAME

    @classmethod
    def at_home(cls, home: Path) -> Namesake:
        """The one below `home`, whose environment has no `XDG_STATE_HOME`."""
        home.mkdir()
        rest = {name: value for name, value in os.environ.items() if name != "XDG_STATE_HOME"}
        return cls({**rest, "HOME": str(home)}, home / ".local" / "state")

    @classmethod
    def elsewhere(cls) -> Namesake:
        """The one in this test's own state folder."""
        return cls(os.environ, Path(os.environ["XDG_STATE_HOME"]))

    def gmg(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `gmg-tui` with its state folder."""
        command = [sys.executable, "-m", "gmg_tui", *words]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True)

    def start(self) -> None:
        """Start it, and wait until its worker is a process."""
        done = self.gmg("--detach", "--cpu", "1", "--name", NAME, FAKE, *STEPS)
        assert (done.stdout, done.returncode) == (f"{NAME}\n", 0), done.stderr
        wait_until(lambda: self.found.record.workers[0].pid)

    @property
    def found(self) -> sessions.SessionEntry:
        """The session as its folder has it."""
        found = sessions.inspect(self.folder)
        assert found is not None
        return found

    @property
    def socket(self) -> Path:
        """Where its engine listens."""
        return Path(self.found.record.session.spec.socket)

    @property
    def listed(self) -> Any:
        """What `ls` hears from its engine."""
        return json.loads(self.gmg("ls", "--json").stdout)[0]

    @property
    def worker(self) -> psutil.Process:
        """Its worker's process."""
        pid = self.found.record.workers[0].pid
        assert pid is not None
        return psutil.Process(pid)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its engine."""
        os.kill(self.found.record.session.engine_pid, number)

    def until_frozen(self) -> None:
        """Wait until its engine, which was sent SIGSTOP, is stopped."""
        engine = psutil.Process(self.found.record.session.engine_pid)
        wait_until(lambda: engine.status() == psutil.STATUS_STOPPED)

    def until_let_go(self) -> None:
        """Wait until engine and watchdog are gone."""
        wait_until(lambda: self.found.state != "running")

    def end(self) -> None:
        """End it whatever state it is in."""
        if self.found.state == "running":
            self.signal(signal.SIGTERM)
            self.until_let_go()


def alive(process: psutil.Process) -> bool:
    """Whether it runs; nobody may have waited for one that is dead."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
