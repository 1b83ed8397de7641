"""Hands an engine its run, and waits for its reply."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from gmg_tui import session as sessions
from gmg_tui import sockets
from gmg_tui.commands.messages import notice
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec

_PATIENCE_S = 1.0
"""After how long the user is told what is taking time."""
_DRIVER_WAIT = "waiting for the engine; without persistence mode the driver needs several seconds"
_NODES_WAIT = "waiting for the nodes"
_STOP_S = 30.0
"""How long an engine that is cancelled may take to end, beside its workers' own timeouts."""
_REPLY_BYTES = 1 << 16
CONFIRMED = b"go\n"
"""Tells the engine that its reply was read."""
_END_S = 5.0
"""How long to wait for an engine to end after its workers; other clients may keep it alive longer."""


class Launched(NamedTuple):
    """An engine that listens. It starts its workers when it is told to, and ends when this process ends before."""

    process: subprocess.Popen[bytes]
    warnings: tuple[str, ...]
    socket: Path
    """Where."""
    stop_s: float = _STOP_S
    """How long it may take to stop its workers."""

    def confirm(self) -> None:
        """Have it start its workers; if it has already died, its clients find out."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError), self.process.stdin as stdin:
                stdin.write(CONFIRMED)

    def settle(self) -> None:
        """Wait until the engine has written its files and ended, unless another client keeps it alive."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S)

    def cancel(self) -> None:
        """Stop the workers and end the engine; ctrl+c meanwhile ends it at once."""
        _cancel(self.process, self.stop_s)


class _Reply(msgspec.Struct, frozen=True):
    """The one line that an engine writes on its standard output."""

    ok: bool
    warnings: tuple[str, ...] = ()
    socket: str = ""
    error: str = ""
    exit_code: int = 2


class _Progress(msgspec.Struct, frozen=True):
    """A line that may come before it."""

    progress: str


def launch(
    spec: RunSpec,
    *,
    meanwhile: Callable[[], object],
    engine: PrestartedEngine | None = None,
    viewer: bool = False,
    fresh: bool = True,
    begun: Callable[[], object] = lambda: None,
) -> Launched:
    """Have an engine prepare to run `spec`, and wait until it listens.

    Args:
        spec: The run; its folder is there.
        meanwhile: Called while the engine starts.
        engine: A prestarted one; None starts one now.
        viewer: Whether a screen is opened next: the workers then wait briefly for its first frame.
        fresh: Whether the folder was made for this run; otherwise an earlier engine wrote it, and it is kept.
        begun: Called once a fresh folder is removed whatever interrupts this.

    Raises:
        GmgError: The engine cannot be started or refuses the run, and a fresh folder is removed; or it died, and the
            folder has its log.
        BaseException: What interrupted the wait; the engine has ended and a fresh folder is removed.
    """
    if engine is None:
        with PrestartedEngine() as engine:
            return launch(spec, meanwhile=meanwhile, engine=engine, viewer=viewer, fresh=fresh, begun=begun)
    try:
        begun()
        _order(engine, spec, viewer=viewer, fresh=fresh)
    except BaseException:
        _remove(spec, fresh)
        raise
    process = engine.process
    try:
        meanwhile()
        line = _answer(process, _DRIVER_WAIT if spec.nodes is None else _NODES_WAIT)
    except BaseException:
        _cancel(process)
        _remove(spec, fresh)
        raise
    try:
        reply = msgspec.json.decode(line, type=_Reply)
    except msgspec.MsgspecError:
        _cancel(process)
        log = Path(spec.folder) / sessions.ENGINE_LOG
        _save_stderr(engine, log)
        raise GmgError(f"the engine died during startup; see {log}", 1) from None
    if not reply.ok:
        _cancel(process)
        _remove(spec, fresh)
        raise GmgError(reply.error, reply.exit_code)
    stop_s = _STOP_S + spec.sigint_wait_s + spec.sigterm_wait_s
    return Launched(process, reply.warnings, Path(reply.socket), stop_s)


def _order(engine: PrestartedEngine, spec: RunSpec, *, viewer: bool, fresh: bool) -> None:
    try:
        described = msgspec.json.encode(spec)
    except UnicodeEncodeError:
        raise GmgError("the arguments are not UTF-8; gmg-tui cannot pass them on") from None
    words = [b"confirm", b"progress", *([b"fresh"] if fresh else []), *([b"viewer"] if viewer else [])]
    engine.order(described + b"\n" + b" ".join(words) + b"\n")


def _save_stderr(engine: PrestartedEngine, log: Path) -> None:
    """Append to the log what the engine wrote to standard error before it opened the log."""
    with suppress(OSError), log.open("ab") as file:
        file.write(engine.stderr_text())


def _answer(process: subprocess.Popen[bytes], waiting: str) -> bytes:
    """The engine's line; empty when it died. Meanwhile it is told what is waited for, at first `waiting`."""
    if process.stdout is None:
        return b""
    said = b""
    with process.stdout as stdout:
        while True:
            if not select.select([stdout], [], [], _PATIENCE_S)[0]:
                with notice(waiting):
                    select.select([stdout], [], [])
            data = os.read(stdout.fileno(), _REPLY_BYTES)
            said += data
            while b"\n" in said or (said and not data):
                line, _, said = said.partition(b"\n")
                try:
                    waiting = msgspec.json.decode(line, type=_Progress).progress
                except msgspec.MsgspecError:
                    return line
            if not data:
                return b""


def _cancel(process: subprocess.Popen[bytes], stop_s: float = _STOP_S) -> None:
    """End an engine: on SIGTERM it stops its workers first, on SIGKILL its watchdog kills them."""
    process.terminate()
    try:
        process.wait(stop_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _remove(spec: RunSpec, fresh: bool) -> None:
    """Remove a fresh folder and its socket; others may belong to an engine that runs there."""
    if fresh:
        shutil.rmtree(spec.folder, ignore_errors=True)
        with suppress(OSError):
            sockets.remove_stale(Path(spec.socket))
