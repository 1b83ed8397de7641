"""`doctor`: checks whether this machine is ready for a run.

One module for each subject, one function for each check. A check is given what it judges (an environment, a folder that
stands for `/`, the answers of NVML or torch), so that tests can describe any machine.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from contextlib import nullcontext

import msgspec

from gmg_tui.commands.doctor.examine import examine
from gmg_tui.commands.doctor.facts import Examined, gather
from gmg_tui.commands.doctor.finding import Finding, Verdict
from gmg_tui.commands.messages import notice
from gmg_tui.commands.options import python as checked_python

_CHECK_COLUMNS = 13


def doctor(python: str | None, *, as_json: bool, with_facts: bool = False) -> int:
    """Print the findings, check by check, or all at the end as JSON; 1 when a plain run would fail, else 0.

    With `with_facts` they are of a machine that has no screen, and printed as JSON with its `Facts`.

    Raises:
        GmgError: `python` is not an interpreter.
    """
    if with_facts:
        return _with_facts(checked_python(python, os.environ))
    findings = []
    size = _size()
    waiting = (lambda _: nullcontext()) if as_json else notice
    for finding in examine(checked_python(python, os.environ), os.environ, size, waiting):
        findings.append(finding)
        if not as_json:
            print(line(finding, size.columns if size else None), flush=True)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode())
    return int(any(finding.verdict is Verdict.FAIL for finding in findings))


def _with_facts(python: str) -> int:
    findings = tuple(examine(python, os.environ, None, lambda _: nullcontext(), with_screen=False))
    facts = gather(python, os.environ)
    print(msgspec.json.encode(Examined(findings, facts, time.time())).decode(), flush=True)
    return 0


def _size() -> os.terminal_size | None:
    try:
        return os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return None


def line(finding: Finding, columns: int | None) -> str:
    """The finding as one line; on a terminal it is wrapped and indented."""
    advice = f"; {finding.advice}" if finding.advice else ""
    head = f"{finding.verdict:<4}  {finding.check:<{_CHECK_COLUMNS}}  "
    text = f"{finding.found}{advice}"
    if columns is None or columns < 2 * len(head):
        return head + text
    below = " " * len(head)
    wrapper = textwrap.TextWrapper(columns, head, below, break_on_hyphens=False, break_long_words=False)
    return wrapper.fill(text)
