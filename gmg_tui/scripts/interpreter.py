"""The Python interpreter of the workers: its choice, packages and versions; git commits."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import gmg_tui
from gmg_tui.machine.folders import config_folder, distrust, home
from gmg_tui.machine.ownership import refusal, user_name
from gmg_tui.model import RunSpec, Versions
from gmg_tui.model.errors import GmgError

GENESIS = ("genesis-world", "torch")
_ENVIRONMENT_KINDS = {"VIRTUAL_ENV": "virtualenv", "CONDA_PREFIX": "conda environment"}
"""The variables of activated environments; a virtualenv inside a conda environment takes precedence."""
_ANSWER_TIMEOUT_S = 30.0
"""Seconds to wait for an interpreter, which may be on a slow network disk."""
_GIT_TIMEOUT_S = 2.0
_GENESIS = "genesis_world"
_PACKAGE_FOLDERS = "lib/python3*/dist-packages", "local/lib/python3*/dist-packages", "lib/python3*/site-packages"
_COMPILERS = "quadrants", "gstaichi", "taichi"
"""Genesis' compiler and its earlier names; each version compiles its own kernels."""
_FIND_GENESIS = "import importlib.util, sys; sys.exit(importlib.util.find_spec('genesis') is None)"
_PRINT_MAJOR = "import sys; print(sys.version_info[0])"
_FIND_INSTALLER = """
import importlib.util as u, os, sysconfig
managed = sys.prefix == sys.base_prefix and os.path.exists(sysconfig.get_path("stdlib") + "/EXTERNALLY-MANAGED")
print("managed" if managed else "pip" if u.find_spec("pip") else "none")
"""


def default_python(environ: Mapping[str, str]) -> str:
    """Returns the interpreter of the active virtualenv or conda environment, else the one that runs gmg-tui.

    If the latter lacks Genesis, but the first `python` or `python3` on PATH has it (in a container), returns that one.
    """
    active = next((python for python in _active_pythons(environ) if os.access(python, os.X_OK)), None)
    if active is not None:
        return active
    # An empty or relative folder would find programs in the current folder, which may be another user's.
    folders = ":".join(folder for folder in environ.get("PATH", "").split(":") if folder.startswith("/"))
    pythons = (shutil.which(name, path=folders) for name in ("python", "python3"))
    first = next(filter(None, pythons), sys.executable)
    lacks_genesis = _GENESIS not in installed(sys.executable)
    return first if lacks_genesis and _GENESIS in installed(first) else sys.executable


def installed(python: str) -> dict[str, str]:
    """Returns the versions of the packages in the interpreter's environment, from their folders' names."""
    infos = (
        path for site in _PACKAGE_FOLDERS for path in sorted(Path(python).parent.parent.glob(f"{site}/*-*.dist-info"))
    )
    return dict(path.stem.split("-", 1) for path in infos)


