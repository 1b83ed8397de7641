"""Whether logging out ends what runs: systemd-logind's policy, and where this shell is in it."""

from __future__ import annotations

import re
from pathlib import Path

from gmg_tui.commands.doctor.finding import Finding, ok, warn

_LINGER = "loginctl enable-linger"
_SCOPE = "systemd-run --user --scope gmg-tui SCRIPT"
_TRUE = frozenset({"1", "yes", "y", "true", "t", "on"})
"""As systemd reads a boolean (systemd.syntax(7))."""


def policy(user: str, uid: int, root: Path = Path("/")) -> Finding:
    """Whether a session started here outlives the login.

    A login's own processes end with it where logind says `KillUserProcesses=yes` (logind.conf(5)); those of the user's
    manager, `user@UID.service`, end with the last login unless the user lingers (loginctl(1)).

    Args:
        user: The user's name.
        uid: The user's number.
        root: The folder that stands for `/`.
    """
    if not (root / "run/systemd/system").is_dir():
        return ok("logout", "no systemd here that would end processes")
    lingers = (root / "var/lib/systemd/linger" / user).exists()
    group = _read(root / "proc/self/cgroup")
    if f"user@{uid}.service" in group:
        if lingers:
            return ok("logout", f"this shell is the user manager's, and {user} lingers: sessions go on")
        return warn(
            "logout", "ends sessions: this shell is the user manager's, which ends with the last login", _LINGER
        )
    if not re.search(r"session-\w+\.scope", group):
        return ok("logout", "this shell belongs to no login: sessions go on")
    if not _kills(user, root):
        return ok("logout", "logind leaves processes alone (KillUserProcesses=no): sessions go on")
    advice = _SCOPE if lingers else f"{_LINGER}, once; then start with {_SCOPE}"
    return warn("logout", "ends sessions: logind kills what a login has started (KillUserProcesses=yes)", advice)


def _kills(user: str, root: Path) -> bool:
    settings = _settings(root)
    if settings.get("KillUserProcesses", "no").lower() not in _TRUE:
        return False
    only = settings.get("KillOnlyUsers", "").split()
    return user not in settings.get("KillExcludeUsers", "root").split() and (not only or user in only)


def _settings(root: Path) -> dict[str, str]:
    """What logind.conf and its drop-ins say; of what is commented out it says the default, which distributions choose."""
    main = next(
        filter(None, (_read(root / folder / "systemd/logind.conf") for folder in ("etc", "run", "usr/lib"))), ""
    )
    drop_ins: dict[str, Path] = {}
    for folder in ("usr/lib", "usr/local/lib", "run", "etc"):  # the later hides the earlier's files of the same name
        drop_ins |= {path.name: path for path in (root / folder / "systemd/logind.conf.d").glob("*.conf")}
    found = dict(re.findall(r"^#(\w+)=(.*?)\s*$", main, re.MULTILINE))
    for text in (main, *(_read(drop_ins[name]) for name in sorted(drop_ins))):
        found |= dict(re.findall(r"^\s*(\w+)\s*=\s*(.*?)\s*$", text, re.MULTILINE))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
