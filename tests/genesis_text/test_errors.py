"""The heads and the severity of lines."""

from __future__ import annotations

import pytest

from gmg_tui.genesis.output import log_text
from gmg_tui.genesis.output.log_text import Severity


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