def _active_pythons(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the interpreters of the active environments, each with its variable.

    An environment of another user counts only if it is on PATH: `sudo -E` and `su` keep the variable alone.
    """
    folders = (folder for folder in environ.get("PATH", "").split(":") if folder.startswith("/"))
    on_path = dict[str, str]()
    for folder in folders:
        on_path.setdefault(os.path.realpath(folder), folder)  # the first one, as for the shell
    found = dict[str, str]()
    for name in filter(environ.get, _ENVIRONMENT_KINDS):
        own = Path(environ[name], "bin").absolute()
        if (spelling := on_path.get(os.path.realpath(own))) is not None:  # not a link that another user can change
            found[str(Path(spelling, "python"))] = name
        elif refusal(own, ()) is None:
            found[str(own / "python")] = name
    return found


def origin(python: str, environ: Mapping[str, str], given: str | None = None) -> str:
    """Returns the interpreter and the reason for its choice as text; `given` is an option or setting that names it."""
    if given is not None:
        return f"{python} ({given})"
    active = _active_pythons(environ)
    if (variable := active.get(python)) is not None:
        of_owner = ""
        with suppress(OSError):  # the environment was removed
            owner = Path(environ[variable]).stat().st_uid
            of_owner = "" if owner in (os.getuid(), 0) else f" of {user_name(owner)}"
        return f"{python} (the active {_ENVIRONMENT_KINDS[variable]}{of_owner}, {variable})"
    ignored = [f"{name} is another user's, and not on PATH" for name in _ENVIRONMENT_KINDS if environ.get(name)]
    notes = [*(["gmg-tui's own"] if is_own(python) else []), *(ignored if not active else [])]
    return f"{python} ({'; '.join(notes)})" if notes else python


def is_own(python: str) -> bool:
    """True if gmg-tui itself runs in the interpreter's environment."""
    return Path(python).parent == Path(sys.executable).parent


def check_python(path: str) -> str:
    """Returns the absolute path of an interpreter; a bare name is looked up in `PATH`.

    Keeps links, as a virtualenv's interpreter is one. Raises `GmgError` if it is not Python 3, or does not answer.
    """
    # A Path would drop the `./` of `./python`, which would then be looked up in `PATH`.
    program = shutil.which(os.path.expanduser(path))  # noqa: PTH111
    if program is None:
        raise GmgError(f"--python {path}: not an executable program; give the path of a Python interpreter")
    python = str(Path(program).absolute())
    try:
        answer = ask(python, _PRINT_MAJOR)
    except subprocess.TimeoutExpired:
        raise GmgError(f"--python {path}: no answer within {_ANSWER_TIMEOUT_S:.0f} s; is it an interpreter?") from None
    except OSError as error:
        raise GmgError(f"--python {path}: cannot be run: {error.strerror}; give a Python interpreter") from error
    if answer.returncode != 0 or answer.stdout.strip() != b"3":
        raise GmgError(f"--python {path}: not a Python 3 interpreter")
    return python


def has_genesis(python: str) -> bool:
    """True if the interpreter finds Genesis, without importing it, which takes up to a minute."""
    try:
        return ask(python, _FIND_GENESIS).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def script_folder(spec: RunSpec) -> str:
    """Returns the folder that Python puts first in the import path of a session's workers."""
    if spec.module:
        return spec.cwd
    script = os.path.realpath(spec.script_path)
    return script if os.path.isdir(script) else os.path.dirname(script)  # noqa: PTH120 - as Python


def code_paths(spec: RunSpec) -> tuple[str, str]:
    """Returns the paths of the code that workers run: the interpreter, and the script or the folder of the module."""
    is_folder = not spec.module and os.path.isdir(spec.script_path)
    script = f"{spec.script_path}/__main__.py" if is_folder else spec.script_path
    return (spec.python, spec.cwd if spec.module else script)


def start_paths(spec: RunSpec) -> tuple[str, ...]:
    """Returns `code_paths` and the folder in which workers start."""
    return (*code_paths(spec), spec.cwd)


def versions(python: str) -> Versions:
    """Returns the versions of Python, Genesis, torch and the compiler, from file names: starts no interpreter."""
    root, packages = Path(python).parent.parent, installed(python)
    compiler = next((f"{name} {packages[name]}" for name in _COMPILERS if name in packages), None)
    # The version is in the name of a link's target, or of an environment's folder.
    names = [Path(os.path.realpath(python)).name, *(path.name for path in root.glob("lib/python3.*"))]
    version = next((name.removeprefix("python") for name in names if name.startswith("python3.")), None)
    return Versions(version, packages.get(_GENESIS), packages.get("torch"), compiler)


def version_numbers(version: str | None) -> tuple[int, ...]:
    """Returns the first three numbers of a version, for comparisons; empty if unknown."""
    return tuple(int(part) for part in (version or "").split(".")[:3] if part.isdecimal())


def commit_of(folder: str) -> str | None:
    """Returns the git commit of a folder, with `-dirty` if files were changed; None if unknown, or if git is slow.

    Git runs programs that a repository's settings name, and takes any folder with `HEAD`, `objects` and `refs` for a
    repository, even `/tmp`. So it runs only if nobody but this user can change the repository's folder and settings, and
    without other users' global settings, as with the HOME that `su` keeps.
    """
    path = Path(os.path.realpath(folder))
    # Others may have made a `.git` above: Path.exists raises where its link cannot be followed.
    root = next((parent for parent in (path, *path.parents) if os.path.exists(parent / ".git")), None)
    if root is None or distrust(root) is not None:
        return None
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    config_files = (home(), ".gitconfig"), (config_folder(), "git/config")
    if any(folder is not None and distrust(folder / name) is not None for folder, name in config_files):
        environ["GIT_CONFIG_GLOBAL"] = os.devnull
    environ["GIT_CEILING_DIRECTORIES"] = str(root.parent)
    environ["GIT_OPTIONAL_LOCKS"] = "0"  # else it may update the index, and run a hook
    settings = _git(root, environ, "rev-parse", "--git-common-dir")
    if settings is None or distrust(root / settings / "config", shared=True) is not None:
        return None
    commit = _git(root, environ, "describe", "--always", "--exclude=*")
    # `describe --dirty` would also look into submodules, and run what their settings name.
    changes = _git(root, environ, "diff", "--name-only", "--ignore-submodules=dirty", "HEAD")
    return None if commit is None or changes is None else f"{commit}-dirty" if changes else commit


def _git(folder: Path, environ: dict[str, str], *words: str) -> str | None:
    """Returns the output of a git command; None if it fails or is slow."""
    try:
        result = _run(("git", "-c", "core.fsmonitor=false", "-C", str(folder), *words), _GIT_TIMEOUT_S, environ)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.decode(errors="replace").strip() if result.returncode == 0 else None


def own_version() -> str:
    """Returns the version of gmg-tui, with the commit if it runs from a working tree."""
    tree = Path(gmg_tui.__file__).parents[1]
    commit = commit_of(str(tree)) if os.path.exists(tree / ".git") else None
    return f"{gmg_tui.__version__}{f' ({commit})' if commit else ''}"


def install_command(python: str, *packages: str) -> str:
    """Returns the command that installs packages for the interpreter, which may lack pip, as after `uv tool install`."""
    words = " ".join(packages or GENESIS)
    try:
        installer = ask(python, _FIND_INSTALLER).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        installer = b"pip"
    if installer == b"managed":  # PEP 668
        return f"python3 -m venv .venv && . .venv/bin/activate && pip install {words}"
    if installer == b"pip":
        return f"{python} -m pip install {words}"
    if shutil.which("uv") is not None:
        return f"uv pip install --python {python} {words}"
    return f"{python} -m ensurepip && {python} -m pip install {words}"


def ask(
    python: str, program: str, *, timeout_s: float = 0.0, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Runs a short program without importing from the current folder, where another user may have put modules.

    Raises `OSError`, or `subprocess.TimeoutExpired` once the process is killed.
    """
    command = [python, "-c", f"import sys; sys.path[:] = filter(None, sys.path)\n{program}"]  # -P is new in Python 3.11
    return _run(command, timeout_s or _ANSWER_TIMEOUT_S, env)


def _run(words: Sequence[str], timeout_s: float, env: Mapping[str, str] | None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, env=env, check=False)
