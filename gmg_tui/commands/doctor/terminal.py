"""The terminal for the screen."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from os import terminal_size

from gmg_tui.commands.doctor.finding import Finding, ok, warn
from gmg_tui.commands.interactive import MIN_COLUMNS, MIN_ROWS

_ANSWER_S = 2.0
_TRUE_COLOUR = frozenset({"truecolor", "24bit"})
_UTF8 = re.compile(r"utf-?8", re.IGNORECASE)
_SYNCHRONISED = (3, 5)
"""The first tmux with synchronized output (DEC private mode 2026)."""


def screen(environ: Mapping[str, str], size: terminal_size | None) -> Finding:
    """Whether the screen can be drawn here; `size` is None without a terminal."""
    if size is None:
        return ok("terminal", "none: a run prints lines (--headless)")
    term = environ.get("TERM", "")
    found = f"TERM={term}, {size.columns} by {size.lines}"
    if term in {"", "dumb"}:
        return warn(
            "terminal", f"TERM is {term or 'not set'}: the screen cannot be drawn", "set TERM, or use --headless"
        )
    if size.columns < MIN_COLUMNS or size.lines < MIN_ROWS:
        return warn("terminal", found, f"make it at least {MIN_COLUMNS} by {MIN_ROWS}; 80 by 24 shows more")
    return ok("terminal", found)


def colours(environ: Mapping[str, str]) -> Finding:
    """How many colours the terminal claims to have."""
    if environ.get("NO_COLOR"):
        return ok("colours", "none, because of NO_COLOR")
    if environ.get("COLORTERM", "").lower() in _TRUE_COLOUR:
        return ok("colours", "16 million")
    term = environ.get("TERM", "")
    if "256color" in term or "direct" in term:
        return ok("colours", "256")
    return warn(
        "colours",
        f"16 or fewer, according to TERM={term}",
        "TERM=xterm-256color if the terminal has more; else --theme ansi",
    )


def encoding(environ: Mapping[str, str]) -> Finding:
    """Whether the terminal can show more than ASCII."""
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), None)
    found = f"{name}={environ[name]}" if name else "no locale is set"
    if name and _UTF8.search(environ[name]):
        return ok("encoding", found)
    return warn("encoding", found, "export LC_ALL=C.UTF-8, or use --ascii")


def multiplexer(environ: Mapping[str, str]) -> Finding:
    """Whether tmux or GNU screen is in between, which redraws the screen itself."""
    if environ.get("TMUX"):
        version = _tmux_version(environ)
        found = f"tmux {version or 'of unknown version'}"
        numbers = re.search(r"(\d+)\.(\d+)", version)
        if numbers and (int(numbers[1]), int(numbers[2])) < _SYNCHRONISED:
            return warn(
                "multiplexer", f"{found}: frames may tear", "tmux 3.5 draws them whole; sessions do not need tmux"
            )
        return ok("multiplexer", found)
    if environ.get("STY"):
        return warn(
            "multiplexer", "GNU screen: frames may tear", "sessions do not need it: detaching leaves them running"
        )
    return ok("multiplexer", "none; sessions do not need one: detaching leaves them running, gmg-tui attach returns")


def ssh(environ: Mapping[str, str]) -> Finding:
    """Whether the terminal is on another machine."""
    if not environ.get("SSH_CONNECTION") and not environ.get("SSH_TTY"):
        return ok("ssh", "no")
    lacks = "" if environ.get("COLORTERM") else "; COLORTERM was not passed on, so 256 colours are used"
    return ok("ssh", f"yes{lacks}")


def _tmux_version(environ: Mapping[str, str]) -> str:
    """The server's version, where it reports it (3.2 and later); else that of the program in PATH."""
    if environ.get("TERM_PROGRAM") == "tmux":
        return environ.get("TERM_PROGRAM_VERSION", "")
    program = shutil.which("tmux", path=environ.get("PATH"))
    if program is None:
        return ""
    try:
        done = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().removeprefix("tmux ")
