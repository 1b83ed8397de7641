"""`run` and `demo`: run a script once on every slot."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from gmg_tui import simulation
from gmg_tui.cli.launch import start
from gmg_tui.cli.prestart import PrestartedEngine
from gmg_tui.cli.printing import note, waiting
from gmg_tui.cli.run_spec import check, check_script, describe
from gmg_tui.jobs.argument_placeholders import NAMES, check_names
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.interpreter import has_genesis, install_command
from gmg_tui.session.options import Options, Program

_DEMO_CPU_SLOTS = 2
_DEMO_ARGS: Mapping[str, tuple[str, ...]] = {
    "franka.py": ("-B", "4096", "--steps", "100000"),
    "light.py": ("-B", "16", "--steps", "200000"),
}
"""Arguments before the user's, for examples that start quickly and run for minutes."""


def run(options: Options, engine: PrestartedEngine, program: Program | None, args: tuple[str, ...] = ()) -> int:
    """Runs a program on the slots that `options` select; returns the exit status. Raises `GmgError`.

    The default is a bundled program with additional `args`: the simulated script on simulated GPUs, the Franka on GPUs,
    or the light example on CPU slots.
    """
    if program is not None:
        check_script(program.script, program.module)
    fields, after = check(options), None
    if program is None and options.simulate is not None:
        program = Program(
            str(simulation.SCRIPT), (*_simulated_args(options.simulate, ranks=options.ddp is not None), *args)
        )
        after = "simulated"
    elif program is None:
        python = fields["python"]
        if not has_genesis(python):
            install = install_command(python)
            raise GmgError(f"{python} has no Genesis; install it: {install}; or: gmg-tui demo --simulate 8")
        if options.gpus is None and options.cpu is None and not _has_gpu():
            fields["cpu"] = _DEMO_CPU_SLOTS
        example = "light.py" if fields["cpu"] else "franka.py"
        program = Program(str(Path(__file__).parent.parent / "examples" / example), (*_DEMO_ARGS[example], *args))
    check_names((*program.args, *fields["env"].values()), NAMES)
    return start(options, partial(describe, options, fields, program, after=after), engine=engine)


def _simulated_args(count: int, *, ranks: bool) -> tuple[str, ...]:
    """Returns arguments with which the simulated script shows typical failures on `count` GPUs."""
    race = ("--race", "1") if count > 1 else ()
    memory = ("--oom", str(count - 1)) if count > simulation.SLOW_CARD + 1 and not ranks else ()  # would end all ranks
    return ("-B", "4096", *race, *memory)


def _has_gpu() -> bool:
    from gmg_tui.machine.gpu import silence
    from gmg_tui.machine.gpu.nvml import NvmlUnavailable
    from gmg_tui.machine.gpu.selection import unanswered

    try:
        with waiting("asking the driver"):
            nvml, gpus = silence.open_nvml()
        trouble = "" if gpus else unanswered(nvml.silent)
    except NvmlUnavailable as error:
        gpus, trouble = (), str(error)
    if trouble:
        note(f"no GPU: {trouble}; the demo runs on the CPU")
    return bool(gpus)
