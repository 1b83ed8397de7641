"""Checks before each attempt that the workers' code is still the one with which the session was started."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gmg_tui.machine.folders import distrust, make_private
from gmg_tui.machine.ownership import MISSING, changed_owner, refusal, refusal_of_any
from gmg_tui.model import AgentSpec, RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis import caches
from gmg_tui.scripts.interpreter import (
    argument_paths,
    code_paths,
    import_paths_of,
    library_paths,
    script_folder,
    start_paths,
)


def check_code(spec: RunSpec, env: Mapping[str, str], library_owners: Iterable[str] = ()) -> None:
    """Raises `GmgError` if the workers' files are missing, or have other owners than at the session's start or on its machine.

    On a node's own scratch disk, for example, anyone may have created a user's missing folder. `env` is the workers'
    extra environment, and `library_owners` own what it names on the session's machine.
    """
    paths = start_paths(spec)
    absence = next(filter(None, map(_absence, paths)), None)
    # Looked at last: what was missing before may be another user's now.
    if spec.agent is not None:
        reason = _refusal_on_node(spec, spec.agent, env, tuple(library_owners)) or absence
    else:
        reason = changed_owner(paths, spec.path_owners) or absence
    if reason is not None:
        raise GmgError(reason, 1)


def _refusal_on_node(
    spec: RunSpec, agent: AgentSpec, env: Mapping[str, str], library_owners: tuple[str, ...]
) -> str | None:
    module, environ = spec.script if spec.module else None, os.environ | env
    _make_linked(agent.import_paths)
    reason = (
        refusal_of_any(code_paths(spec), agent.owners)
        or refusal_of_any((spec.cwd,), (*agent.owners, *agent.cwd_owners))
        or refusal_of_any(argument_paths(spec), agent.owners, optional=True)
        or _import_refusal(agent, agent.import_paths)
        or refusal_of_any(library_paths(env), (*agent.owners, *library_owners), optional=True)
    )
    if reason is not None:
        return reason
    caches.make_caches(environ, spec.cwd)
    # Only now: this runs the interpreter.
    imports = import_paths_of(spec.python, script_folder(spec), module, environ, spec.cwd)
    _make_linked(imports)
    return _import_refusal(agent, imports, library_owners) or refusal_of_any(
        map(str, caches.cache_folders(environ, spec.cwd)), agent.owners, optional=True
    )


def _import_refusal(agent: AgentSpec, paths: Iterable[str], owners: tuple[str, ...] = ()) -> str | None:
    """Returns the first `refusal` of one of the import paths, each trusted with its own owners on the session's machine."""
    trusted = (*agent.owners, *owners)
    refusals = (
        refusal(Path(path), (*trusted, *agent.import_paths.get(path, ())), optional=True) for path in sorted({*paths})
    )
    return next(filter(None, refusals), None)


def _make_linked(paths: Iterable[str]) -> None:
    """Tries to create the missing folders to which links lead that another user could create first."""
    for target in (Path(path).resolve() for path in paths if os.path.islink(path) and not os.path.exists(path)):
        with suppress(OSError):
            if not target.suffix and distrust(target) is not None:
                make_private(target)


def _absence(path: str) -> str | None:
    """Returns how `path` is missing or closed to this user; None if it is not."""
    try:
        Path(path).stat()
    except OSError as error:
        return f"{path} is missing" if isinstance(error, MISSING) else f"{path} cannot be used: {error.strerror}"
    return None
