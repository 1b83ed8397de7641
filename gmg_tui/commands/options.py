"""The options of `run` as they were parsed, and every check of them that needs no engine."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gmg_tui import simulation
from gmg_tui.commands import slurm_job
from gmg_tui.commands.where import nodes_of
from gmg_tui.errors import GmgError
from gmg_tui.files import is_replaced, open_file
from gmg_tui.genesis import interpreter
from gmg_tui.model import DdpSpec, Job, NodesSpec
from gmg_tui.readers import patterns

_INTERVAL_S = (0.2, 60.0)
_STUCK_AFTER_S = (2.0, 86400.0)
"""The engine samples the workers' CPU time every two seconds; a shorter time could not detect a standstill."""
_WAIT_S = (0.0, 3600.0)
_MAX_RESTARTS = (0, 1_000_000)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT])(?:i?B)?", re.IGNORECASE)
_SHIFTS = {"K": 10, "M": 20, "G": 30, "T": 40}
_LEAST_LOG_BYTES, _MOST_LOG_BYTES = 1 << 20, 1 << 60
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class RunOptions(NamedTuple):
    """The options of `run` and `demo`, as the command line gives them."""

    gpus: str | None = None
    cpu: int | None = None
    name: str | None = None
    python: str | None = None
    env: tuple[str, ...] = ()
    nodes: str | None = None
    min_nodes: int | None = None
    orphan_wait: float = 60.0
    slurm: str | None = None
    keep_slurm_env: bool = False
    simulate: int | None = None
    pattern: tuple[str, ...] = ()
    script_patterns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The patterns of the user's settings, by names or globs of scripts; `pattern` wins."""
    visible: str = "index"
    ddp: str | None = None
    """Ranks in a group, `all` for one group over all slots; None for no groups."""
    virtual_local_rank: bool = False
    flight_recorder: bool = False
    interval: float = 1.0
    start: str | None = None
    restart: str = "startup"
    max_restarts: int = 3
    stuck_after: float = 60.0
    restart_stuck: bool = False
    sigint_wait: float = 15.0
    sigterm_wait: float = 10.0
    log_max: str | None = None
    headless: bool = False
    verbose: bool = False
    detach: bool = False
    summary: str | None = None
    notify: tuple[str, ...] = ()
    theme: str | None = None
    ascii_only: bool = False
    no_mouse: bool = False
    no_confirm: bool = False


class Checked(NamedTuple):
    """The results of the checks, as a `RunSpec` has them."""

    cwd: str
    python: str
    env: dict[str, str]
    summary: str | None
    log_max_bytes: int | None
    ddp: DdpSpec | None = None
    nodes: NodesSpec | None = None


def check(options: RunOptions) -> Checked:
    """Check everything that does not need the GPUs.

    Raises:
        GmgError: Invalid option value; one line that says what to do.
    """
    cwd = _current_folder()
    if options.gpus is not None and options.cpu is not None:
        raise GmgError("--gpus and --cpu are mutually exclusive; give one of them")
    if options.gpus is not None and not options.gpus.strip():
        raise GmgError("--gpus is empty; give 'all', a count, or a list of indices or UUIDs")
    if options.cpu is not None and options.cpu < 1:
        raise GmgError(f"--cpu {options.cpu}: give at least 1")
    check_simulated(options)
    patterns.check(options.pattern)
    ddp = _groups(options)
    if any(not one.strip() or "\0" in one for one in options.notify):
        raise GmgError("--notify is empty; give bell, osc9, osc777 or a command")
    _within("--interval", options.interval, _INTERVAL_S, " seconds")
    _within("--max-restarts", options.max_restarts, _MAX_RESTARTS, "")
    _within("--stuck-after", options.stuck_after, _STUCK_AFTER_S, " seconds")
    _within("--sigint-wait", options.sigint_wait, _WAIT_S, " seconds")
    _within("--sigterm-wait", options.sigterm_wait, _WAIT_S, " seconds")
    nodes = nodes_of(options.nodes, options.min_nodes, options.orphan_wait)
    slurm_job.check(options.slurm, nodes)
    return Checked(
        cwd=cwd,
        python=python(options.python, os.environ),
        env=_environment(options.env),
        summary=_summary(options.summary, detach=options.detach),
        log_max_bytes=_log_max(options.log_max),
        ddp=ddp,
        nodes=nodes,
    )


def check_simulated(options: RunOptions) -> None:
    """Raise `GmgError` where simulated GPUs are asked for in a way that cannot be."""
    if options.simulate is None:
        return
    if not 1 <= options.simulate <= simulation.MOST:
        raise GmgError(f"--simulate {options.simulate}: give 1 to {simulation.MOST} GPUs")
    if options.cpu is not None:
        raise GmgError("--simulate and --cpu are mutually exclusive; give one of them")


def check_queued(options: RunOptions) -> Checked:
    """Check the options of a sweep. Raises `GmgError` as `check` does."""
    if options.restart == "always":
        raise GmgError("--restart always: finished jobs would be restarted forever; give failure, or --retries N")
    return check(options._replace(ddp=None, virtual_local_rank=False, flight_recorder=False))


def groups_of(options: RunOptions, jobs: Sequence[Job]) -> DdpSpec | None:
    """How the jobs of a sweep form groups, each of the size that it says; None where none does. Raises `GmgError`."""
    if all(job.world_size is None for job in jobs):
        return _groups(options._replace(ddp=None))
    return _groups(options._replace(ddp="all"))


