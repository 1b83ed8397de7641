"""An engine's process, started before the command line is checked.

The engine's imports take as long as the screen's, so both run in parallel, and the engine receives its `RunSpec` later.
To start the engine soon, this module imports very little.
"""

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
"""Equivalent of `python -m gmg_tui.engine` without the current folder on the path (`-P`): it may contain a `queue.py`.
Garbage collection starts after the imports (`engine/__main__.py`)."""
_MAX_STDERR_BYTES = 1 << 16
_CONFIRMATION = b"go\n"
_STOP_TIMEOUT_S = 30.0
"""Timeout for a cancelled engine to exit, in addition to its workers' timeouts."""


class PrestartedEngine:
    """An engine in its own process session (setsid) that waits for its spec; killed if the context ends without one."""

    def __init__(self) -> None:
        package_root = Path(gmg_tui.__file__).parent.parent
        # The engine's standard error until it opens its log.
        self._stderr = os.memfd_create("engine")
        self._has_spec = False
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, str(package_root)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,
                # Processes are attributed to sessions by their initial environment.
                env={name: value for name, value in os.environ.items() if name not in WORKER_VARIABLES},
            )
        except OSError as error:
            raise GmgError(f"cannot start the engine: {error}", 1) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._has_spec:
            self.process.kill()
            self.process.wait()
        os.close(self._stderr)

    def send_spec(self, text: bytes) -> None:
        """Sends the spec; if the engine has died, no reply follows.

        Keeps the engine's standard input open, so that the engine detects the end of this process.
        """
        self._has_spec = True
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.write(text)
                self.process.stdin.flush()

    def confirm(self) -> None:
        """Tells the engine to start its workers. Does nothing if it has died: its clients will notice."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError), self.process.stdin as stdin:
                stdin.write(_CONFIRMATION)

    def cancel(self, workers_s: float = 0.0) -> None:
        """Ends the engine with SIGTERM if it has its spec; kills it on ctrl+c, or after `_STOP_TIMEOUT_S + workers_s`."""
        if not self._has_spec:
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP_TIMEOUT_S + workers_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()

    def early_stderr(self) -> bytes:
        """Returns the standard error from before the engine opened its log."""
        return os.pread(self._stderr, _MAX_STDERR_BYTES, 0)
