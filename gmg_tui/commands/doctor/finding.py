"""The result of a check."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """The verdict of a finding, as it is printed."""

    OK = "ok"
    WARN = "warn"
    """It works, but not as well as it could, or not always."""
    FAIL = "FAIL"
    """A plain run fails because of this."""


class Finding(Struct, frozen=True):
    """One line of `gmg-tui doctor`."""

    check: str
    """What was checked, in a word or two."""
    verdict: Verdict
    found: str
    advice: str | None = None
    """What to do; None where there is nothing to do."""


def ok(check: str, found: str) -> Finding:
    """A finding without a problem."""
    return Finding(check, Verdict.OK, found)


def warn(check: str, found: str, advice: str | None) -> Finding:
    """A finding that a run survives."""
    return Finding(check, Verdict.WARN, found, advice)


def fail(check: str, found: str, advice: str | None) -> Finding:
    """A plain run fails because of this."""
    return Finding(check, Verdict.FAIL, found, advice)
