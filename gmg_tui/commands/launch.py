"""Starting an engine and hearing whether it took the run."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

import gmg_tui
from gmg_tui import session as sessions
from gmg_tui.commands.tell import notice
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec

_BOOT = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "import runpy; runpy.run_module('gmg_tui.engine', run_name='__main__', alter_sys=True)"
)
"""Runs the engine as `python -m gmg_tui.engine` does, but (with `-P`) without the current folder on the path: beside a
script there may be a `queue.py` that is not Python's."""
_PATIENCE_S = 1.0
"""After how long a person is told what is waited for."""
_STOP_S = 30.0
"""How long an engine that is called off while it starts may take to stop the workers that it has."""
_END_S = 5.0
"""How long an engine may take to end once its workers have; longer when somebody else still looks at the session."""


class Launched(NamedTuple):
    """An engine that listens."""

    process: subprocess.Popen[bytes]
    warnings: tuple[str, ...]

    def settle(self) -> None:
        """Wait until the engine has written its files and ended, unless another client keeps it."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S)

    def call_off(self) -> None:
        """Stop the workers in order and end the engine; ctrl+c meanwhile ends it at once."""
        _call_off(self.process)


class _Reply(msgspec.Struct, frozen=True):
    """The one line that an engine writes on its standard output."""

    ok: bool
    warnings: tuple[str, ...] = ()
    error: str = ""
    exit_code: int = 2


def launch(spec: RunSpec, *, meanwhile: Callable[[], object]) -> Launched:
    """Start an engine for `spec`, in a session of its own (setsid), and wait until it listens.

    Args:
        spec: The run; its folder is there.
        meanwhile: Called while the engine starts.

    Raises:
        GmgError: The engine cannot be started or refuses the run, and the session's folder is gone; or it died, and
            the folder holds its log.
        BaseException: What interrupted the wait; the engine has ended and the folder is gone.
    """
    try:
        process = _spawn(spec)
    except BaseException:
        _remove(spec)
        raise
    try:
        meanwhile()
        line = _answer(process)
    except BaseException:
        _call_off(process)
        _remove(spec)
        raise
    try:
        reply = msgspec.json.decode(line, type=_Reply)
    except msgspec.MsgspecError:
        _call_off(process)
        raise GmgError(f"the engine died while it started; see {Path(spec.folder) / sessions.ENGINE_LOG}", 1) from None
    if not reply.ok:
        _call_off(process)
        _remove(spec)
        raise GmgError(reply.error, reply.exit_code)
    return Launched(process, reply.warnings)


def _spawn(spec: RunSpec) -> subprocess.Popen[bytes]:
    try:
        described = msgspec.json.encode(spec)
    except UnicodeEncodeError:
        raise GmgError("the arguments are no UTF-8; gmg-tui cannot hand them on") from None
    root = Path(gmg_tui.__file__).parent.parent
    # The engine keeps its log itself; what comes before that, or of a crash in native code, is to be found there too.
    log = os.open(Path(spec.folder) / sessions.ENGINE_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, str(root)],
            cwd=spec.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    except OSError as error:
        raise GmgError(f"cannot start the engine: {error}", 1) from error
    finally:
        os.close(log)
    if process.stdin is not None:
        # An engine that has died already is found out by its silence.
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(described)
    return process


def _answer(process: subprocess.Popen[bytes]) -> bytes:
    """The engine's line; empty when it died."""
    if process.stdout is None:
        return b""
    with process.stdout as stdout:
        if not select.select([stdout], [], [], _PATIENCE_S)[0]:
            with notice("waiting for the engine; without persistence mode the driver takes its time"):
                select.select([stdout], [], [])
        return stdout.readline()


def _call_off(process: subprocess.Popen[bytes]) -> None:
    """End an engine: a terminated one stops its workers first, a killed one takes them along."""
    process.terminate()
    try:
        process.wait(_STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _remove(spec: RunSpec) -> None:
    shutil.rmtree(spec.folder, ignore_errors=True)
    Path(spec.socket).unlink(missing_ok=True)
