"""The launcher that `--nodes` names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gmg_tui.engine.launchers.launcher import Launcher
from gmg_tui.engine.launchers.local import Local
from gmg_tui.engine.launchers.ray import Ray
from gmg_tui.engine.launchers.slurm import Slurm
from gmg_tui.engine.launchers.ssh import Ssh
from gmg_tui.model import LauncherKind, NodesSpec

_LAUNCHERS: Mapping[LauncherKind, Callable[[NodesSpec, bool], Launcher]] = {
    LauncherKind.LOCAL: lambda spec, _: Local(spec.where),
    LauncherKind.SSH: lambda spec, _: Ssh(spec.where),
    LauncherKind.SLURM: lambda spec, _: Slurm(spec.where, spec.job),
    LauncherKind.RAY: lambda spec, cpu: Ray(spec.where, cpu=cpu, orphan_wait_s=spec.orphan_wait_s),
}


def launcher_of(spec: NodesSpec, *, cpu: bool = False) -> Launcher:
    """The launcher of a session, whose slots are the CPU's or GPUs. Raises `GmgError` where it cannot work here."""
    return _LAUNCHERS[spec.launcher](spec, cpu)
