"""Whether logging out ends running sessions: systemd-logind's policy, and this shell's place in it."""

from __future__ import annotations

import re
from pathlib import Path

from gmg_tui.commands.doctor.finding import Finding, ok, warn

_LINGER = "loginctl enable-linger"
_SCOPE = "systemd-run --user --scope gmg-tui SCRIPT"
_TRUE = frozenset({"1", "yes", "y", "true", "t", "on"})
"""Booleans of systemd (systemd.syntax(7))."""


def policy(user: str, uid: int, root: Path = Path("/")) -> Finding:
    """Whether a session started here outlives the login.

    A login's own processes end with it where logind says `KillUserProcesses=yes` (logind.conf(5)); those of the user's
    manager, `user@UID.service`, end with the last login unless the user lingers (loginctl(1)).
    """
    if not (root / "run/systemd/system").is_dir():
        return ok("logout", "no systemd that would end processes")
    lingers = (root / "var/lib/systemd/linger" / user).exists()
    group = _read(root / "proc/self/cgroup")
    if f"user@{uid}.service" in group:
        if lingers:
            return ok("logout", f"this shell belongs to the user manager, and {user} lingers: sessions keep running")
        return warn(
            "logout", "ends sessions: this shell belongs to the user manager, which ends with the last login", _LINGER
        )
    if not re.search(r"session-\w+\.scope", group):
        return ok("logout", "this shell belongs to no login: sessions keep running")
    if not _kills(user, root):
        return ok("logout", "logind leaves processes alone (KillUserProcesses=no): sessions keep running")
    advice = _SCOPE if lingers else f"{_LINGER}, once; then start with {_SCOPE}"
    return warn("logout", "ends sessions: logind kills the processes of a login (KillUserProcesses=yes)", advice)


def _kills(user: str, root: Path) -> bool:
    settings = _settings(root)
    if settings.get("KillUserProcesses", "no").lower() not in _TRUE:
        return False
    only = settings.get("KillOnlyUsers", "").split()
    return user not in settings.get("KillExcludeUsers", "root").split() and (not only or user in only)


def _settings(root: Path) -> dict[str, str]:
    """The settings of logind.conf and its drop-ins; the comments of the former have the distribution's defaults."""
    main = next(
        filter(None, (_read(root / folder / "systemd/logind.conf") for folder in ("etc", "run", "usr/lib"))), ""
    )
    drop_ins: dict[str, Path] = {}
    for folder in ("usr/lib", "usr/local/lib", "run", "etc"):  # later folders hide files of the same name
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
