"""Giving an engine its run, and hearing whether it took it."""

from __future__ import annotations

import select
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from gmg_tui import session as sessions
from gmg_tui.commands.ahead import Ahead
from gmg_tui.commands.tell import notice
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec

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


def launch(
    spec: RunSpec,
    *,
    meanwhile: Callable[[], object],
    engine: Ahead | None = None,
    viewer: bool = False,
    fresh: bool = True,
) -> Launched:
    """Have an engine run `spec`, and wait until it listens.

    Args:
        spec: The run; its folder is there.
        meanwhile: Called while the engine starts.
        engine: One that was started ahead; None starts one now.
        viewer: Whether a screen is opened on it next: the workers then wait a moment for its first frame.
        fresh: Whether the folder was made for this run; else it holds what an earlier engine did, and stays.

    Raises:
        GmgError: The engine cannot be started or refuses the run, and a fresh folder is gone; or it died, and the
            folder holds its log.
        BaseException: What interrupted the wait; the engine has ended and a fresh folder is gone.
    """
    remove = _remove if fresh else _leave
    if engine is None:
        with Ahead() as engine:
            return launch(spec, meanwhile=meanwhile, engine=engine, viewer=viewer, fresh=fresh)
    try:
        _order(engine, spec, viewer=viewer)
    except BaseException:
        remove(spec)
        raise
    process = engine.process
    try:
        meanwhile()
        line = _answer(process)
    except BaseException:
        _call_off(process)
        remove(spec)
        raise
    try:
        reply = msgspec.json.decode(line, type=_Reply)
    except msgspec.MsgspecError:
        _call_off(process)
        log = Path(spec.folder) / sessions.ENGINE_LOG
        _keep_last_words(engine, log)
        raise GmgError(f"the engine died while it started; see {log}", 1) from None
    if not reply.ok:
        _call_off(process)
        remove(spec)
        raise GmgError(reply.error, reply.exit_code)
    return Launched(process, reply.warnings)


def _order(engine: Ahead, spec: RunSpec, *, viewer: bool) -> None:
    try:
        described = msgspec.json.encode(spec)
    except UnicodeEncodeError:
        raise GmgError("the arguments are no UTF-8; gmg-tui cannot hand them on") from None
    engine.order(described + (b"\nviewer" if viewer else b""))


def _keep_last_words(engine: Ahead, log: Path) -> None:
    """Put what an engine said before it had a log where one looks for it."""
    with suppress(OSError), log.open("ab") as file:
        file.write(engine.last_words())


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


def _leave(spec: RunSpec) -> None:
    """Nothing: the folder is an earlier session's, and the socket may be that of an engine that runs there."""
