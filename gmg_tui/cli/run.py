"""`run` and `demo`: run a script once on every slot. `tune`: find the best value of a number in its arguments."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import structs

from gmg_tui import simulation
from gmg_tui.cli.launch import start
from gmg_tui.cli.prestart import PrestartedEngine
from gmg_tui.cli.printing import note, waiting
from gmg_tui.cli.run_spec import check_options, check_queue_options, check_script, create_session, load_for_resume
from gmg_tui.jobs import argument_placeholders as placeholders
from gmg_tui.machine.folders import OpenFolder
from gmg_tui.model import RunSpec, Session, SweepSpec, TuneSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import interpreter
from gmg_tui.session.options import TUNE_ONLY, Options, Program

_DEMO_CPU_SLOTS = 2
_DEMO_ARGS: Mapping[str, tuple[str, ...]] = {
    "franka.py": ("-B", "4096", "--steps", "100000"),
    "light.py": ("-B", "16", "--steps", "200000"),
}
"""Arguments that precede the user's: with them, the examples start quickly and run for minutes."""
_VAR_PATTERN = re.compile(rf"(?P<name>{placeholders.NAME_PATTERN.pattern})(=(?P<low>\d+)(\.\.(?P<high>\d*))?)?")
_MAX_VALUE = 10**12
_TUNE_SPEC_OPTIONS = [opt for opt in TUNE_ONLY if opt.spec_field in TuneSpec.__struct_fields__]


def run(options: Options, engine: PrestartedEngine, program: Program | None, args: tuple[str, ...] = ()) -> int:
    """Runs a program on the slots that `options` select; returns the exit status. Raises `GmgError`.

    Without a program, runs a bundled one with additional `args`: the simulated script on simulated GPUs, the Franka
    example on GPUs, or the light example on CPU slots.
    """
    if program is not None:
        check_script(program.script, program.module)
    fields, named_after = check_options(options), None
    if program is None and options.simulate is not None:
        default_args = _simulated_args(options.simulate, ranks=options.ddp is not None)
        program = Program(str(simulation.SCRIPT), (*default_args, *args))
        named_after = "simulated"
    elif program is None:
        python = fields["python"]
        if not interpreter.has_genesis(python):
            install = interpreter.install_command(python)
            raise GmgError(f"{python} has no Genesis; install it with: {install}; or: gmg-tui demo --simulate 8")
        if options.gpus is None and options.cpu is None and not _has_gpu():
            fields["cpu"] = _DEMO_CPU_SLOTS
        example = "light.py" if fields["cpu"] else "franka.py"
        program = Program(str(Path(__file__).parent.parent / "examples" / example), (*_DEMO_ARGS[example], *args))
    placeholders.check_names((*program.args, *fields["env"].values()), placeholders.WORKER_NAMES)
    return start(options, partial(create_session, options, fields, program, named_after=named_after), engine=engine)


def _simulated_args(count: int, *, ranks: bool) -> tuple[str, ...]:
    """Returns arguments with which the simulated script shows typical failures on `count` GPUs."""
    race = ("--race", "1") if count > 1 else ()
    memory = ("--oom", str(count - 1)) if count > simulation.SLOW_CARD + 1 and not ranks else ()  # would end all ranks
    return ("-B", "4096", *race, *memory)


def _has_gpu() -> bool:
    """True if a GPU answers; prints a note if the driver or all GPUs fail to answer."""
    from gmg_tui.machine.gpu.nvml import NvmlUnavailable, open_nvml
    from gmg_tui.machine.gpu.selection import describe_silent

    try:
        with waiting("asking the driver"):
            _, gpus = open_nvml()
        trouble = describe_silent(gpus)
    except NvmlUnavailable as error:
        gpus, trouble = (), str(error)
    any_answers = any(gpu.trouble is None for gpu in gpus)
    if trouble and not any_answers:
        note(f"no GPU: {trouble}; the demo runs on the CPU")
    return any_answers