def _groups(options: RunOptions) -> DdpSpec | None:
    if options.ddp is None:
        if options.virtual_local_rank or options.flight_recorder:
            name = "--virtual-local-rank" if options.virtual_local_rank else "--flight-recorder"
            raise GmgError(f"{name} is for the ranks of a group; give --ddp too")
        return None
    if options.ddp != "all" and (not options.ddp.isdecimal() or int(options.ddp) < 1):
        raise GmgError(f"--ddp {options.ddp}: give the number of ranks in a group, or nothing for one group")
    if options.start not in (None, "together"):
        raise GmgError(f"--start {options.start}: the ranks of a group wait for each other, so they start together")
    size = None if options.ddp == "all" else int(options.ddp)
    return DdpSpec(size, options.virtual_local_rank, options.flight_recorder)


def check_script(script: str) -> None:
    """Raise `GmgError` unless Python could run the file, or the folder with a `__main__.py`, called `script`."""
    path = Path(script)
    try:
        if not path.exists():
            raise GmgError(f"there is no script {script}; give the path of a Python file")
        if path.is_dir():
            if not (path / "__main__.py").is_file():
                raise GmgError(f"{script} is a folder without a __main__.py; give the path of a Python file")
            path = path / "__main__.py"
        elif not path.is_file():
            raise GmgError(f"{script} is not a regular file; give the path of a Python file")
    except (OSError, ValueError) as error:
        raise GmgError(f"cannot read {script}: {error}") from error
    if not os.access(path, os.R_OK):
        raise GmgError(f"cannot read {script}: permission denied; make it readable (chmod u+r)")


def check_module(module: str) -> None:
    """Raise `GmgError` unless `module` is a dotted name; only the workers' interpreter can find the module."""
    if not _MODULE.fullmatch(module):
        raise GmgError(f"-m {module}: give a module's name, as in `python -m package.module`")


def python(path: str | None, environ: Mapping[str, str]) -> str:
    """The workers' interpreter: `path`, or the active environment's. Raises `GmgError` when it is not one."""
    return interpreter.check_python(path) if path is not None else interpreter.default_python(environ)


def check_folder(option: str, folder: str) -> str:
    """The absolute path of a folder that can be written or created. Raises `GmgError`."""
    path = Path(folder).absolute()
    try:
        above = next(one for one in (path, *path.parents) if one.exists())
        fits = bool(folder) and above.is_dir()
    except (OSError, ValueError) as error:
        raise GmgError(f"{option} {folder}: {error}") from error
    if not fits:
        raise GmgError(f"{option} {folder}: give the path of a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise GmgError(f"{option} {folder}: the folder {above} is not writable; choose another one")
    return str(path)


def _within(option: str, value: float, limits: tuple[float, float], unit: str) -> None:
    low, high = limits
    if not low <= value <= high:  # written so that NaN is outside
        raise GmgError(f"{option} {value:g}: give a number from {low:g} to {high:,g}{unit}")


def _log_max(size: str | None) -> int | None:
    """The bytes of a size such as `500M` or `2G`; None for no limit."""
    if size is None or size.strip().lower() == "none":
        return None
    given = _SIZE.fullmatch(size.strip())
    number = float(given[1]) * (1 << _SHIFTS[given[2].upper()]) if given else 0.0
    if not _LEAST_LOG_BYTES <= number < _MOST_LOG_BYTES:
        raise GmgError(f"--log-max {size}: give a size of at least 1M, such as 500M or 2G, or none")
    return int(number)


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise GmgError(f"the current folder is gone ({error.strerror}); change to another one") from error


def _environment(pairs: tuple[str, ...]) -> dict[str, str]:
    variables = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not _VARIABLE.fullmatch(name):
            raise GmgError(f"--env {pair}: give KEY=VALUE")
        variables[name] = value
    return variables


def _summary(file: str | None, *, detach: bool) -> str | None:
    if file is None:
        return None
    path = Path(file).absolute()
    if not file or path.is_dir():
        raise GmgError(f"--summary {file}: give the path of a file")
    try:
        if not is_replaced(path):
            opened = open_file(path)
            return str(path) if opened is None else _kept_open(opened, file, detach=detach)
    except OSError as error:
        raise GmgError(f"--summary {file}: {error.strerror}; give the path of a file") from error
    path = path.resolve()
    if not path.parent.is_dir():
        raise GmgError(f"--summary {file}: there is no folder {path.parent}; create it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GmgError(f"--summary {file}: the folder {path.parent} is not writable; choose another one")
    return str(path)


def _kept_open(opened: Path, file: str, *, detach: bool) -> str:
    """The path by which the engine reaches a file that is open here, for as long as this process lives."""
    if detach:
        raise GmgError(f"--summary {file}: with --detach nobody is there to take it; give the path of a file")
    if opened.parts[2] == str(os.getpid()):
        with suppress(OSError):  # what is printed after the engine has written there must not stand in its place
            flags = fcntl.fcntl(int(opened.name), fcntl.F_GETFL)
            fcntl.fcntl(int(opened.name), fcntl.F_SETFL, flags | os.O_APPEND)
    return str(opened)
