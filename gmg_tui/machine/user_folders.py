"""The user's folders, by the XDG base directory specification, which has relative paths ignored."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Returns `HOME`, else the home of the passwd entry; None without either, as for an arbitrary user of a container."""
    folder = environ.get("HOME", "")
    return Path(folder) if folder.startswith("/") else passwd_home()


def passwd_home() -> Path | None:
    """Returns the home of the user's passwd entry; None without one."""
    with suppress(KeyError):
        folder = pwd.getpwuid(os.getuid()).pw_dir
        return Path(folder) if folder.startswith("/") else None
    return None


def config_folder() -> Path | None:
    """Returns `XDG_CONFIG_HOME`, else `~/.config`; None without a home folder."""
    return _folder("XDG_CONFIG_HOME", ".config")


def state_folder() -> Path | None:
    """Returns `XDG_STATE_HOME`, else `~/.local/state`; None without a home folder."""
    return _folder("XDG_STATE_HOME", ".local/state")


def _folder(variable: str, below_home: str) -> Path | None:
    given = os.environ.get(variable, "")
    if given.startswith("/"):
        return Path(given)
    folder = home()
    return folder / below_home if folder is not None else None


def user_name(uid: int) -> str:
    """Returns a user's name, or the number without a passwd entry."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def is_utf8(path: Path | str) -> bool:
    """True if a path can be encoded as UTF-8, unlike names from another encoding."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
