"""A process with the PID of an ended one."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest


def spawn_as(pid: int) -> subprocess.Popen[bytes]:
    """A process with this unused PID that leads its own group.

    It starts in a later clock tick than whatever had the PID: ticks are what start times are counted in.
    """
    time.sleep(2 / os.sysconf("SC_CLK_TCK"))
    for _ in range(200):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError as error:
            pytest.skip(f"PIDs cannot be chosen here: {error.strerror}")
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    pytest.skip("others were always quicker to take the PID")
