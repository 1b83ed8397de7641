"""Whether a worker still reads files: a real process that does as it is told."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gmg_tui.engine.workers.reading import Reading

_SCRIPT = """
import sys
for line in sys.stdin:
    if line == "read\\n":
        for _ in range(200):
            open("/dev/null").read()
    print("done", flush=True)
"""


@pytest.fixture
def process() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def _tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{word}\n")
    assert process.stdout.readline() == "done\n"


def test_files_are_read_until_nothing_is_imported_any_more(process: subprocess.Popen[str]) -> None:
    with process:
        reading = Reading()
        _tell(process, "read")
        reading.update([process.pid], 10.0)
        assert reading.worked_since_s == 0.0
        _tell(process, "rest")
        reading.update([process.pid], 20.0)
        assert reading.worked_since_s == 10.0
        _tell(process, "read")
        reading.update([process.pid], 22.0)
        assert reading.worked_since_s == 0.0
        process.communicate()


def test_who_waits_for_a_core_has_not_imported_all() -> None:
    reading = Reading()
    for _ in range(9):
        reading.update([os.getpid()], 1.0)
    assert reading.worked_since_s == 0.0


def test_nothing_is_said_of_processes_that_cannot_be_looked_at() -> None:
    reading = Reading()
    reading.update([2**22 + 1], 10.0)
    reading.update([2**22 + 1], 100.0)
    assert (reading.known, reading.worked_since_s) == (False, 0.0)
