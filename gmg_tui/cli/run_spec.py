"""Builds a session's `RunSpec` from options, after all checks that need no engine.

`sweep --resume` and `tune --resume` change the spec of an ended or lost session, and continue in its folder.
"""

import os
import re
import stat
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note
from gmg_tui.diagnosis.kinds import KINDS
from gmg_tui.machine.files import open_regular
from gmg_tui.machine.folders import OpenFolder
from gmg_tui.machine.gpu.selection import wants_free
from gmg_tui.machine.ownership import changed_owner, components, is_public_folder, path_owners, user_name
from gmg_tui.model import AlertAction, DdpSpec, JobRecord, NodesSpec, RestartMode, RunSpec, Session, StartMode, units
from gmg_tui.model.errors import GmgError, suggest
from gmg_tui.scripts import interpreter, torchrun
from gmg_tui.scripts.readers import formats
from gmg_tui.session.options import RUN, SWEEP, SWEEP_ONLY, TUNE, TUNE_ONLY, Options, Program

_MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_ALL_OPTIONS = (*RUN, *SWEEP_ONLY, *TUNE_ONLY)
_SCRIPT_SUFFIXES = ("", ".py", ".pyw", ".pyz")
"""File name suffixes of Python scripts and zipped applications (zipapp)."""


def check_options(options: Options) -> dict[str, Any]:
    """Checks the options, and returns the `RunSpec` fields that they set. Raises `GmgError`."""
    for option in ("gpus", "simulate"):
        if options.cpu is not None and getattr(options, option) is not None:
            raise GmgError(f"--{option} and --cpu are mutually exclusive; give one of them")
    if not hasattr(options, "sets"):  # a sweep's file may choose the GPUs
        check_wait(options, options.gpus)
    formats.check(options.pattern)
    if not all(notifier.strip() for notifier in options.notify):
        raise GmgError("--notify is empty; give bell, osc9, osc777 or a command")
    path = options.python
    settable = {*RunSpec.__struct_fields__} - {"name"}
    fields = {opt.spec_field: getattr(options, opt.name) for opt in RUN if opt.spec_field in settable}
    try:
        folder = str(Path.cwd())
    except OSError as error:
        raise GmgError(f"the current folder is gone ({error.strerror}); change to another one") from error
    return fields | {
        "cwd": folder,
        "python_given": path is not None,
        "python": interpreter.check_python(path) if path is not None else interpreter.default_python(os.environ),
        "env": parse_env(options.env),
        "on": parse_alert_actions(options.on),
        "summary": None if options.summary is None else _summary_path(options.summary),
        "ddp": _ddp_spec(options),
        "pin": not options.no_pin,
        "probe": not options.no_probe,
        "nodes": _nodes_spec(options),
        "start": None if options.start is None else StartMode(options.start),
        "resume_args": options.resume_args or (),
        "restart": RestartMode(options.restart),
        "readers": options.readers,
    }


def check_wait(options: Options, gpus: str | None) -> None:
    """Raises `GmgError` if `--wait` cannot be combined with these GPUs."""
    if "wait" in options.given and not wants_free(gpus) and getattr(options, "resume", None) is None:
        raise GmgError("--wait is for GPUs that are in use; give --gpus free or free:4 too")
    if options.nodes is not None and wants_free(gpus) and options.wait is not None:
        raise GmgError("--wait waits only for GPUs on this machine; leave out --wait or --nodes")


def check_queue_options(options: Options) -> dict[str, Any]:
    """Checks the options of a sweep or tuning like `check_options`, except `--ddp`, which `sweep_ddp` checks."""
    if options.restart == "always":
        raise GmgError("--restart always would restart finished jobs forever; give --restart failure")
    return check_options(options.replace(ddp=None, virtual_local_rank=False))


def sweep_ddp(options: Options, jobs: Sequence[JobRecord]) -> DdpSpec | None:
    """Returns the `DdpSpec` of a sweep with these jobs; None without groups. Raises `GmgError`."""
    has_groups = any(job.world_size is not None for job in jobs)
    return _ddp_spec(options.replace(ddp="all" if has_groups else None))