def tune(options: Options, engine: PrestartedEngine, program: Program | None) -> int:
    """Searches for the best value of the number `--var`, or continues a search with `--resume`. Raises `GmgError`.

    Returns the exit status: 0 if it found an answer, 1 if not, 130 if the user stopped the search.
    """
    if options.resume is not None:
        return _resume(options, engine)
    tune_spec = _tune_spec(options)
    placeholder = f"{{{tune_spec.variable}}}"
    if options.simulate is not None:
        program = Program(str(simulation.SCRIPT), ("-B", placeholder))
    if "ddp" in options.given:
        raise GmgError("--ddp: a trial runs on one slot; leave it out")
    if program is None:
        raise GmgError("give a SCRIPT, as in: gmg-tui tune sim.py -B {n_envs}; or --resume NAME")
    check_script(program.script, program.module)
    fields = check_queue_options(options)
    texts = (*program.args, *fields["env"].values())
    if not any(tune_spec.variable in placeholders.names_in(text) for text in texts):
        example = f"gmg-tui tune {program.script} -B {placeholder}"
        raise GmgError(f"the arguments have no {placeholder}: write it in place of the number, as in: {example}")
    placeholders.check_names(texts, (tune_spec.variable, *placeholders.WORKER_NAMES, *placeholders.JOB_NAMES))

    def create_spec() -> tuple[RunSpec, OpenFolder]:
        spec, folder = create_session(options, fields, program, named_after="tune", jobs=())
        return structs.replace(spec, tune=tune_spec, sweep=SweepSpec(timeout_s=tune_spec.trial_time_s)), folder

    return start(options, create_spec, engine=engine)


def _resume(options: Options, engine: PrestartedEngine) -> int:
    """Continues the tuning `options.resume`, reusing its ended trials; given options replace the session's.

    Returns the exit status. Raises `GmgError`.
    """
    given_spec = _tune_spec(options)
    session = load_for_resume(options, "tune", "the measured program and its slots")
    assert session.spec.tune is not None
    changed = [opt.spec_field for opt in _TUNE_SPEC_OPTIONS if opt.name in options.given]
    tune = structs.replace(session.spec.tune, **{field: getattr(given_spec, field) for field in changed})
    spec = structs.replace(session.spec, tune=tune, sweep=SweepSpec(timeout_s=tune.trial_time_s))
    check_comparable(session)
    return start(options, lambda: (spec, None), engine=engine)


def check_comparable(session: Session) -> None:
    """Raises `GmgError` if trials would run with versions other than the session's."""
    name, python = session.spec.name, session.spec.python
    installed, recorded = interpreter.versions(python), session.versions
    if recorded is not None and installed != recorded:
        pairs = [(field, getattr(recorded, field), getattr(installed, field)) for field in installed.__struct_fields__]
        changes = ", ".join(f"{field} {old} is now {new}" for field, old, new in pairs if old != new)
        reason = f"{python} has changed ({changes}), so rates could not be compared"
        raise GmgError(f"--resume {name}: {reason}; start a new tuning")


def _tune_spec(options: Options) -> TuneSpec:
    """Returns the search that the options describe. Raises `GmgError` for an invalid option."""
    match = _VAR_PATTERN.fullmatch(options.var)
    if match is None:
        raise GmgError(f"--var {options.var}: give NAME=LOW..HIGH, such as n_envs=64..65536; HIGH may be left out")
    name, low, high = match["name"], int(match["low"] or 64), int(match["high"]) if match["high"] else None
    if name in (*placeholders.WORKER_NAMES, *placeholders.JOB_NAMES):
        raise GmgError(f"--var {options.var}: {{{name}}} is a placeholder of gmg-tui; choose another name")
    if not 1 <= low <= (low if high is None else high) <= _MAX_VALUE:
        raise GmgError(f"--var {options.var}: give LOW..HIGH from 1 to {_MAX_VALUE:,}, LOW first")
    return TuneSpec(name, low, high, **{opt.spec_field: getattr(options, opt.name) for opt in _TUNE_SPEC_OPTIONS})
