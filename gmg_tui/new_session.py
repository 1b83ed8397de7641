"""The folder of a session that is about to begin: its name, and whose it is."""

from __future__ import annotations

import re
from pathlib import Path

from gmg_tui import claims
from gmg_tui import session as sessions
from gmg_tui.errors import GmgError
from gmg_tui.files import make_private

_SUFFIX = re.compile(r"\.(?:pyw?|sh|toml|json|ya?ml)$")
"""Of a script or an experiments file."""


def create(name: str | None, script: str) -> tuple[str, Path]:
    """Make the folder of a session called `name`, or `script` and the first free number.

    Returns:
        The session's name, and its folder with the folder for logs in it, both private to this user (mode 0700).

    Raises:
        GmgError: The name is taken, or the state folder cannot be written.
    """
    parent = sessions.sessions_folder()
    try:
        make_private(parent)
        if name is not None:
            folder = parent / sessions.check_name(name)
            if not _made(folder) and not _taken_over(folder):
                raise GmgError(f"--name {name}: there already is a session of that name ({folder}); choose another")
        else:
            folder = _numbered(parent, script)
        (folder / sessions.LOGS).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise GmgError(f"cannot write to the state folder {parent}: {error.strerror}; set XDG_STATE_HOME", 1) from error
    return folder.name, folder


def _made(folder: Path) -> bool:
    """Make and claim a session's folder. Returns whether that succeeded. Raises `OSError`."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return claims.claim(folder) is not False  # another process may have taken it over in between


def _taken_over(folder: Path) -> bool:
    """Claim a folder that a killed launcher has left without a session. Returns whether that succeeded."""
    if not folder.is_dir() or not _is_unused(folder) or not claims.claim(folder):
        return False
    if not _is_unused(folder):
        return False  # its launcher has handed it to an engine just before
    for left in folder.iterdir():
        if left.name != sessions.LOGS:
            left.unlink(missing_ok=True)
    return True


def _is_unused(folder: Path) -> bool:
    """Whether a folder holds no more than what a launcher prepares there: no engine has begun in it."""
    prepared = all(left.name == sessions.LOGS or left.name.startswith(sessions.STORE) for left in folder.iterdir())
    return prepared and not any((folder / sessions.LOGS).glob("*"))


def _numbered(parent: Path, script: str) -> Path:
    # A module's last part is no suffix: torch.distributed.run.
    named = _SUFFIX.sub("", Path(script).name)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", named).strip("-._")[:30] or "session"
    taken = {entry.name for entry in parent.iterdir()}
    number = 1
    while True:
        folder = parent / f"{stem}-{number}"
        if folder.name not in taken and _made(folder):  # else another gmg-tui was faster
            return folder
        number += 1
