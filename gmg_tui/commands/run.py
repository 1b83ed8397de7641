"""`run` and `demo`: create a session, start its engine, and show it."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import structs

from gmg_tui import machine, new_session, simulation
from gmg_tui import session as sessions
from gmg_tui.commands import successors
from gmg_tui.commands.interactive import Shown, check_terminal, check_theme, is_terminal, show
from gmg_tui.commands.interrupts import Interrupts
from gmg_tui.commands.launch import Launched, launch
from gmg_tui.commands.messages import notice, tell
from gmg_tui.commands.options import Checked, RunOptions, check, check_module, check_script
from gmg_tui.commands.prestart import PrestartedEngine
from gmg_tui.commands.slurm_job import asked_for
from gmg_tui.ddp import torchrun
from gmg_tui.errors import GmgError
from gmg_tui.model import RestartMode, RunSpec, StartMode, Tunable, Visible
from gmg_tui.settings.scripts import patterns_of

_DEMO_CPU_SLOTS = 2
_DEMO_ARGS: Mapping[str, tuple[str, ...]] = {
    "franka.py": ("-B", "4096", "--steps", "100000"),
    "light.py": ("-B", "16", "--steps", "200000"),
}
"""Arguments with which an example starts quickly and runs for minutes; the user's own come after them."""


def run(
    options: RunOptions,
    engine: PrestartedEngine,
    script: str,
    args: tuple[str, ...],
    *,
    module: bool,
    own_options: tuple[str, ...] = (),
) -> int:
    """Have `engine` run `script` on the slots that `options` ask for; the exit status.

    `own_options` are the words of `args` that gmg-tui knows as options too. Raises `GmgError`.
    """
    check_module(script) if module else check_script(script)
    checked = check(options)

    def make() -> RunSpec:
        return structs.replace(describe(options, checked, script, args, module=module), own_options=own_options)

    return start(options, make, engine=engine)


def demo(options: RunOptions, engine: PrestartedEngine, args: tuple[str, ...]) -> int:
    """Have `engine` run the included example: the Franka on GPUs, the light one on CPU slots. Raises `GmgError`."""
    from gmg_tui.genesis.interpreter import has_genesis, install_command

    checked = check(options)
    if options.simulate is not None:
        words = (*_simulated_args(options.simulate), *args)
        return start(
            options,
            lambda: describe(options, checked, str(simulation.SCRIPT), words, module=False, after="simulated"),
            engine=engine,
        )
    if not has_genesis(checked.python):
        raise GmgError(f"{checked.python} has no Genesis; install it: {install_command(checked.python)}")
    if options.gpus is None and options.cpu is None and not _has_gpu():
        options = options._replace(cpu=_DEMO_CPU_SLOTS)
    example = "light.py" if options.cpu else "franka.py"
    script = Path(__file__).parent.parent / "examples" / example
    words = (*_DEMO_ARGS[example], *args)
    return start(options, lambda: describe(options, checked, str(script), words, module=False), engine=engine)


def _simulated_args(count: int) -> tuple[str, ...]:
    """The arguments with which the simulated script shows what may go wrong, on as many GPUs as there are."""
    race = ("--race", "1") if count > 1 else ()
    memory = ("--oom", str(count - 1)) if count > simulation.SLOW_CARD + 1 else ()
    return ("-B", "4096", *race, *memory)


def _has_gpu() -> bool:
    from gmg_tui.gpu import silence
    from gmg_tui.gpu.nvml import NvmlUnavailable

    try:
        with notice("asking the driver"):
            _, gpus = silence.open_nvml()
    except NvmlUnavailable as error:
        tell(f"no GPU: {error}; the demo runs on the CPU")
        return False
    return bool(gpus)


