"""Secrets in environment variables: which variables hold one, and what is shown in its place."""

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
    """Returns the value of a variable as it may be shown: `MASK` if its name sounds like a secret."""
    return MASK if value and not _shown and sounds_secret(name) else value


def mask(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables as they may be shown."""
    return {name: masked(name, value) for name, value in variables.items()}


def unmask(variables: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Returns variables that were masked and edited, with the values from `before` where the mask still stands."""
    return {name: before.get(name, value) if value == MASK else value for name, value in variables.items()}
