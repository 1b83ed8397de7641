"""`run` and `demo`: make a session, start its engine, and show it."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.commands.ahead import Ahead
from gmg_tui.commands.launch import launch
from gmg_tui.commands.options import Checked, RunOptions, check, check_module, check_script
from gmg_tui.commands.screen import check_terminal, check_theme, is_terminal, show
from gmg_tui.errors import GmgError
from gmg_tui.model import RestartWhen, RunSpec, StartWay

_DEMO_CPU_SLOTS = 2
_DEMO_ARGS: Mapping[str, tuple[str, ...]] = {
    "franka.py": ("-B", "4096", "--steps", "100000"),
    "light.py": ("-B", "16", "--steps", "200000"),
}
"""Arguments with which an example starts soon and then runs for minutes; what the person gives comes after them."""


def run(options: RunOptions, engine: Ahead, script: str, args: tuple[str, ...], *, module: bool) -> int:
    """Have `engine` run `script` on the slots that `options` ask for; the exit status. Raises `GmgError`."""
    check_module(script) if module else check_script(script)
    checked = check(options)
    return start(options, lambda: describe(options, checked, script, args, module=module), engine=engine)


def demo(options: RunOptions, engine: Ahead, args: tuple[str, ...]) -> int:
    """Have `engine` run the shipped example: the Franka on the GPUs, or the light one on CPU slots. Raises `GmgError`."""
    from gmg_tui.genesis.interpreter import has_genesis, install_command

    checked = check(options)
    if not has_genesis(checked.python):
        raise GmgError(f"{checked.python} has no Genesis; install it: {install_command(checked.python)}")
    if options.gpus is None and options.cpu is None and not _has_gpu():
        options = options._replace(cpu=_DEMO_CPU_SLOTS)
    example = "light.py" if options.cpu else "franka.py"
    script = Path(__file__).parent.parent / "examples" / example
    words = (*_DEMO_ARGS[example], *args)
    return start(options, lambda: describe(options, checked, str(script), words, module=False), engine=engine)


def _has_gpu() -> bool:
    from gmg_tui.gpu.nvml import Nvml, NvmlUnavailable

    try:
        with closing(Nvml.open()) as nvml:
            return bool(nvml.cards())
    except NvmlUnavailable:
        return False


def start(
    options: RunOptions,
    make: Callable[[], RunSpec],
    *,
    engine: Ahead | None = None,
    fresh: bool = True,
    conclude: Callable[[RunSpec, int], int] = lambda _, status: status,
) -> int:
    """Start the engine of a session and show it.

    Args:
        options: How to show it.
        make: Makes the session's folder and says what to run; called once all else has been checked.
        engine: One that was started ahead; None starts one.
        fresh: Whether the folder was made for this run, and goes when the engine refuses it.
        conclude: Called with the exit status once the session has ended before the person's eyes; gives the exit
            status. Not called when the person leaves the session running.

    Returns:
        The exit status.

    Raises:
        GmgError: It cannot be started, or was lost on the way.
    """
    headless = options.headless or not is_terminal()
    check_theme(options.theme)
    if not headless and not options.detach:
        check_terminal(os.environ)
    spec = make()
    launched = launch(
        spec,
        meanwhile=lambda: None if options.detach else _load(headless=headless),
        viewer=not (headless or options.detach),
        engine=engine,
        fresh=fresh,
    )
    for warning in launched.warnings:
        print(f"gmg-tui: {warning}", file=sys.stderr)
    if options.detach:
        print(spec.name)
        return 0
    settled = False

    def settle() -> None:
        nonlocal settled
        launched.settle()
        settled = True

    try:
        status = _show(options, Path(spec.socket), settle, headless=headless)
    except KeyboardInterrupt:
        # Before a reporter or a screen listens to the keyboard; from then on ctrl+c is theirs.
        print("stopping the workers (ctrl+c again kills them)", file=sys.stderr)
        launched.call_off()
        raise
    return conclude(spec, status) if settled else status


def _show(options: RunOptions, socket: Path, settle: Callable[[], None], *, headless: bool) -> int:
    if not headless:
        return show(
            socket,
            theme=options.theme,
            ascii_only=options.ascii_only,
            mouse=not options.no_mouse,
            settle=settle,
        )
    from gmg_tui import headless as reporter

    status = reporter.run(socket, ascii_only=options.ascii_only)
    settle()
    return status


def _load(*, headless: bool) -> None:
    """Import what shows the session, while its engine starts."""
    if headless:
        importlib.import_module("gmg_tui.headless")
    else:
        from gmg_tui import ui

        ui.load()


def describe(
    options: RunOptions,
    checked: Checked,
    script: str,
    args: tuple[str, ...],
    *,
    module: bool,
    after: str | None = None,
) -> RunSpec:
    """What to run, as the options have it, in a folder that is made here.

    Args:
        options: The options.
        checked: What their checks found out.
        script: A path, or the name of a module.
        args: The script's.
        module: Whether the script is a module.
        after: The file that the session is named after where the options have no name; None for the script.

    Raises:
        GmgError: The folder cannot be made.
    """
    name, folder = sessions.create(options.name, after or script)
    try:
        socket = sessions.socket_path(name)
    except GmgError:
        shutil.rmtree(folder)
        raise
    return RunSpec(
        name=name,
        folder=str(folder),
        socket=str(socket),
        script=script,
        args=args,
        cwd=checked.cwd,
        python=checked.python,
        module=module,
        env=checked.env,
        gpus=options.gpus,
        cpu=options.cpu,
        interval_s=options.interval,
        summary=checked.summary,
        sigint_wait_s=options.sigint_wait,
        sigterm_wait_s=options.sigterm_wait,
        start=None if options.start is None else StartWay(options.start),
        restart=RestartWhen(options.restart),
        max_restarts=options.max_restarts,
        stuck_after_s=options.stuck_after,
        restart_stuck=options.restart_stuck,
        host=os.uname().nodename,
    )
