"""Why a rank failed, where it has recorded the exception that its log does not show."""

from __future__ import annotations

from gmg_tui.ddp.error_file import Recorded
from gmg_tui.genesis.output.failures import SEE_LOG, Failure, FailureKind, explain
from gmg_tui.text import clean

_VAGUE = frozenset({FailureKind.UNKNOWN, FailureKind.KILLED})
"""The log tells no more than how the process ended."""
_MAX_TEXT = 200
_SEE_FILE = "it will fail again in this way: its error.json, in the session's folder ranks, has the traceback"


def is_vague(failure: Failure) -> bool:
    """Whether a recorded exception says more: its script prints none, and what follows it only ends the process."""
    return failure.kind in _VAGUE


def explain_recorded(recorded: Recorded) -> Failure:
    """Why the script failed."""
    lines = [line for text in (recorded.traceback, recorded.message) for line in _lines(text)]
    failure = explain(1, lines)
    if failure.kind is FailureKind.UNKNOWN:
        first = clean(_lines(recorded.message)[0]).strip()
        failure = Failure(FailureKind.SCRIPT, first[:_MAX_TEXT], SEE_LOG)
    return failure._replace(advice=_SEE_FILE) if failure.advice == SEE_LOG else failure


def _lines(text: str) -> list[bytes]:
    return [line.encode(errors="replace") for line in text.splitlines() if line.strip()]
