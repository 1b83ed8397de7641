"""Checks before each attempt that the workers' code is still the one with which the session was started."""

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from gmg_tui.machine.ownership import MISSING, changed_owner, refusal_of_any
from gmg_tui.model import RunSpec
from gmg_tui.model.errors import GmgError, NotReadyError
from gmg_tui.scripts.genesis import caches
from gmg_tui.scripts.interpreter import code_paths, import_paths_of, library_paths, script_folder, start_paths

_MAX_WAIT_S = 600.0
"""Seconds for which jobs wait for the code, whose folder may be moved or mounted."""


class CodeCheck:
    """Checks the files that a session's workers run on this machine: that they are there, and who owns them."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._refused_since: float | None = None
        """Monotonic seconds; None if the last check found nothing."""

    def check(self, env: Mapping[str, str], library_owners: Iterable[str] = ()) -> None:
        """Raises `NotReadyError` if files are missing, or have other owners than at the session's start or on its machine.

        On a node's own scratch disk, for example, anyone may have created a user's missing folder. `env` is the workers'
        extra environment, and `library_owners` own what it names on the session's machine. Raises `GmgError` instead if it
        lasts for `_MAX_WAIT_S`.
        """
        paths, now = start_paths(self._spec), time.monotonic()
        absence = next(filter(None, map(_absence, paths)), None)
        # Looked at last: what was missing before may be another user's now.
        if self._spec.agent is not None:
            reason = self._refusal_on_node(env, tuple(library_owners)) or absence
        else:
            reason = changed_owner(paths, self._spec.path_owners) or absence
        if reason is None:
            self._refused_since = None
        else:
            self._refused_since = self._refused_since or now
            raise (NotReadyError if now < self._refused_since + _MAX_WAIT_S else GmgError)(reason, 1)

    def _refusal_on_node(self, env: Mapping[str, str], library_owners: tuple[str, ...]) -> str | None:
        spec, agent = self._spec, self._spec.agent
        assert agent is not None
        module, environ = spec.script if spec.module else None, os.environ | env
        caches.make_caches(environ, spec.cwd)
        imports = import_paths_of(spec.python, script_folder(spec), module, environ)
        return (
            refusal_of_any(code_paths(spec), agent.owners)
            or refusal_of_any((spec.cwd,), (*agent.owners, *agent.cwd_owners))
            or refusal_of_any(agent.import_paths, agent.owners, optional=True)
            or refusal_of_any(library_paths(env), (*agent.owners, *library_owners), optional=True)
            or refusal_of_any(imports, (*agent.owners, *library_owners), optional=True)
            or refusal_of_any(map(str, caches.cache_folders(environ, spec.cwd)), agent.owners, optional=True)
        )


def _absence(path: str) -> str | None:
    """Returns how `path` is missing; None if it is not. Raises `GmgError` if this user may not look at it."""
    try:
        Path(path).stat()
    except PermissionError as error:
        raise GmgError(f"{path} cannot be used: {error.strerror}", 1) from error
    except OSError as error:
        return f"{path} is missing" if isinstance(error, MISSING) else f"{path} cannot be used: {error.strerror}"
    return None
