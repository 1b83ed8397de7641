"""How serious lines are, and how many warnings and errors are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.genesis.output import log_text
from gmg_tui.genesis.output.log_text import Severity
from gmg_tui.genesis.output.reader import MOST, Reader, Remarks
from gmg_tui.text import clean
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
    found = log_text.head(line)
    assert found is not None
    assert (found.clock, found.level) == (clock, level)
    assert log_text.without_head(line) == line[found.length :] == rest


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
def test_how_serious_a_line_is(line: str, severity: Severity) -> None:
    assert log_text.severity(line) is severity


def _counted(*blocks: bytes) -> tuple[int, int]:
    remarks = Remarks()
    for block in blocks:
        remarks.read(block)
    return remarks.warnings, remarks.errors


def test_an_exception_counts_once_and_another_after_it_too() -> None:
    assert _counted(TRACEBACK) == (0, 1)
    assert _counted(TRACEBACK, REPEATED) == (0, 1)
    assert _counted(TRACEBACK, REPEATED, REPEATED) == (0, 2)
    assert _counted(REPEATED) == (0, 1)
    assert _counted(TRACEBACK, TRACEBACK) == (0, 2)


def test_an_interrupt_is_no_error() -> None:
    stopped = b"Traceback (most recent call last):\n  File x\nKeyboardInterrupt\n\n"
    logged = b"[Genesis] [07:00:02] [ERROR] KeyboardInterrupt: \n"
    assert _counted(stopped) == _counted(stopped, logged) == _counted(stopped + logged) == (0, 0)
    assert _counted(stopped + logged + TRACEBACK) == (0, 1)


def test_no_more_are_counted_than_anyone_needs() -> None:
    block = b"UserWarning: x\n" * 1000
    assert _counted(*[block] * 12, TRACEBACK) == (MOST, 1)


@pytest.mark.parametrize("log", LOGS, ids=[log.name for log in LOGS])
def test_real_output_is_counted_as_it_is_coloured_however_it_is_cut(log: Path) -> None:
    data = log.read_bytes()
    found = [log_text.severity(clean(line)) for line in data.splitlines()]
    whole = Reader(True)
    whole.feed(data, 0.0)
    each = Reader(True)
    for line in data.splitlines(keepends=True):
        each.feed(line, 0.0)
    assert whole.remarks.warnings == each.remarks.warnings == found.count(Severity.WARNING)
    assert whole.remarks.errors == each.remarks.errors == 0
