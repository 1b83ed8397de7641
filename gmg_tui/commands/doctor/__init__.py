"""`doctor`: what this machine has and lacks for a run.

One module for each subject, one function for each check. A check is given what it judges (an environment, a folder that
stands for `/`, what NVML or torch said), so that it can be asked about a machine that is not this one.
"""

from __future__ import annotations

import os
import sys
import textwrap
from contextlib import AbstractContextManager, nullcontext

import msgspec

from gmg_tui.commands.doctor.examine import examine
from gmg_tui.commands.doctor.finding import Finding, Verdict
from gmg_tui.commands.options import python as checked_python
from gmg_tui.commands.tell import notice

_CHECK_COLUMNS = 13


def doctor(python: str | None, *, as_json: bool) -> int:
    """Print what was found, check after check; 1 when a plain run would stop at something, else 0.

    Args:
        python: The workers' interpreter; None for the one that a run would take.
        as_json: Print a list of all findings at the end instead.

    Raises:
        GmgError: `python` is no interpreter.
    """
    findings = []
    size = _size()
    for finding in examine(checked_python(python, os.environ), os.environ, size, _silence if as_json else notice):
        findings.append(finding)
        if not as_json:
            print(_line(finding, size.columns if size else None), flush=True)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode())
    return int(any(finding.verdict is Verdict.FAIL for finding in findings))


def _silence(_: str) -> AbstractContextManager[None]:
    return nullcontext()


def _size() -> os.terminal_size | None:
    try:
        return os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return None


def _line(finding: Finding, columns: int | None) -> str:
    """The finding as one line; on a terminal it goes on below its own beginning."""
    advice = f"; {finding.advice}" if finding.advice else ""
    head = f"{finding.verdict:<4}  {finding.check:<{_CHECK_COLUMNS}}  "
    text = f"{finding.found}{advice}"
    if columns is None or columns < 2 * len(head):
        return head + text
    return textwrap.fill(
        text,
        columns,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
        break_long_words=False,
    )
