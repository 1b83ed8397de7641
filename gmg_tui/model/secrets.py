"""Masks secrets in environment variables, and in this process's arguments, which `ps` shows to all users."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MASK = "***"
_SECRET_NAME = re.compile(
    "KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|SSHPASS|(?<![A-Z])(?:PASS|PWD|AUTH|SIG)(?![A-Z])|SIGNATURE|AUTHORI[ZS]ATION|CREDENTIAL|COOKIE",
    re.IGNORECASE,
)
KNOWN_FORMS = (
    r"\b(?:Bearer|Basic|Negotiate)\s{1,8}[\w.+/=~-]{8,}"  # of an HTTP header
    r"|(?i:(?<=\bcookie:)|(?<=\bauthorization[:=]))[^\r\n\"']{1,4000}"
    r"|(?<=://)[^\s/?#\"']{1,200}@"  # of a URL: user and password, which may contain `@`
    r"|\b(?:gh[a-z]_|github_pat_|glpat-|hf_|npm_|pypi-|sk[-_]|xox[a-z]-|AIza|AKIA|ASIA)[\w-]{10,}"
    r"|\b(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/[\w/-]{10,}|\bbot\d{6,}:[\w-]{20,}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----END).|\n){0,8000}"
)
"""Matches secrets with a known form."""
_unmasked = False
_ENV_OPTION = re.compile(rb"(?<=\0)(?:--env=|--env\0)([^=\0]+)=([^\0]+)")
_NOTIFY_OPTION = re.compile(rb"(?<=\0)(?:--notify=|--notify\0)(?!(?:bell|osc9|osc777)\0)([^\0]+)")
"""Matches a command, which may name the secret address of a webhook."""


def disable_masking() -> None:
    """Disables masking in this process (`--show-env`)."""
    global _unmasked
    _unmasked = True


def sounds_secret(name: str) -> bool:
    """True if a variable or option of that name may hold a secret."""
    return _SECRET_NAME.search(name) is not None


def mask_value(name: str, value: str) -> str:
    """Returns the value of a variable, or `MASK` if its name sounds like a secret, or the value looks like one."""
    is_secret = value and (sounds_secret(name) or re.search(KNOWN_FORMS, value))
    return MASK if is_secret and not _unmasked else value


def mask(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables with secrets masked."""
    return {name: mask_value(name, value) for name, value in variables.items()}


def unmask(variables: Mapping[str, str], original: Mapping[str, str]) -> dict[str, str]:
    """Returns edited variables with each remaining mask replaced by the `original` value."""
    return {name: original.get(name, value) if value == MASK else value for name, value in variables.items()}


def hide_arguments() -> None:
    """Overwrites what may be secrets, of `--env` and `--notify`, in the kernel's copy of the arguments (proc(5))."""
    with suppress(OSError, ValueError, IndexError):
        stat = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        start, end = int(stat[45]), int(stat[46])  # arg_start and arg_end
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            arguments = memory.read(end - start)
            hidden = [match.span(1) for match in _NOTIFY_OPTION.finditer(arguments)]
            for match in _ENV_OPTION.finditer(arguments):
                name, value = (group.decode(errors="replace") for group in match.groups())
                if mask_value(name, value) == MASK:
                    hidden.append(match.span(2))
            for first, last in hidden:
                memory.seek(start + first)
                memory.write(b"*" * (last - first))
