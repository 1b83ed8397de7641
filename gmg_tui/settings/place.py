"""Where the file is. Each start asks: nothing is imported for it that reads one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_VARIABLE = "GMG_TUI_CONFIG"


def is_there(file: Path) -> bool:
    """Whether there is a file to read. One in a folder that may not be looked into, as after `sudo -u`, is another user's."""
    try:
        file.stat()
    except OSError:
        return False
    return True


def path(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where the file is, whether it exists or not: where `GMG_TUI_CONFIG` says, None if that is empty, or in `~/.config`.

    It is found without platformdirs, whose import would cost each start more than the look at the file.
    """
    named = environ.get(_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    # A path that is not absolute is to be ignored: XDG Base Directory Specification 0.8.
    folder = environ.get("XDG_CONFIG_HOME", "")
    return Path(folder if folder.startswith("/") else os.path.expanduser("~/.config"), "gmg-tui", "config.toml")  # noqa: PTH111