def create_session(
    options: Options,
    fields: Mapping[str, Any],
    program: Program,
    *,
    named_after: str | None = None,
    jobs: Sequence[JobRecord] | None = None,
) -> tuple[RunSpec, OpenFolder]:
    """Creates a session's folder, with a store if `jobs` is given; returns the spec with the checked `fields`, and the folder.

    Without `--name`, the session is named after `named_after`, by default the script. Raises `GmgError`.
    """
    if torchrun.is_torchrun(program.script, module=program.module) and fields["ddp"] is not None:
        raise GmgError(f"{program.script}: --ddp replaces torchrun; give the script itself: --ddp TRAIN.py")
    folder = sessions.create(options.name, named_after or program.script)
    new_folder = OpenFolder.open(folder)
    try:
        if not os.access(fields["cwd"], os.X_OK):  # as after `su` in a private folder of another user
            raise GmgError(f"the current folder, {fields['cwd']}, cannot be entered; change to another one")
        socket = sessions.socket_path(folder.name)
        if jobs is not None:
            from gmg_tui.session.store import reader  # only for sweeps

            reader.create(folder / sessions.STORE, tuple(jobs))
    except BaseException:
        sessions.remove_new(new_folder)
        raise
    host = os.uname().nodename
    location: dict[str, Any] = {"name": folder.name, "folder": str(folder), "socket": str(socket), "host": host}
    spec = RunSpec(**program._asdict(), **location, **fields)
    _warn_of_public_code(spec)
    return structs.replace(spec, path_owners=path_owners(*interpreter.start_paths(spec))), new_folder


def _warn_of_public_code(spec: RunSpec) -> None:
    """Prints a note if users who are not trusted can change or replace the script, or add modules that it imports."""
    folder, (_, script) = interpreter.script_folder(spec), interpreter.code_paths(spec)
    with suppress(OSError):
        if not spec.module and Path(script).stat().st_mode & stat.S_IWOTH:
            note(f"gmg-tui: {script} can be changed by all users; chmod o-w it")
        *parents, (_, status, _) = components(Path(folder))
        theirs = [above.st_uid for _, above, _ in parents if is_public_folder(above)]
        if stranger := next((uid for uid in theirs if uid not in (0, os.geteuid())), None):
            note(f"gmg-tui: {folder} is in a folder of {user_name(stranger)}, who can replace {spec.script}")
        modes = {parent: above.st_mode for parent, above, _ in parents if stat.S_ISDIR(above.st_mode)}
        open_to_all = [parent for parent, mode in modes.items() if mode & stat.S_IWOTH and not mode & stat.S_ISVTX]
        for parent in open_to_all[:1]:
            note(f"gmg-tui: {parent} can be changed by all users, who can replace {spec.script}; chmod +t it")
        if is_public_folder(status):
            users = "all users" if status.st_mode & stat.S_IWOTH else "its group"
            text = f"{folder} can be changed by {users}, who can add modules that {spec.script} imports"
            note(f"gmg-tui: {text}; use another folder")


def load_for_resume(options: Options, command: str, fixed: str) -> Session:
    """Returns the ended session `options.resume`, with the command line's changes to its spec.

    Only the options that `--resume` of `command` (`sweep` or `tune`) can change may be given; for any other, the error
    says that `fixed` cannot change. Raises `GmgError`.
    """
    fields = check_queue_options(options)
    name, mark = options.resume, SWEEP if command == "sweep" else TUNE
    changeable = {opt.name for opt in _ALL_OPTIONS if mark in opt.marks}
    check_given_options(options, changeable, f"--resume {name}: {fixed} cannot change")
    _check_command(sessions.find(name, running=False).record.session.spec, command)
    sessions.await_watchdog(name, note)
    sessions.clear_lost(note)
    entry = sessions.find(name, running=False)
    if entry.state == "running":
        raise GmgError(entry.remark or f"{name} is running; open it with: gmg-tui attach {name}", 1)
    if entry.state == "lost" and not entry.record.lost:
        raise GmgError(f"{name} was lost, and some of its processes are still running; try again", 1)
    session = entry.record.session
    spec = session.spec
    changed = [opt.spec_field for opt in RUN if opt.name in options.given and opt.spec_field in fields]
    changes = {field: fields[field] for field in changed}
    named = [changes["python"]] if "python" in changes else []
    if "notify" in changes:
        changes["notify_cwd"] = fields["cwd"]
        named.append(fields["cwd"])
    changes["path_owners"] = path_owners(*named) | spec.path_owners
    if options.given.get("virtual_local_rank") and spec.ddp is not None:
        changes["ddp"] = structs.replace(spec.ddp, virtual_local_rank=True)
    changes |= {"env": spec.env | fields["env"], "host": os.uname().nodename}
    spec = structs.replace(spec, **changes, socket=str(sessions.socket_path(spec.name)))
    if not os.path.isdir(spec.cwd):
        raise GmgError(f"{spec.name} ran in {spec.cwd}, which no longer exists; recreate it", 1)
    elsewhere = session.spec.host != spec.host
    if (reason := changed_owner(interpreter.start_paths(spec), spec.path_owners, elsewhere=elsewhere)) is not None:
        raise GmgError(reason, 1)
    interpreter.check_python(spec.python)
    check_script(spec.script_path, spec.module)
    return structs.replace(session, spec=spec)


