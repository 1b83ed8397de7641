"""`--version --json`: the versions and the surroundings that a bug report needs."""

from __future__ import annotations

import importlib.metadata
import json
import locale
import os
import platform
from typing import Any

import gmg_tui
from gmg_tui.genesis import interpreter


def versions() -> int:
    """Print them; what is not there is null."""
    python = interpreter.default_python(os.environ)
    said: dict[str, Any] = {"gmg_tui": gmg_tui.__version__, "python": platform.python_version()}
    packages = {"textual": "textual", "pynvml": "nvidia-ml-py", "msgspec": "msgspec", "click": "click"}
    said |= {key: _installed(name) for key, name in packages.items()}
    said["workers"] = {
        "python": python,
        "genesis": interpreter.package_version(python, "genesis_world"),
        "torch": interpreter.package_version(python, "torch"),
    }
    said |= {"platform": platform.platform(), "kernel": platform.release()}
    said |= {"term": os.environ.get("TERM"), "colorterm": os.environ.get("COLORTERM"), "locale": _locale()}
    said["slurm_job"] = os.environ.get("SLURM_JOB_ID")
    print(json.dumps(said, indent=2))
    return 0


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _locale() -> str:
    """The locale of the characters, as the environment names it, and the encoding that follows from it."""
    named = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "C")
    return f"{named} ({locale.getpreferredencoding(do_setlocale=False)})"
