"""What one check has found."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """How a finding is meant, in the word that is printed."""

    OK = "ok"
    WARN = "warn"
    """Something works less well than it could, or not in all cases."""
    FAIL = "FAIL"
    """A plain run stops at this."""


class Finding(Struct, frozen=True):
    """One line of `gmg-tui doctor`."""

    check: str
    """What was looked at, in a word or two."""
    verdict: Verdict
    found: str
    advice: str | None = None
    """What to do; None where there is nothing to do."""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, Verdict.OK, found)


def warn(check: str, found: str, advice: str | None) -> Finding:
    """It goes, but not as it should."""
    return Finding(check, Verdict.WARN, found, advice)


def fail(check: str, found: str, advice: str | None) -> Finding:
    """A plain run stops at this."""
    return Finding(check, Verdict.FAIL, found, advice)
