"""What must be alike on all nodes of a session."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from msgspec import Struct

import gmg_tui
from gmg_tui.commands.doctor import gpus, interpreter
from gmg_tui.commands.doctor.finding import Finding
from gmg_tui.genesis import caches

NONE = "none"


class Examined(Struct, frozen=True):
    """What a node answers to the doctor of another machine."""

    findings: tuple[Finding, ...]
    facts: dict[str, str]
    """By name; what is not there is `none`."""
    time: float
    """Unix time at the end, seconds."""


def gather(python: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The versions of what a run needs, and where the caches are."""
    versions, nvml = interpreter.ask_versions(python, environ), gpus.ask()
    of_workers = {"Python": NONE, "Genesis": NONE, "torch": NONE}
    if not isinstance(versions, str):
        of_workers = {
            "Python": versions.python,
            "Genesis": versions.genesis or NONE,
            "torch": versions.torch or NONE,
        }
    return {
        "gmg-tui": gmg_tui.__version__,
        **of_workers,
        "driver": nvml.driver or NONE,
        "system": f"{platform.system()} {platform.machine()}",
        "mesh cache": str(caches.mesh_cache(environ)),
        "kernel cache": str(caches.kernel_cache(environ)),
    }
