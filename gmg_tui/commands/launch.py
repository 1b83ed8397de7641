"""Starts the engine of a session, and shows the session until it ends or the user detaches."""

from __future__ import annotations

import importlib
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Self

import msgspec

from gmg_tui import session as sessions
from gmg_tui.commands.interactive import check_terminal, conclude, is_terminal, show
from gmg_tui.commands.messages import note, waiting
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.ddp import torchrun
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec
from gmg_tui.options import Options

_PATIENCE_S = 1.0
"""Seconds after which a message reports what is taking time."""
_DRIVER_WAIT = "waiting for the engine; without persistence mode the driver needs several seconds"
_NODES_WAIT = "waiting for the nodes"
_REPLY_BYTES = 1 << 16
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU)
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class _Reply(msgspec.Struct, frozen=True):
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


class _DiedError(GmgError):
    """An engine died while it started; the session's folder has its log."""


class _Interrupts:
    """Within the context, each signal that ends a command raises KeyboardInterrupt, as ctrl+c does, once it is released.

    Where SIGTERM ended this process alone, an engine and its workers would go on. SIGUSR1 and SIGUSR2, on which scripts
    save their state, are passed on to the engine.

    Attributes:
        engine: The engine's process, once it has a run.
    """

    def __init__(self) -> None:
        self.engine: subprocess.Popen[bytes] | None = None
        self._came = False

    def __enter__(self) -> Self:
        self.hold()
        handlers = {**dict.fromkeys(_ENDING, self._end), **dict.fromkeys(_PASSED_ON, self._pass_on)}
        self._before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold(self) -> None:
        """Block signals: what is being made could not be undone yet, or another handler is about to take over."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)

    def release(self) -> None:
        """Let signals through, those too that have come meanwhile."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come.

        Python drops what a handler raises in a finalizer or in a callback of a weak reference, of which each import
        has one (`importlib._bootstrap._get_module_lock`).
        """
        if self._came:
            raise KeyboardInterrupt

    def leave_ctrl_c(self) -> None:
        """As `check`; from now on ctrl+c is asyncio's, which cancels its main task where Python's own handler is set."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.check()

    def ignore(self) -> None:
        """Leave ctrl+c only: a second signal of another kind must not end this process before its workers."""
        for number in _ENDING:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        raise KeyboardInterrupt

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if self.engine is not None:
            self.engine.send_signal(number)


def start(options: Options, make: Callable[[], RunSpec], *, engine: PrestartedEngine) -> int:
    """Start the engine of a session and show it; the exit status.

    Args:
        options: How to show it.
        make: Makes the session's folder, or prepares that of an earlier session, and returns the spec. Called after all
            other checks.
        engine: The engine's process.

    Raises:
        GmgError: It cannot be started, and a folder without a record is removed; or its engine died.
    """
    headless = options.headless or not is_terminal()
    if not headless and not options.detach:
        check_terminal(os.environ)
    with _Interrupts() as interrupts:
        spec = make()
        fresh = not Path(spec.folder, sessions.RECORD).exists()
        try:
            interrupts.release()
            reply = _launch(engine, spec, options, headless=headless, fresh=fresh)
        except BaseException as error:
            engine.cancel()
            if fresh and not isinstance(error, _DiedError):
                _remove(spec)
            raise
        interrupts.engine = engine.process
        try:
            interrupts.check()
            engine.confirm()
            for warning in reply.warnings:
                note(f"gmg-tui: {warning}")
            if options.detach:
                print(spec.name)
                return 0
            status = _show(options, Path(reply.socket), engine, interrupts, headless=headless)
        except KeyboardInterrupt:
            # Only before a reporter or a screen handles ctrl+c itself.
            interrupts.ignore()
            note("stopping the workers (ctrl+c again kills them)")
            engine.cancel()
            raise
    return 0 if status is None else conclude(spec, status)


def _launch(engine: PrestartedEngine, spec: RunSpec, options: Options, *, headless: bool, fresh: bool) -> _Reply:
    """Have `engine` prepare to run `spec`, and wait until it listens. It starts its workers when it is confirmed.

    Raises:
        GmgError: It cannot be started, or refuses the run.
    """
    viewer = not (headless or options.detach)  # the workers wait briefly for its first frame
    words = [b"confirm", b"progress", *([b"fresh"] if fresh else []), *([b"viewer"] if viewer else [])]
    try:
        described = msgspec.json.encode(spec)
    except UnicodeEncodeError:
        raise GmgError("the arguments are not UTF-8; gmg-tui cannot pass them on") from None
    engine.order(described + b"\n" + b" ".join(words) + b"\n")
    if not options.detach:
        _load(headless=headless)
    line = _answer(engine.process, _DRIVER_WAIT if spec.nodes is None else _NODES_WAIT)
    try:
        reply = msgspec.json.decode(line, type=_Reply)
    except msgspec.MsgspecError:
        engine.cancel()
        log = Path(spec.folder) / sessions.ENGINE_LOG
        with suppress(OSError), log.open("ab") as file:
            file.write(engine.stderr_text())
        raise _DiedError(f"the engine died during startup; see {log}", 1) from None
    if not reply.ok:
        raise GmgError(reply.error, reply.exit_code)
    engine.stop_s += torchrun.stop_s(spec)
    return reply


def _load(*, headless: bool) -> None:
    """Import the reporter or the screen while the engine starts."""
    if headless:
        importlib.import_module("gmg_tui.headless")
    else:
        from gmg_tui import ui

        ui.load()


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


def _remove(spec: RunSpec) -> None:
    """Remove a session's folder and its socket."""
    shutil.rmtree(spec.folder, ignore_errors=True)
    with suppress(OSError):
        sessions.remove_stale_socket(Path(spec.socket))


def _show(
    options: Options, socket: Path, engine: PrestartedEngine, interrupts: _Interrupts, *, headless: bool
) -> int | None:
    """Show the session; its exit status once it has ended, None when the user detached."""
    if not headless:
        interrupts.leave_ctrl_c()
        return show(socket, options)
    from gmg_tui import headless as reporter

    interrupts.hold()
    interrupts.check()
    status = reporter.run(socket, begun=interrupts.release)
    engine.settle()
    return status
