"""Starts the engine of a session, and shows the session until it ends or the user detaches."""

from __future__ import annotations

import importlib
import io
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Self

import msgspec

from gmg_tui import session as sessions
from gmg_tui.cli.attach import await_end, check_terminal, conclude, is_terminal, show
from gmg_tui.cli.prestart import PrestartedEngine
from gmg_tui.cli.printing import note, waiting
from gmg_tui.machine.files import open_regular
from gmg_tui.machine.user_folders import is_utf8
from gmg_tui.model import RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import interpreter, torchrun
from gmg_tui.session.options import Options

_PATIENCE_S = 1.0
"""Seconds after which a message names the wait."""
_POLL_S = 0.1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU)
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class _Reply(msgspec.Struct, frozen=True):
    """A line that an engine writes to its standard output: progress, or finally the result of its start."""

    ok: bool = False
    warnings: tuple[str, ...] = ()
    socket: str = ""
    """The path of its socket."""
    error: str = ""
    exit_code: int = 2
    progress: str = ""
    lines: tuple[str, ...] = ()
    """Progress messages, each printed once."""


class _DiedError(GmgError):
    """The engine died during startup; the session's folder has its log."""


class _Signals:
    """Within the context, records signals that end a command; `check` raises KeyboardInterrupt for them.

    If SIGTERM ended only this process, the engine and its workers would keep running; a handler that raised at any
    moment would leave a half-made session folder. SIGUSR1 and SIGUSR2, which make scripts save their state, are passed
    on. SIGHUP, which ends this process, is held back until the engine has its order: then the engine removes the folder.

    Attributes:
        engine: Receives them, once it listens.
    """

    def __init__(self) -> None:
        self.engine: PrestartedEngine | None = None
        self._came = False

    def __enter__(self) -> Self:
        handlers = {**dict.fromkeys(_ENDING, self._note), **dict.fromkeys(_PASSED_ON, self._pass_on)}
        self._before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        return self

    def __exit__(self, *_: object) -> None:
        self.let_hang_up()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal was received."""
        if self._came:
            raise KeyboardInterrupt

    def let_hang_up(self) -> None:
        """Lets SIGHUP end this process, including one that was held back."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])

    def let_through(self) -> None:
        """Lets each signal raise KeyboardInterrupt at once, by Python's own handler, which asyncio replaces with its own."""
        for number in _ENDING:
            signal.signal(number, signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if self.engine is not None:
            self.engine.process.send_signal(number)


def start(options: Options, make: Callable[[], RunSpec], *, engine: PrestartedEngine) -> int:
    """Start the engine of a session and show it; the exit status.

    Args:
        options: How to show it.
        make: Makes the session's folder, or prepares an earlier session's, and returns the spec. Called after all
            other checks.
        engine: The engine's process.

    Raises:
        GmgError: It cannot be started (a folder without a record is removed), or its engine died.
    """
    headless = options.headless or not is_terminal()
    if not headless and not options.detach:
        check_terminal(os.environ)
    with _Signals() as signals:
        spec = make()
        fresh = not Path(spec.folder, sessions.RECORD).exists()
        try:
            reply = _launch(engine, spec, options, signals, headless=headless, fresh=fresh)
            signals.check()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                signals.let_through()
                note("stopping the engine (ctrl+c again kills it)")
            engine.cancel()
            if fresh and not isinstance(error, _DiedError):
                shutil.rmtree(spec.folder, ignore_errors=True)
            raise
        signals.engine = engine
        try:
            engine.confirm()
            for warning in (*reply.warnings, *_other_python(spec)):
                note(f"gmg-tui: {warning}")
            if options.detach:
                print(spec.name)
                return 0
            status = _show(options, spec, Path(reply.socket), signals, headless=headless)
        except KeyboardInterrupt:
            # Only before a reporter or a screen handles ctrl+c itself.
            signals.let_through()
            note("stopping the workers (ctrl+c again kills them)")
            engine.cancel(torchrun.stop_s(spec))
            raise
    return 0 if status is None else conclude(spec, status)


def _other_python(spec: RunSpec) -> tuple[str, ...]:
    """Returns a note if the workers run on another interpreter than gmg-tui without being told to."""
    if spec.python_given or spec.simulate is not None or interpreter.is_own(spec.python):
        return ()
    return (f"the script runs on {interpreter.origin(spec.python, os.environ)}; choose another with --python",)


def _launch(
    engine: PrestartedEngine, spec: RunSpec, options: Options, signals: _Signals, *, headless: bool, fresh: bool
) -> _Reply:
    """Sends `engine` the `spec`, and waits until it listens. It starts its workers once confirmed.

    Raises:
        GmgError: It cannot be started, or refuses the run.
    """
    viewer = not (headless or options.detach)  # the workers wait briefly for its first frame
    words = [b"confirm", *([b"fresh"] if fresh else []), *([b"viewer"] if viewer else [])]
    try:
        described = msgspec.json.encode(spec)
    except UnicodeEncodeError:
        raise _not_utf8(spec) from None
    signals.check()
    engine.order(described + b"\n" + b" ".join(words) + b"\n")
    signals.let_hang_up()
    if not options.detach:
        _load(headless=headless)
    driver = "engine; without persistence mode the driver needs several seconds"
    reply = _reply(engine, signals, f"waiting for the {driver if spec.nodes is None else 'nodes'}")
    if reply is None:
        engine.cancel()
        log = Path(spec.folder) / sessions.ENGINE_LOG
        with suppress(OSError), os.fdopen(open_regular(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
            file.write(engine.stderr_text())
        raise _DiedError(f"the engine died during startup; see {log}", 1)
    if not reply.ok:
        raise GmgError(_with_order(reply.error, spec), reply.exit_code)
    return reply


def _with_order(error: str, spec: RunSpec) -> str:
    """Returns the error, with the right word order if an option that chooses slots follows the script."""
    option = next((each for each in spec.own_options if each in ("--cpu", "--gpus")), None)
    if option is None or not error.startswith("no GPU"):
        return error
    value = dict(zip(spec.args, (*spec.args[1:], "…"), strict=True)).get(option, "…")
    return f"{option} goes before the script: gmg-tui {option} {value} {spec.script} … ({error.partition(';')[0]})"


def _not_utf8(spec: RunSpec) -> GmgError:
    """The error for a name that cannot be passed to the engine."""
    paths = {
        "the current folder": spec.cwd,
        "SCRIPT": spec.script,
        "--python": spec.python,
        "the state folder (XDG_STATE_HOME)": spec.folder,
        "the socket's folder (XDG_RUNTIME_DIR or TMPDIR)": spec.socket,
        "--summary": spec.summary or "",
    }
    for name, path in paths.items():
        if not is_utf8(path):
            shown = os.fsencode(path).decode(errors="backslashreplace")
            return GmgError(f"{name}: {shown} is not UTF-8, which gmg-tui cannot pass on; rename it, or use another")
    return GmgError("the script's arguments, or --env, are not UTF-8; gmg-tui cannot pass them on")


def _load(*, headless: bool) -> None:
    """Import the reporter or the screen while the engine starts."""
    if headless:
        importlib.import_module("gmg_tui.headless")
    else:
        from gmg_tui import ui

        ui.load()


def _reply(engine: PrestartedEngine, signals: _Signals, doing: str) -> _Reply | None:
    """Returns the engine's reply; None if it died. On a terminal, a long wait is named, at first as `doing`."""
    assert engine.process.stdout is not None
    # Unbuffered: `select` does not see bytes in a buffer.
    stdout, since = io.FileIO(engine.process.stdout.fileno(), closefd=False), time.monotonic()
    with waiting("") as show:
        while True:
            if select.select([stdout], [], [], _POLL_S)[0]:
                try:
                    reply = msgspec.json.decode(stdout.readline(), type=_Reply)
                except msgspec.MsgspecError:
                    return None
                if not reply.progress:
                    return reply
                doing = reply.progress
                if reply.lines:
                    show("")
                    note("\n".join(f"gmg-tui: {line}" for line in reply.lines))
            signals.check()
            if time.monotonic() - since > _PATIENCE_S:
                show(doing)


def _show(options: Options, spec: RunSpec, socket: Path, signals: _Signals, *, headless: bool) -> int | None:
    """Show the session; its exit status once it has ended, None when the user detached."""
    if not headless:
        signals.let_through()
        signals.check()
        return show(socket, options)
    from gmg_tui import headless as reporter

    status = reporter.run(socket, begun=signals.check)
    await_end(Path(spec.folder))
    return status
