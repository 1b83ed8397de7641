"""Checks before each attempt that the workers' code is still the one with which the session was started."""

from pathlib import Path

from gmg_tui.machine.ownership import MISSING, changed_owner, refusal
from gmg_tui.model import AgentSpec, RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.interpreter import code_paths, start_paths


def check_code(spec: RunSpec) -> None:
    """Raises `GmgError` if the workers' files are missing, or have other owners than at the session's start or on its machine.

    On a node's own disk, for example, anyone may have created a user's missing folder.
    """
    paths = start_paths(spec)
    absence = next(filter(None, map(_absence, paths)), None)
    # Looked at last: what was missing before may be another user's now.
    reason = changed_owner(paths, spec.path_owners) if spec.agent is None else _refusal_on_node(spec, spec.agent)
    if reason is not None or absence is not None:
        raise GmgError(reason or absence or "", 1)


def _refusal_on_node(spec: RunSpec, agent: AgentSpec) -> str | None:
    trusted = [*((path, agent.owners) for path in code_paths(spec)), (spec.cwd, (*agent.owners, *agent.cwd_owners))]
    return next(filter(None, (refusal(Path(path), marks) for path, marks in trusted)), None)


def _absence(path: str) -> str | None:
    """Returns how `path` is missing or closed to this user; None if it is not."""
    try:
        Path(path).stat()
    except OSError as error:
        return f"{path} is missing" if isinstance(error, MISSING) else f"{path} cannot be used: {error.strerror}"
    return None
