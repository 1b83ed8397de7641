"""The severity of lines, and the error count."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.genesis.output import log_text
from gmg_tui.genesis.output.log_text import Severity
from gmg_tui.genesis.output.reader import MOST, Errors, Reader
from tests.genesis_text.samples import LOGS

TRACEBACK = b"""Traceback (most recent call last):
  File "/home/me/sim.py", line 3, in <module>
    raise ValueError("ERROR in the Warning: of x")
ValueError: ERROR in the Warning: of x
"""
REPEATED = b"[Genesis] [07:00:02] [ERROR] ValueError: ERROR in the Warning: of x\n"


@pytest.mark.parametrize(
    ("line", "clock", "level", "rest"),
    [
        ("[Genesis] [07:00:34] [WARNING] Neutral.", "07:00:34", "WARNING", "Neutral."),
        ("[Genesis] [26-11-21 07:00:34.123] [INFO] x", "07:00:34.123", "INFO", "x"),
        ("[Genesis 07:00:34] x", "07:00:34", "INFO", "x"),
        ("[Genesis 07:00:34 ERROR] x", "07:00:34", "ERROR", "x"),
    ],
)
def test_the_head_of_a_line_in_every_form(line: str, clock: str, level: str, rest: str) -> None:
    prefix = log_text.head(line)
    assert prefix is not None
    assert (prefix.clock, prefix.level) == (clock, level)
    assert log_text.without_head(line) == line[prefix.length :] == rest


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("[Genesis] [07:00:34] [WARNING] ERROR", Severity.WARNING),
        ("[Genesis] [07:00:34] [INFO] no Warning: at all", Severity.NONE),
        ("[Genesis] [07:00:34] [CRITICAL] x", Severity.ERROR),
        ("/opt/x.py:12: UserWarning: x", Severity.WARNING),
        ("WARNING:root:x", Severity.WARNING),
        ("[W 11/21/26 06:55:54.676 8640] [frontend_ir.cpp:x@1] y", Severity.WARNING),
        ("Traceback (most recent call last):", Severity.ERROR),
        ("genesis.GenesisException: x", Severity.ERROR),
        ("ERROR: x", Severity.ERROR),
        ("errors so far: 0", Severity.NONE),
        ("the Error is gone", Severity.NONE),
    ],
)
def test_severity_of_lines(line: str, severity: Severity) -> None:
    assert log_text.severity(line) is severity


def _counted(*blocks: bytes) -> int:
    errors = Errors()
    for block in blocks:
        errors.read(block)
    return errors.count


def test_each_exception_counts_once() -> None:
    assert _counted(TRACEBACK) == 1
    assert _counted(TRACEBACK, REPEATED) == 1
    assert _counted(TRACEBACK, REPEATED, REPEATED) == 2
    assert _counted(REPEATED) == 1
    assert _counted(TRACEBACK, TRACEBACK) == 2


def test_an_interrupt_is_not_an_error() -> None:
    stopped = b"Traceback (most recent call last):\n  File x\nKeyboardInterrupt\n\n"
    logged = b"[Genesis] [07:00:02] [ERROR] KeyboardInterrupt: \n"
    assert _counted(stopped) == _counted(stopped, logged) == _counted(stopped + logged) == 0
    assert _counted(stopped + logged + TRACEBACK) == 1


def test_the_error_count_is_bounded() -> None:
    assert _counted(*[b"ERROR: x\n" * 1000] * 12, TRACEBACK) == MOST


@pytest.mark.parametrize("log", LOGS, ids=[log.name for log in LOGS])
def test_output_of_successful_runs_has_no_errors_however_it_is_split(log: Path) -> None:
    data = log.read_bytes()
    whole = Reader(True)
    whole.feed(data, 0.0)
    each = Reader(True)
    for line in data.splitlines(keepends=True):
        each.feed(line, 0.0)
    assert whole.errors.count == each.errors.count == 0
