"""The Python that runs the workers' script: which one it is, and whether Genesis is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gmg_tui.errors import GmgError

_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""What an activated environment sets; a virtualenv made inside conda's is the one that counts."""
_ANSWER_S = 30.0
"""How long an interpreter may take to answer; it may start from a slow network disk."""
_FIND = "import importlib.util, sys; sys.exit(importlib.util.find_spec('genesis') is None)"
_HELLO = "import sys; print(sys.version_info[0])"


def default_python(environ: Mapping[str, str]) -> str:
    """The interpreter of the active virtualenv or conda environment, else the one that runs gmg-tui."""
    for name in _ENVIRONMENTS:
        folder = environ.get(name)
        if folder:
            python = Path(folder) / "bin" / "python"
            if os.access(python, os.X_OK):
                return str(python)
    return sys.executable


def check_python(path: str) -> str:
    """`path` as an absolute path of an interpreter; a bare name is looked up in `PATH`.

    Links are kept: the link in a virtualenv is what makes it that virtualenv's interpreter.

    Raises:
        GmgError: It is none, or does not answer.
    """
    # By os.path: a Path would lose the `./` that keeps `./python` from being looked up in `PATH`.
    found = shutil.which(os.path.expanduser(path))  # noqa: PTH111
    if found is None:
        raise GmgError(f"--python {path}: not a program that can be run; give the path of a Python interpreter")
    python = str(Path(found).absolute())
    try:
        answer = _ask(python, _HELLO)
    except subprocess.TimeoutExpired:
        raise GmgError(f"--python {path}: does not answer within {_ANSWER_S:.0f} s; is it an interpreter?") from None
    except OSError as error:
        raise GmgError(f"--python {path}: cannot be run: {error.strerror}; give a Python interpreter") from error
    if answer.returncode != 0 or answer.stdout.strip() != b"3":
        raise GmgError(f"--python {path}: is no Python 3 interpreter")
    return python


def has_genesis(python: str) -> bool:
    """Whether that interpreter would find Genesis; it is not imported, which takes up to a minute.

    An interpreter that cannot be asked has none.
    """
    try:
        return _ask(python, _FIND).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install_command(python: str) -> str:
    """The command that installs Genesis for that interpreter, to be shown to a person."""
    return f"{python} -m pip install genesis-world torch"


def _ask(python: str, program: str) -> subprocess.CompletedProcess[bytes]:
    """Run a short program. Raises `OSError` and `subprocess.TimeoutExpired`; the process is gone then."""
    return subprocess.run(
        [python, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWER_S, check=False
    )
