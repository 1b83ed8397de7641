"""Makes the `RunSpec` of a session from options, with every check beyond single values (`grammar`) that needs no engine."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gmg_tui import interpreter
from gmg_tui import session as sessions
from gmg_tui.config import Settings
from gmg_tui.ddp import torchrun
from gmg_tui.errors import GmgError
from gmg_tui.model import DdpSpec, JobRecord, LauncherKind, NodesSpec, RestartMode, RunSpec, StartMode
from gmg_tui.options import RUN, Options, Program
from gmg_tui.readers import formats
from gmg_tui.session import STORE, machine

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SUFFIXES = ("", ".py", ".pyw", ".pyz")
"""Of a Python script, or of a zipped application (zipapp)."""


def check(options: Options) -> dict[str, Any]:
    """Check everything that does not need the GPUs; the fields of a `RunSpec` that the options set.

    Raises:
        GmgError: Invalid option value; one line with what to do.
    """
    for first, second in (("gpus", "cpu"), ("simulate", "cpu")):
        if getattr(options, first) is not None and getattr(options, second) is not None:
            raise GmgError(f"--{first} and --{second} are mutually exclusive; give one of them")
    if options.gpus is not None and not options.gpus.strip():
        raise GmgError("--gpus is empty; give 'all', a count, or a list of indices or UUIDs")
    formats.check(options.pattern)
    if any(not how.strip() or "\0" in how for how in options.notify):
        raise GmgError("--notify is empty; give bell, osc9, osc777 or a command")
    path = options.python
    settable = {*RunSpec.__struct_fields__} - {"name"}
    fields = {opt.spec_field: getattr(options, opt.name) for opt in RUN if opt.spec_field in settable}
    return fields | {
        "cwd": _current_folder(),
        "python_given": path is not None,
        "python": interpreter.check_python(path) if path is not None else interpreter.default_python(os.environ),
        "env": environment(options.env),
        "summary": None if options.summary is None else _summary(options.summary),
        "ddp": _groups(options),
        "probe": not options.no_probe,
        "nodes": _nodes(options),
        "start": None if options.start is None else StartMode(options.start),
        "restart": RestartMode(options.restart),
    }


def check_queued(options: Options) -> dict[str, Any]:
    """Check the options of a sweep or tuning, as `check` does; groups are checked by `groups_of`."""
    if options.restart == "always":
        raise GmgError("--restart always: finished jobs would be restarted forever; give failure")
    return check(options.replace(ddp=None, virtual_local_rank=False))


def groups_of(options: Options, jobs: Sequence[JobRecord]) -> DdpSpec | None:
    """How the jobs of a sweep form groups, each of its size; None where no job does. Raises `GmgError`."""
    ranks = any(job.world_size is not None for job in jobs)
    return _groups(options.replace(ddp="all" if ranks else None))


def describe(options: Options, fields: Mapping[str, Any], program: Program, *, after: str | None = None) -> RunSpec:
    """The spec for options and their checked `fields`, in a folder that is created here.

    The session is named after the file `after`, or else the script, if the options give no name.

    Raises:
        GmgError: The folder cannot be created.
    """
    if torchrun.starts(program.script, module=program.module) and fields["ddp"] is not None:
        raise GmgError(
            f"{program.script}: --ddp starts the ranks instead of torchrun; give the script alone: --ddp TRAIN.py"
        )
    name, folder = sessions.create(options.name, after or program.script)
    try:
        socket = sessions.socket_path(name)
    except GmgError:
        shutil.rmtree(folder)
        raise
    context = click.get_current_context(silent=True)
    settings = context.find_object(Settings) if context is not None else None
    readers = settings.readers if settings is not None else {}
    where: dict[str, Any] = {"name": name, "folder": str(folder), "socket": str(socket), "host": machine.name()}
    return RunSpec(**program._asdict(), **where, readers=readers, **fields)


def with_store(spec: RunSpec, jobs: tuple[JobRecord, ...] = ()) -> RunSpec:
    """`spec`, with a store of its jobs in its folder; raises `GmgError`, and then the folder is gone."""
    from gmg_tui.store import reader

    try:
        reader.create(Path(spec.folder) / STORE, jobs)
    except BaseException:
        shutil.rmtree(spec.folder, ignore_errors=True)
        raise
    return spec


def _groups(options: Options) -> DdpSpec | None:
    if options.ddp is None:
        return None
    if options.ddp != "all" and (not options.ddp.isdecimal() or int(options.ddp) < 1):
        raise GmgError(f"--ddp {options.ddp}: give the number of ranks in a group, or nothing for one group")
    if options.start not in (None, "together"):
        raise GmgError(f"--start {options.start}: the ranks of a group wait for each other, so they start together")
    return DdpSpec(None if options.ddp == "all" else int(options.ddp), options.virtual_local_rank)


def _nodes(options: Options) -> NodesSpec | None:
    where = options.nodes
    if where is None:
        return None
    name, _, rest = where.partition(":")
    try:
        launcher = LauncherKind(name)
    except ValueError:
        raise GmgError(f"--nodes {where}: give slurm, ray or ssh:HOST,HOST") from None
    if launcher is LauncherKind.SSH and not rest:
        raise GmgError(f"--nodes {where}: give hosts, as in ssh:a,b")
    return NodesSpec(launcher, rest, options.orphan_wait)


def check_script(script: str, module: bool = False) -> None:
    """Raise `GmgError` unless Python could run the file, or the folder with a `__main__.py`, called `script`.

    Only the workers' interpreter can find a module: of that the name is checked.
    """
    if module:
        if not _MODULE.fullmatch(script):
            raise GmgError(f"-m {script}: give a module's name, as in: python -m package.module")
        return
    path = Path(script)
    try:
        if not path.exists():
            raise GmgError(f"there is no script {script}; give the path of a Python file")
        if path.is_dir():
            path = path / "__main__.py"
            if not path.is_file():
                raise GmgError(f"{script} is a folder without a __main__.py; give the path of a Python file")
        elif not path.is_file():
            raise GmgError(f"{script} is not a regular file; give the path of a Python file")
        if path.suffix not in _SUFFIXES:
            raise GmgError(f"{script} is not a Python script; give the path of a Python file")
        with path.open("rb"):
            pass
    except PermissionError as error:
        raise GmgError(f"cannot read {script}: permission denied; make it readable (chmod u+r)") from error
    except (OSError, ValueError) as error:
        raise GmgError(f"cannot read {script}: {error}") from error


def environment(pairs: tuple[str, ...]) -> dict[str, str]:
    """The variables of `--env KEY=VALUE`. Raises `GmgError`."""
    variables = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not _VARIABLE.fullmatch(name):
            raise GmgError(f"--env {pair}: give KEY=VALUE")
        variables[name] = value
    return variables


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise GmgError(f"the current folder is gone ({error.strerror}); change to another one") from error


def _summary(file: str) -> str:
    """The absolute path of the file. Raises `GmgError` unless it can be written."""
    try:
        path = Path(file).resolve()
        wrong = not file or (path.exists() and not path.is_file())
    except (OSError, RuntimeError) as error:  # a link to itself
        raise GmgError(f"--summary {file}: {error}; give the path of a file") from error
    if wrong:
        raise GmgError(f"--summary {file}: give the path of a file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GmgError(f"--summary {file}: cannot write to the folder {path.parent}; create it, or choose another one")
    return str(path)
