"""Starts a session's engine, and shows the session until it ends or the user detaches."""

import importlib
import io
import os
import select
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
from gmg_tui.machine.folders import OpenFolder
from gmg_tui.model import RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import interpreter, torchrun
from gmg_tui.session.options import Options

_SHOW_WAIT_AFTER_S = 1.0
"""Seconds before a wait is shown."""
_POLL_S = 0.1
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU)
_FORWARDED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)


class _Reply(msgspec.Struct, frozen=True):
    """A line of an engine's standard output: a progress report or, finally, the result of its startup."""

    ok: bool = False
    warnings: tuple[str, ...] = ()
    socket: str = ""
    error: str = ""
    exit_code: int = 2
    progress: str = ""
    """The reason for waiting; empty in the final reply."""
    lines: tuple[str, ...] = ()
    """Lines to print during the wait."""


class _DiedError(GmgError):
    """The engine died during startup; its log is in the session's folder, which is kept."""


class _Signals:
    """Defers signals within the context: `check` raises KeyboardInterrupt for signals that end a command.

    SIGTERM must also end the engine, and raising at once in a handler could leave a half-made session folder. SIGUSR1
    and SIGUSR2, which make scripts save their state, are forwarded. SIGHUP is blocked until the engine has its spec:
    from then on, the engine cleans up when this process ends.

    Attributes:
        engine: The engine to forward signals to, once it listens.
    """

    def __init__(self) -> None:
        self.engine: PrestartedEngine | None = None
        self._interrupted = False

    def __enter__(self) -> Self:
        handlers = dict.fromkeys(_ENDING_SIGNALS, self._interrupt) | dict.fromkeys(_FORWARDED_SIGNALS, self._forward)
        self._previous_handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        return self

    def __exit__(self, *_: object) -> None:
        self.unblock_hangup()
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt if an ending signal was received."""
        if self._interrupted:
            raise KeyboardInterrupt

    def unblock_hangup(self) -> None:
        """Lets SIGHUP end this process again, at once if one is pending."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])

    def raise_at_once(self) -> None:
        """Makes ending signals raise KeyboardInterrupt at once, through a handler that asyncio may replace."""
        for number in _ENDING_SIGNALS:
            signal.signal(number, signal.default_int_handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True

    def _forward(self, number: int, frame: FrameType | None) -> None:
        if self.engine is not None:
            self.engine.process.send_signal(number)


def start(
    options: Options, create_spec: Callable[[], tuple[RunSpec, OpenFolder | None]], *, engine: PrestartedEngine
) -> int:
    """Starts the engine of a session, and shows the session as `options` specify; returns the exit status.

    `create_spec` returns the spec, and the session's folder if it has made one. Raises `GmgError` if the session cannot
    be started (a new folder is removed), or its engine died (the folder is kept).
    """
    headless = options.headless or not is_terminal()
    if not headless and not options.detach:
        check_terminal(os.environ)
    with _Signals() as signals:
        spec, new_folder = create_spec()  # open until this process ends, so that no other folder gets its inode
        try:
            reply = _launch(engine, spec, options, signals, headless=headless, new_folder=new_folder)
            signals.check()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                signals.raise_at_once()
                note("stopping the engine (ctrl+c again kills it)")
            engine.cancel()
            if new_folder is not None and not isinstance(error, _DiedError):
                sessions.remove_new(new_folder)
            raise
        signals.engine = engine
        try:
            engine.confirm()
            for warning in (*reply.warnings, *_interpreter_notes(spec)):
                note(f"gmg-tui: {warning}")
            if options.detach:
                print(spec.name)
                return 0
            status = _show(options, spec, Path(reply.socket), signals, headless=headless)
        except KeyboardInterrupt:
            # Raised only until the reporter or screen handles ctrl+c.
            signals.raise_at_once()
            note("stopping the workers (ctrl+c again kills them)")
            engine.cancel(torchrun.stop_timeout_s(spec))
            raise
    return 0 if status is None else conclude(spec, status)


def _interpreter_notes(spec: RunSpec) -> tuple[str, ...]:
    """Returns a note if the workers use an interpreter that is neither gmg-tui's own nor given by an option."""
    if spec.python_given or spec.simulate is not None or interpreter.is_own(spec.python):
        return ()
    return (f"the script runs on {interpreter.origin(spec.python, os.environ)}; choose another with --python",)


def _launch(
    engine: PrestartedEngine,
    spec: RunSpec,
    options: Options,
    signals: _Signals,
    *,
    headless: bool,
    new_folder: OpenFolder | None,
) -> _Reply:
    """Sends the spec, and waits until the engine listens. Raises `GmgError` if the engine dies or refuses the run."""
    has_screen = not (headless or options.detach)  # the engine briefly holds the workers back for the first frame
    flags = [
        "confirm",
        *([f"new:{new_folder.id}"] if new_folder is not None else []),
        *(["viewer"] if has_screen else []),
    ]
    try:
        encoded_spec = msgspec.json.encode(spec)
    except UnicodeEncodeError as error:
        shown = os.fsencode(error.object).decode(errors="backslashreplace")
        raise GmgError(f"{shown} is not UTF-8, so gmg-tui cannot pass it on; rename it, or use another") from None
    signals.check()
    engine.send_spec(encoded_spec + f"\n{' '.join(flags)}\n".encode())
    signals.unblock_hangup()
    if not options.detach:
        _import_viewer(headless=headless)
    engine_text = "engine; without persistence mode the driver needs several seconds"
    reply = _await_reply(engine, signals, f"waiting for the {engine_text if spec.nodes is None else 'nodes'}")
    if reply is None:
        engine.cancel()
        log = Path(spec.folder) / sessions.ENGINE_LOG
        with suppress(OSError), os.fdopen(open_regular(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
            file.write(engine.early_stderr())
        raise _DiedError(f"the engine died during startup; see {log}", 1)
    if not reply.ok:
        raise GmgError(_explain_order(reply.error, spec), reply.exit_code)
    return reply


def _explain_order(error: str, spec: RunSpec) -> str:
    """Returns the error, or the correct word order if an option that selects slots follows the script."""
    option = next((name for name in spec.own_options if name in ("--cpu", "--gpus")), None)
    if option is None or not error.startswith("no GPU"):
        return error
    value = dict(zip(spec.args, (*spec.args[1:], "…"), strict=True)).get(option, "…")
    return f"{option} goes before the script: gmg-tui {option} {value} {spec.script} … ({error.partition(';')[0]})"


def _import_viewer(*, headless: bool) -> None:
    """Imports the reporter or the screen while the engine starts."""
    if headless:
        importlib.import_module("gmg_tui.headless")
    else:
        importlib.import_module("gmg_tui.ui").load()


def _await_reply(engine: PrestartedEngine, signals: _Signals, wait_reason: str) -> _Reply | None:
    """Waits for the engine's reply; returns None if it died. On a terminal, shows the reason for a long wait."""
    assert engine.process.stdout is not None
    # Unbuffered: `select` does not see bytes in a buffer.
    stdout, started = io.FileIO(engine.process.stdout.fileno(), closefd=False), time.monotonic()
    with waiting("") as show:
        while True:
            if select.select([stdout], [], [], _POLL_S)[0]:
                try:
                    reply = msgspec.json.decode(stdout.readline(), type=_Reply)
                except msgspec.MsgspecError:
                    return None
                if not reply.progress:
                    return reply
                wait_reason = reply.progress
                if reply.lines:
                    show("")
                    note("\n".join(f"gmg-tui: {line}" for line in reply.lines))
            signals.check()
            if time.monotonic() - started > _SHOW_WAIT_AFTER_S:
                show(wait_reason)


def _show(options: Options, spec: RunSpec, socket: Path, signals: _Signals, *, headless: bool) -> int | None:
    """Shows the session; returns its exit status, or None if the user detached."""
    if not headless:
        signals.raise_at_once()
        signals.check()
        return show(socket, options)
    from gmg_tui import headless as reporter

    status = reporter.run(socket, on_ready=signals.check)
    await_end(Path(spec.folder))
    return status
