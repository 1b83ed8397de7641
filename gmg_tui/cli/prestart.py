"""An engine's process, started before its run is complete.

Its imports take as long as the screen's, so it is started as soon as the command line asks for a run, and
receives its `RunSpec` later. For the same reason this module imports very little.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import gmg_tui
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.environ import WORKER_VARIABLES

_BOOT = (
    "import gc, sys; gc.disable(); sys.path.append(sys.argv.pop(1)); "
    "import runpy; runpy.run_module('gmg_tui.engine', run_name='__main__', alter_sys=True)"
)
"""Runs the engine as `python -m gmg_tui.engine` does, but (with `-P`) without the current folder on the path: a folder
of scripts may contain a `queue.py`. Garbage collection starts after the imports (`engine/__main__.py`)."""
_STDERR_BYTES = 1 << 16
_CONFIRMED = b"go\n"
_STOP_S = 30.0
"""Time for a cancelled engine to end, in addition to its workers' timeouts."""


class PrestartedEngine:
    """An engine in its own process session (setsid) that waits for its run; on leaving the context one without a run is killed.

    Attributes:
        process: The process.

    Raises:
        GmgError: It cannot be started.
    """

    def __init__(self) -> None:
        root = Path(gmg_tui.__file__).parent.parent
        # Until the engine has the path of its log, its standard error goes here.
        self._stderr = os.memfd_create("engine")
        self._ordered = False
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, str(root)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,
                # From the start: the processes of a session are found by their initial environment.
                env={name: value for name, value in os.environ.items() if name not in WORKER_VARIABLES},
            )
        except OSError as error:
            raise GmgError(f"cannot start the engine: {error}", 1) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ordered:
            self.process.kill()
            self.process.wait()
        os.close(self._stderr)

    def order(self, text: bytes) -> None:
        """Send it the run; if it has already died, the missing reply shows that.

        Its standard input stays open, and when it closes, the engine detects the end of this process.
        """
        self._ordered = True
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.write(text)
                self.process.stdin.flush()

    def confirm(self) -> None:
        """Has it start its workers, now that its reply was read. If it has already died, its clients notice."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError), self.process.stdin as stdin:
                stdin.write(_CONFIRMED)

    def cancel(self, workers_s: float = 0.0) -> None:
        """Ends it, giving its workers `workers_s` seconds: on SIGTERM it stops them first.

        On SIGKILL, which ctrl+c sends, its watchdog kills them. One without a run is ended on leaving the context.
        """
        if not self._ordered:
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP_S + workers_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()

    def stderr_text(self) -> bytes:
        """Returns its standard error up to the opening of its log."""
        return os.pread(self._stderr, _STDERR_BYTES, 0)
