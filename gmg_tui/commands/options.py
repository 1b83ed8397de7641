"""The options of `run` as they were read, and all that can be checked of them before an engine is started."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.genesis import interpreter

_INTERVAL_S = (0.2, 60.0)
_STUCK_AFTER_S = (2.0, 86400.0)
"""The engine looks at the workers' CPU time every two seconds; within less nobody can be seen to stand still."""
_WAIT_S = (0.0, 3600.0)
_MAX_RESTARTS = (0, 1_000_000)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class RunOptions(NamedTuple):
    """The options of `run` and `demo`, as the command line gives them."""

    gpus: str | None = None
    cpu: int | None = None
    name: str | None = None
    python: str | None = None
    env: tuple[str, ...] = ()
    interval: float = 1.0
    start: str | None = None
    restart: str = "startup"
    max_restarts: int = 3
    stuck_after: float = 60.0
    restart_stuck: bool = False
    sigint_wait: float = 15.0
    sigterm_wait: float = 10.0
    headless: bool = False
    detach: bool = False
    summary: str | None = None
    theme: str | None = None
    ascii_only: bool = False
    no_mouse: bool = False


class Checked(NamedTuple):
    """What the checks found out, in the form that a `RunSpec` has it."""

    cwd: str
    python: str
    env: dict[str, str]
    summary: str | None


def check(options: RunOptions) -> Checked:
    """Check all that does not need the cards.

    Raises:
        GmgError: Something cannot be meant so; one line with what to do.
    """
    cwd = _current_folder()
    if options.gpus is not None and options.cpu is not None:
        raise GmgError("--gpus and --cpu exclude one another; give one of them")
    if options.gpus is not None and not options.gpus.strip():
        raise GmgError("--gpus is empty; give 'all', a count, or a list of indices or UUIDs")
    if options.cpu is not None and options.cpu < 1:
        raise GmgError(f"--cpu {options.cpu}: at least 1")
    _within("--interval", options.interval, _INTERVAL_S, " seconds")
    _within("--max-restarts", options.max_restarts, _MAX_RESTARTS, "")
    _within("--stuck-after", options.stuck_after, _STUCK_AFTER_S, " seconds")
    _within("--sigint-wait", options.sigint_wait, _WAIT_S, " seconds")
    _within("--sigterm-wait", options.sigterm_wait, _WAIT_S, " seconds")
    return Checked(
        cwd=cwd,
        python=python(options.python, os.environ),
        env=_environment(options.env),
        summary=_summary(options.summary),
    )


def check_queued(options: RunOptions) -> Checked:
    """Check the options of a sweep. Raises `GmgError` as `check` does."""
    if options.restart == "always":
        raise GmgError("--restart always: a finished job would be run again for ever; give failure, or --retries N")
    return check(options)


def check_script(script: str) -> None:
    """Raise `GmgError` unless Python could run the file, or the folder with a `__main__.py`, called `script`."""
    path = Path(script)
    try:
        if not path.exists():
            raise GmgError(f"no script {script}; give the path of a Python file")
        if path.is_dir():
            if not (path / "__main__.py").is_file():
                raise GmgError(f"{script} is a folder without a __main__.py; give the path of a Python file")
            path = path / "__main__.py"
        elif not path.is_file():
            raise GmgError(f"{script} is no regular file; give the path of a Python file")
    except (OSError, ValueError) as error:
        raise GmgError(f"cannot read {script}: {error}") from error
    if not os.access(path, os.R_OK):
        raise GmgError(f"cannot read {script}: permission denied; make it readable (chmod u+r)")


def check_module(module: str) -> None:
    """Raise `GmgError` unless `module` could be a module's dotted name; only the workers' interpreter can find it."""
    if not _MODULE.fullmatch(module):
        raise GmgError(f"-m {module}: no name of a module; as in `python -m package.module`")


def python(path: str | None, environ: Mapping[str, str]) -> str:
    """The workers' interpreter: `path`, or the one of the active environment. Raises `GmgError` when it is none."""
    return interpreter.check_python(path) if path is not None else interpreter.default_python(environ)


def check_folder(option: str, folder: str) -> str:
    """The absolute path of a folder that is there and can be written, or can be made. Raises `GmgError`."""
    path = Path(folder).absolute()
    try:
        above = next(one for one in (path, *path.parents) if one.exists())
        fits = bool(folder) and above.is_dir()
    except (OSError, ValueError) as error:
        raise GmgError(f"{option} {folder}: {error}") from error
    if not fits:
        raise GmgError(f"{option} {folder}: give the path of a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise GmgError(f"{option} {folder}: the folder {above} cannot be written; give another one")
    return str(path)


def _within(option: str, value: float, limits: tuple[float, float], unit: str) -> None:
    low, high = limits
    if not low <= value <= high:  # written so that NaN is outside
        raise GmgError(f"{option} {value:g}: from {low:g} to {high:,g}{unit}")


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


def _summary(file: str | None) -> str | None:
    if file is None:
        return None
    path = Path(file).absolute()
    if not file or path.is_dir():
        raise GmgError(f"--summary {file}: give the path of a file")
    if not path.parent.is_dir():
        raise GmgError(f"--summary {file}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GmgError(f"--summary {file}: the folder {path.parent} cannot be written; give another one")
    return str(path)