def start(
    options: RunOptions,
    make: Callable[[], RunSpec],
    *,
    engine: PrestartedEngine | None = None,
    fresh: bool = True,
    conclude: Callable[[RunSpec, int], int] = lambda _, status: status,
) -> int:
    """Start the engine of a session and show it.

    Args:
        options: How to show it.
        make: Makes the session's folder and its spec; called after all other checks.
        engine: A prestarted one; None starts one.
        fresh: Whether the folder was made for this run, and is removed when the engine refuses it.
        conclude: Given the spec and the exit status when the session has ended while it was shown, returns the final
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
    with interrupts.handled(), asked_for(options.slurm) as job:
        interrupts.hold()
        spec = job.of(make())
        launched = launch(
            spec,
            meanwhile=lambda: None if options.detach else _load(headless=headless),
            viewer=not (headless or options.detach),
            engine=engine,
            fresh=fresh,
            begun=interrupts.release,
        )
        job.handed_over = True
        interrupts.engines.append(launched.process)
        shown = _run(options, spec, launched, conclude, interrupts, headless=headless)
    return follow_up(shown, options)


def _run(
    options: RunOptions,
    spec: RunSpec,
    launched: Launched,
    conclude: Callable[[RunSpec, int], int],
    interrupts: Interrupts,
    *,
    headless: bool,
) -> Shown | int:
    """Let the workers start, and show them; the exit status, or what the screen was left with."""
    settled = False

    def settle() -> None:
        nonlocal settled
        launched.settle()
        settled = True

    try:
        interrupts.check()
        launched.confirm()
        for warning in launched.warnings:
            print(f"gmg-tui: {warning}", file=sys.stderr)
        if options.detach:
            print(spec.name)
            return 0
        shown = _show(options, launched.socket, settle, interrupts, headless=headless)
    except KeyboardInterrupt:
        # Only before a reporter or a screen handles ctrl+c itself.
        interrupts.ignore()
        print("stopping the workers (ctrl+c again kills them)", file=sys.stderr)
        launched.cancel()
        raise
    if isinstance(shown, int):
        return conclude(spec, shown) if settled else shown
    return shown._replace(status=conclude(spec, shown.status)) if settled else shown


def follow_up(shown: Shown | int, options: RunOptions) -> int:
    """Start what takes the place of a session, where that is wanted; the exit status. Raises `GmgError`."""
    if isinstance(shown, int):
        return shown
    after, session = shown.after, shown.session
    if isinstance(after, Tunable):
        tell(f"gmg-tui: looks for the best {after.variable} of {session.spec.script}")
        return start(options, lambda: successors.tuning_run(session.spec, after), conclude=successors.conclude)
    if after is None or session.spec.tune is None:
        return shown.status
    tell(f"gmg-tui: {session.spec.script} with {session.spec.tune.variable} = {after:,} on the slots of the tuning")
    return start(options, lambda: successors.plain_run(session, after, shown.slots))


def _show(
    options: RunOptions, socket: Path, settle: Callable[[], None], interrupts: Interrupts, *, headless: bool
) -> Shown | int:
    if not headless:
        interrupts.leave_ctrl_c()
        return show(
            socket,
            theme=options.theme,
            ascii_only=options.ascii_only,
            mouse=not options.no_mouse,
            confirm=not options.no_confirm,
            settle=settle,
        )
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
    options: RunOptions,
    checked: Checked,
    script: str,
    args: tuple[str, ...],
    *,
    module: bool,
    after: str | None = None,
) -> RunSpec:
    """The spec for these options, in a folder that is created here.

    Args:
        options: The options.
        checked: The results of their checks.
        script: A path, or the name of a module.
        args: The script's.
        module: Whether the script is a module.
        after: The file to name the session after, if the options give no name; None for the script.

    Raises:
        GmgError: The folder cannot be created.
    """
    is_torchrun = torchrun.starts(script, module=module)
    if is_torchrun and checked.ddp is not None:
        raise GmgError(f"{script}: --ddp starts the ranks in torchrun's place; give the script alone: --ddp TRAIN.py")
    name, folder = new_session.create(options.name, after or script)
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
        keep_slurm_env=options.keep_slurm_env,
        simulate=options.simulate,
        patterns=options.pattern or patterns_of(script, options.script_patterns),
        visible=Visible(options.visible),
        gpus=options.gpus,
        cpu=options.cpu,
        interval_s=options.interval,
        summary=checked.summary,
        sigint_wait_s=max(options.sigint_wait, torchrun.GRACE_S if is_torchrun else 0.0),
        sigterm_wait_s=options.sigterm_wait,
        log_max_bytes=checked.log_max_bytes,
        start=None if options.start is None else StartMode(options.start),
        restart=RestartMode(options.restart),
        max_restarts=options.max_restarts,
        stuck_after_s=options.stuck_after,
        restart_stuck=options.restart_stuck,
        ddp=checked.ddp,
        nodes=checked.nodes,
        notify=options.notify,
        host=machine.name(),
    )
