"""Checks before each attempt that the workers' code is still the one with which the session was started."""

from collections.abc import Mapping
from pathlib import Path

from gmg_tui.machine.ownership import MISSING, changed_owner, refusal_of_any
from gmg_tui.model import AgentSpec, RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis import caches
from gmg_tui.scripts.interpreter import argument_paths, code_paths, start_paths


def check_code(spec: RunSpec, environ: Mapping[str, str]) -> None:
    """Raises `GmgError` if the workers' files are missing, or have other owners than at the session's start or on its machine.

    On a node's own disk, anyone may have created a user's missing folder. There, Genesis' caches, which the workers'
    environment `environ` may name, are looked at, too: Genesis runs what they contain.
    """
    paths = start_paths(spec)
    absence = next(filter(None, map(_absence, paths)), None)
    # Looked at last: what was missing before may be another user's now.
    if spec.agent is not None:
        reason = _refusal_on_node(spec, spec.agent, environ) or absence
    else:
        reason = changed_owner(paths, spec.path_owners) or absence
    if reason is not None:
        raise GmgError(reason, 1)


def _refusal_on_node(spec: RunSpec, agent: AgentSpec, environ: Mapping[str, str]) -> str | None:
    caches.make_caches(environ, spec.cwd)
    optional = *argument_paths(spec), *map(str, caches.cache_folders(environ, spec.cwd))
    return (
        refusal_of_any(code_paths(spec), agent.owners)
        or refusal_of_any((spec.cwd,), (*agent.owners, *agent.cwd_owners))
        or refusal_of_any(optional, agent.owners, optional=True)
    )


def _absence(path: str) -> str | None:
    """Returns how `path` is missing or closed to this user; None if it is not."""
    try:
        Path(path).stat()
    except OSError as error:
        return f"{path} is missing" if isinstance(error, MISSING) else f"{path} cannot be used: {error.strerror}"
    return None