def _check_command(spec: RunSpec, command: str) -> None:
    """Raises `GmgError` unless `command` started the session."""
    if spec.command != command:
        hint = f"start it again with: gmg-tui {spec.script}"
        if spec.command != "run":
            hint = f"continue it with: gmg-tui {spec.command} --resume {spec.name}"
        raise GmgError(f"{spec.name} is not a session of gmg-tui {command}; {hint}")


def check_given_options(options: Options, allowed: Container[str], reason: str) -> None:
    """Raises `GmgError` with `reason` if the command line has options or words that are not `allowed`."""
    names = {opt.name: opt.long for opt in _ALL_OPTIONS}
    names |= {"script": "SCRIPT", "args": "its arguments", "words": "FILE", "is_script": "--script", "module": "-m"}
    if refused := [names[key] for key in sorted(options.given) if key not in allowed]:
        raise GmgError(f"{reason}; leave out {', '.join(refused)}")


def _ddp_spec(options: Options) -> DdpSpec | None:
    if options.ddp is None:
        if options.virtual_local_rank and "virtual_local_rank" in options.given:
            raise GmgError("--virtual-local-rank needs --ddp")
        return None
    if options.ddp != "all" and not units.natural(options.ddp):
        raise GmgError(f"--ddp {options.ddp}: give the number of ranks in a group, or no value for one group")
    if options.start not in (None, "together"):
        raise GmgError(f"--start {options.start}: ranks of a group start together; leave it out")
    return DdpSpec(None if options.ddp == "all" else int(options.ddp), options.virtual_local_rank)


def _nodes_spec(options: Options) -> NodesSpec | None:
    if options.nodes is None:
        return None
    kind, _, address = options.nodes.partition(":")
    if kind not in {"local", "slurm", "ray", "ssh"} or (kind == "ssh" and not address) or (kind == "slurm" and address):
        raise GmgError(f"--nodes {options.nodes}: give slurm, ray or ssh:HOST,HOST")
    return NodesSpec(options.nodes, options.orphan_wait)


def check_script(script: str, module: bool = False) -> None:
    """Raises `GmgError` unless Python could run `script`, a file or a folder with a `__main__.py`.

    Checks only the name of a module, which only the workers' interpreter can find.
    """
    if module:
        if not _MODULE_NAME.fullmatch(script):
            raise GmgError(f"-m {script}: give a module's name, as in: python -m package.module")
        return
    path = Path(script)
    try:
        if os.path.isdir(path):
            path = path / "__main__.py"
        if not os.path.isfile(path):
            with suppress(FileNotFoundError, NotADirectoryError):
                path.stat()  # raises where a folder may not be entered
            raise GmgError(f"there is no script {path}; give the path of a Python file")
        if path.suffix not in _SCRIPT_SUFFIXES:
            raise GmgError(f"{script} is not a Python script; give the path of a Python file")
        os.close(open_regular(path))
    except (OSError, ValueError) as error:
        raise GmgError(f"cannot read {script}: {getattr(error, 'strerror', None) or error}") from error


def parse_env(pairs: tuple[str, ...]) -> dict[str, str]:
    """Returns the variables of `--env KEY=VALUE`. Raises `GmgError`."""
    variables = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not (name.isascii() and name.isidentifier()):
            raise GmgError(f"--env {pair}: give KEY=VALUE")
        variables[name] = value
    return variables


def parse_alert_actions(pairs: Iterable[str]) -> dict[str, AlertAction]:
    """Returns the actions of `--on KIND=ACTION` by kind. Raises `GmgError`."""
    actions = {}
    for pair in pairs:
        kind, _, action = pair.partition("=")
        if kind not in KINDS:
            hint = suggest(kind, KINDS) or f"; alerts are: {', '.join(KINDS)}"
            raise GmgError(f"--on {pair}: there is no alert {kind}{hint}")
        if action not in {*AlertAction}:
            raise GmgError(f"--on {pair}: give {kind}= with one of {', '.join(AlertAction)}")
        actions[kind] = AlertAction(action)
    return actions


def _summary_path(file: str) -> str:
    """Returns the absolute path of the file of `--summary`. Raises `GmgError` unless it can be written."""
    path = Path(file).absolute()
    if not file or (os.path.exists(path) and not os.path.isfile(path)):
        raise GmgError(f"--summary {file}: give the path of a file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GmgError(f"--summary {file}: cannot write to the folder {path.parent}; create it, or choose another one")
    return str(path)
