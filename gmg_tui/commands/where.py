"""What `--nodes` and the options beside it say."""

from __future__ import annotations

from gmg_tui.errors import GmgError
from gmg_tui.model import LauncherKind, NodesSpec

_LEAST_WAIT_S, _MOST_WAIT_S = 1.0, 86400.0


def nodes_of(where: str | None, least: int | None, orphan_wait_s: float) -> NodesSpec | None:
    """The nodes of a session; None for this machine alone. Raises `GmgError`."""
    if where is None:
        if least is not None:
            raise GmgError("--min-nodes is for several machines; give --nodes too")
        return None
    name, colon, rest = where.partition(":")
    try:
        launcher = LauncherKind(name)
    except ValueError:
        raise GmgError(f"--nodes {where}: give slurm, ray, ssh:HOST,HOST, ssh:@FILE or local:N") from None
    if launcher in (LauncherKind.SSH, LauncherKind.LOCAL) and not rest:
        wanted = "hosts, as in ssh:a,b" if launcher is LauncherKind.SSH else "a number, as in local:2"
        raise GmgError(f"--nodes {where}: give {wanted}")
    if least is not None and least < 1:
        raise GmgError(f"--min-nodes {least}: give at least 1")
    if not _LEAST_WAIT_S <= orphan_wait_s <= _MOST_WAIT_S:
        raise GmgError(
            f"--orphan-wait {orphan_wait_s:g}: give a number from {_LEAST_WAIT_S:g} to {_MOST_WAIT_S:,g} seconds"
        )
    return NodesSpec(launcher, rest if colon else "", least, orphan_wait_s)
