"""An engine's process, started before it is known what it is to run.

Its imports take as long as those of the screen, so it is started as soon as a command line asks for a run at all; what
to run it is told later. This module imports next to nothing itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import gmg_tui
from gmg_tui.errors import GmgError

_BOOT = (
    "import gc, sys; gc.disable(); sys.path.append(sys.argv.pop(1)); "
    "import runpy; runpy.run_module('gmg_tui.engine', run_name='__main__', alter_sys=True)"
)
"""Runs the engine as `python -m gmg_tui.engine` does, but (with `-P`) without the current folder on the path: beside a
script there may be a `queue.py` that is not Python's. Garbage is looked for once all is imported (`engine/__main__.py`)."""
_LAST_WORDS_BYTES = 1 << 16


class Ahead:
    """An engine in a session of its own (setsid) that waits for its order; as a context, one that gets none is ended.

    That it could not be started is said when it is wanted, after what may be wrong with the command line.
    """

    def __init__(self) -> None:
        root = Path(gmg_tui.__file__).parent.parent
        # It keeps its log itself once it knows where; until then what it says of a crash goes here.
        self._words = os.memfd_create("engine")
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        self._ordered = False
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, str(root)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                start_new_session=True,
            )
        except OSError as error:
            self._failure = error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and not self._ordered:
            self._process.kill()
            self._process.wait()
        os.close(self._words)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process. Raises `GmgError` when it could not be started."""
        if self._process is None:
            raise GmgError(f"cannot start the engine: {self._failure}", 1) from self._failure
        return self._process

    def order(self, text: bytes) -> None:
        """Tell it all that it is told; one that has died already is found out by its silence.

        Raises:
            GmgError: It could not be started.
        """
        pipe = self.process.stdin
        self._ordered = True
        if pipe is not None:
            with suppress(BrokenPipeError), pipe as stdin:
                stdin.write(text)

    def last_words(self) -> bytes:
        """What it has said on standard error before it had a log."""
        return os.pread(self._words, _LAST_WORDS_BYTES, 0)
