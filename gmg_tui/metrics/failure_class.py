"""The class of a failure by its reason, which is all that a store keeps of it."""

from __future__ import annotations

import re

from gmg_tui.genesis.output.failure_signs import FailureKind, sign_of

TIMEOUT = "timeout"
"""The class of attempts that took longer than they may."""
_RANK = re.compile(r"rank \d+: ")
_BEGINNINGS: tuple[tuple[str, str], ...] = (
    (r"timed out after", TIMEOUT),
    (r"ended with the group|the group was stuck", FailureKind.GROUP.value),
    (r"out of memory", FailureKind.MEMORY.value),
    (r"(the )?GPU .*(lost|not there)", FailureKind.DEVICE.value),
    (r".*driver.*\banswer", FailureKind.DRIVER.value),
)
"""The beginnings of what the engine says itself."""
_KILLED = re.compile(r"Killed by ")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Fault|Warning)\b")


def failure_class(reason: str) -> str:
    """The class: `out of memory`, `killed` …, a value of `FailureKind`, or `timeout`."""
    text = _RANK.sub("", reason, count=1)
    for beginning, name in _BEGINNINGS:
        if re.match(beginning, text):
            return name
    if (sign := sign_of(text.encode(errors="replace"))) is not None:
        return sign.kind.value
    if _KILLED.match(text):
        return FailureKind.KILLED.value
    return (FailureKind.SCRIPT if _EXCEPTION.match(text) else FailureKind.UNKNOWN).value
