"""The launcher that `--nodes` names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gmg_tui.engine.launchers.launcher import Launcher
from gmg_tui.engine.launchers.local import Local
from gmg_tui.engine.launchers.slurm import Slurm
from gmg_tui.engine.launchers.ssh import Ssh
from gmg_tui.model import LauncherKind, NodesSpec

_LAUNCHERS: Mapping[LauncherKind, Callable[[NodesSpec], Launcher]] = {
    LauncherKind.LOCAL: lambda spec: Local(spec.where),
    LauncherKind.SSH: lambda spec: Ssh(spec.where),
    LauncherKind.SLURM: lambda spec: Slurm(spec.where, spec.job),
}


def launcher_of(spec: NodesSpec) -> Launcher:
    """The launcher of a session. Raises `GmgError` where it cannot work here."""
    return _LAUNCHERS[spec.launcher](spec)
