"""`run` and `demo`: create a session, start its engine, and show it."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui import simulation
from gmg_tui.commands.checks import check, check_script
from gmg_tui.commands.interactive import check_terminal, check_theme, is_terminal, show
from gmg_tui.commands.interrupts import Interrupts
from gmg_tui.commands.launch import launch
from gmg_tui.commands.messages import note, waiting
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.config import Settings
from gmg_tui.ddp import torchrun
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec
from gmg_tui.options import Options
from gmg_tui.session import machine

_DEMO_CPU_SLOTS = 2
_DEMO_ARGS: Mapping[str, tuple[str, ...]] = {
    "franka.py": ("-B", "4096", "--steps", "100000"),
    "light.py": ("-B", "16", "--steps", "200000"),
}
"""Arguments with which an example starts quickly and runs for minutes; the user's come after them."""


def run(
    options: Options,
    engine: PrestartedEngine,
    script: str,
    args: tuple[str, ...],
    *,
    module: bool,
    own_options: tuple[str, ...] = (),
) -> int:
    """Have `engine` run `script` on the slots that `options` ask for; the exit status.

    `own_options` are the words of `args` that are also options of gmg-tui. Raises `GmgError`.
    """
    check_script(script, module)
    fields = check(options)

    def make() -> RunSpec:
        return structs.replace(describe(options, fields, script, args, module=module), own_options=own_options)

    return start(options, make, engine=engine)


def demo(options: Options, engine: PrestartedEngine, args: tuple[str, ...]) -> int:
    """Have `engine` run the included example: the Franka on GPUs, the light one on CPU slots. Raises `GmgError`."""
    from gmg_tui.interpreter import has_genesis, install_command

    fields = check(options)
    if options.simulate is not None:
        words = (*_simulated_args(options.simulate), *args)
        return start(
            options,
            lambda: describe(options, fields, str(simulation.SCRIPT), words, module=False, after="simulated"),
            engine=engine,
        )
    python = fields["python"]
    if not has_genesis(python):
        raise GmgError(f"{python} has no Genesis; install it: {install_command(python)}; or: gmg-tui demo --simulate 8")
    if options.gpus is None and options.cpu is None and not _has_gpu():
        options = options.replace(cpu=_DEMO_CPU_SLOTS)
        fields = check(options)
    example = "light.py" if options.cpu else "franka.py"
    script = Path(__file__).parent.parent / "examples" / example
    words = (*_DEMO_ARGS[example], *args)
    return start(options, lambda: describe(options, fields, str(script), words, module=False), engine=engine)


def _simulated_args(count: int) -> tuple[str, ...]:
    """The arguments with which the simulated script shows what may go wrong, on as many GPUs as there are."""
    race = ("--race", "1") if count > 1 else ()
    memory = ("--oom", str(count - 1)) if count > simulation.SLOW_CARD + 1 else ()
    return ("-B", "4096", *race, *memory)


def _has_gpu() -> bool:
    from gmg_tui.gpu import silence
    from gmg_tui.gpu.nvml import NvmlUnavailable

    try:
        with waiting("asking the driver"):
            _, gpus = silence.open_nvml()
    except NvmlUnavailable as error:
        note(f"no GPU: {error}; the demo runs on the CPU")
        return False
    return bool(gpus)


def start(
    options: Options,
    make: Callable[[], RunSpec],
    *,
    engine: PrestartedEngine,
    fresh: bool = True,
    conclude: Callable[[RunSpec, int], int] = lambda _, status: status,
) -> int:
    """Start the engine of a session and show it.

    Args:
        options: How to show it.
        make: Makes the session's folder and its spec; called after all other checks.
        engine: Its engine's process.
        fresh: Whether the folder was made for this run, and is removed when the engine refuses it.
        conclude: Given the spec and the exit status when the session has ended while it was displayed, returns the final
            status. Not called when the user detaches.

    Returns:
        The exit status.

    Raises:
        GmgError: It cannot be started, or its engine died.
    """
    headless = options.headless or not is_terminal()
    check_theme(options.theme)
    if not headless and not options.detach:
        check_terminal(os.environ)
    interrupts = Interrupts()
    with interrupts.handled():
        interrupts.hold()
        spec = make()
        reply = launch(
            engine,
            spec,
            meanwhile=lambda: None if options.detach else _load(headless=headless),
            viewer=not (headless or options.detach),
            fresh=fresh,
            begun=interrupts.release,
        )
        interrupts.engines.append(engine.process)
        settled = False

        def settle() -> None:
            nonlocal settled
            engine.settle()
            settled = True

        try:
            interrupts.check()
            engine.confirm()
            for warning in reply.warnings:
                note(f"gmg-tui: {warning}")
            if options.detach:
                print(spec.name)
                return 0
            status = _show(options, Path(reply.socket), settle, interrupts, headless=headless)
        except KeyboardInterrupt:
            # Only before a reporter or a screen handles ctrl+c itself.
            interrupts.ignore()
            note("stopping the workers (ctrl+c again kills them)")
            engine.cancel()
            raise
    return conclude(spec, status) if settled else status


def _show(options: Options, socket: Path, settle: Callable[[], None], interrupts: Interrupts, *, headless: bool) -> int:
    if not headless:
        interrupts.leave_ctrl_c()
        return show(socket, options, settle)
    from gmg_tui import headless as reporter

    interrupts.hold()
    status = reporter.run(
        socket,
        ascii_only=options.ascii_only,
        verbose=options.verbose,
        entered=interrupts.release,
        begun=interrupts.check,
    )
    settle()
    return status


def _load(*, headless: bool) -> None:
    """Import the reporter or the screen while the engine starts."""
    if headless:
        importlib.import_module("gmg_tui.headless")
    else:
        from gmg_tui import ui

        ui.load()


def describe(
    options: Options,
    fields: Mapping[str, Any],
    script: str,
    args: tuple[str, ...],
    *,
    module: bool,
    after: str | None = None,
) -> RunSpec:
    """The spec for options and their checked `fields`, in a folder that is created here.

    The session is named after the file `after`, or else the script, if the options give no name.

    Raises:
        GmgError: The folder cannot be created.
    """
    if torchrun.starts(script, module=module) and fields["ddp"] is not None:
        raise GmgError(f"{script}: --ddp starts the ranks instead of torchrun; give the script alone: --ddp TRAIN.py")
    name, folder = sessions.create(options.name, after or script)
    try:
        socket = sessions.socket_path(name)
    except GmgError:
        shutil.rmtree(folder)
        raise
    context = click.get_current_context(silent=True)
    settings = context.find_object(Settings) if context is not None else None
    readers = settings.readers if settings is not None else {}
    named: dict[str, Any] = {"name": name, "folder": str(folder), "socket": str(socket), "host": machine.name()}
    return RunSpec(script=script, args=args, module=module, readers=readers, **named, **fields)
