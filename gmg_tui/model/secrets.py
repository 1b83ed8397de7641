"""Masks secrets in environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "***"
_NAME = re.compile("KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE", re.IGNORECASE)
_shown = False


def show() -> None:
    """Shows all values in this process from now on (`--show-env`)."""
    global _shown
    _shown = True


def sounds_secret(name: str) -> bool:
    """True if a variable or option of that name may hold a secret."""
    return _NAME.search(name) is not None


def masked(name: str, value: str) -> str:
    """Returns the value of a variable, or `MASK` if its name sounds like a secret."""
    return MASK if value and not _shown and sounds_secret(name) else value


def mask(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables with secrets masked."""
    return {name: masked(name, value) for name, value in variables.items()}


def unmask(variables: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Returns edited variables with each remaining mask replaced by the value from `before`."""
    return {name: before.get(name, value) if value == MASK else value for name, value in variables.items()}
