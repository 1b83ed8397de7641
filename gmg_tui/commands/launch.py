"""Hands an engine its run, and waits for its reply."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from gmg_tui import session as sessions
from gmg_tui.commands.messages import waiting
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.ddp import torchrun
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec
from gmg_tui.session import sockets

_PATIENCE_S = 1.0
"""Seconds after which a message reports what is taking time."""
_DRIVER_WAIT = "waiting for the engine; without persistence mode the driver needs several seconds"
_NODES_WAIT = "waiting for the nodes"
_REPLY_BYTES = 1 << 16


class Reply(msgspec.Struct, frozen=True):
    """The one line that an engine writes on its standard output."""

    ok: bool
    warnings: tuple[str, ...] = ()
    socket: str = ""
    """Where it listens."""
    error: str = ""
    exit_code: int = 2


class _Progress(msgspec.Struct, frozen=True):
    """A line that may come before it."""

    progress: str


def launch(
    engine: PrestartedEngine,
    spec: RunSpec,
    *,
    meanwhile: Callable[[], object],
    viewer: bool = False,
    fresh: bool = True,
    begun: Callable[[], object] = lambda: None,
) -> Reply:
    """Have `engine` prepare to run `spec`, and wait until it listens. It starts its workers when it is confirmed.

    Args:
        engine: It ends when this process ends before that.
        spec: The run; its folder is there.
        meanwhile: Called while the engine starts.
        viewer: Whether a screen is opened next: the workers then wait briefly for its first frame.
        fresh: Whether the folder was made for this run; otherwise an earlier engine wrote it, and it is kept.
        begun: Called once a fresh folder is removed whatever interrupts this.

    Raises:
        GmgError: The engine cannot be started or refuses the run, and a fresh folder is removed; or it died, and the
            folder has its log.
        BaseException: What interrupted the wait; the engine has ended and a fresh folder is removed.
    """
    try:
        begun()
        _order(engine, spec, viewer=viewer, fresh=fresh)
    except BaseException:
        _remove(spec, fresh)
        raise
    try:
        meanwhile()
        line = _answer(engine.process, _DRIVER_WAIT if spec.nodes is None else _NODES_WAIT)
    except BaseException:
        engine.cancel()
        _remove(spec, fresh)
        raise
    try:
        reply = msgspec.json.decode(line, type=Reply)
    except msgspec.MsgspecError:
        engine.cancel()
        log = Path(spec.folder) / sessions.ENGINE_LOG
        with suppress(OSError), log.open("ab") as file:
            file.write(engine.stderr_text())
        raise GmgError(f"the engine died during startup; see {log}", 1) from None
    if not reply.ok:
        engine.cancel()
        _remove(spec, fresh)
        raise GmgError(reply.error, reply.exit_code)
    engine.stop_s += torchrun.stop_s(spec)
    return reply


def _order(engine: PrestartedEngine, spec: RunSpec, *, viewer: bool, fresh: bool) -> None:
    try:
        described = msgspec.json.encode(spec)
    except UnicodeEncodeError:
        raise GmgError("the arguments are not UTF-8; gmg-tui cannot pass them on") from None
    words = [b"confirm", b"progress", *([b"fresh"] if fresh else []), *([b"viewer"] if viewer else [])]
    engine.order(described + b"\n" + b" ".join(words) + b"\n")


def _answer(process: subprocess.Popen[bytes], doing: str) -> bytes:
    """The engine's line; empty when it died. A person sees what takes more than a moment, at first `doing`."""
    if process.stdout is None:
        return b""
    received = b""
    with process.stdout as stdout:
        while True:
            if not select.select([stdout], [], [], _PATIENCE_S)[0]:
                with waiting(doing):
                    select.select([stdout], [], [])
            data = os.read(stdout.fileno(), _REPLY_BYTES)
            received += data
            while b"\n" in received or (received and not data):
                line, _, received = received.partition(b"\n")
                try:
                    doing = msgspec.json.decode(line, type=_Progress).progress
                except msgspec.MsgspecError:
                    return line
            if not data:
                return b""


def _remove(spec: RunSpec, fresh: bool) -> None:
    """Remove a fresh folder and its socket; others may belong to an engine that runs there."""
    if fresh:
        shutil.rmtree(spec.folder, ignore_errors=True)
        with suppress(OSError):
            sockets.remove_stale(Path(spec.socket))
