"""Only the process that a person has seen is ended, whatever has its PID by now."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gmg_tui.engine import strangers
from gmg_tui.errors import GmgError
from gmg_tui.model import GpuProcess

from .recycled import spawn_as


@contextmanager
def _started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def _seen(pid: int) -> GpuProcess:
    (seen,) = strangers.described((GpuProcess(pid),))
    return seen


def test_the_selected_process_is_ended() -> None:
    with _started("sleep", "60") as process:
        assert process.stdin is not None
        strangers.end(_seen(process.pid), signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM


def test_another_process_with_the_same_pid_is_not_ended() -> None:
    with _started("sleep", "60") as process:
        seen = _seen(process.pid)
        process.kill()
        process.wait()
        other = spawn_as(process.pid)
        try:
            with pytest.raises(GmgError, match=r"has ended; its PID is another process's now"):
                strangers.end(seen, signal.SIGTERM)
            assert other.poll() is None
        finally:
            other.kill()
            other.wait()


def test_ended_host_and_invisible_processes_are_reported() -> None:
    with _started("sleep", "60") as process:
        seen = _seen(process.pid)
        process.kill()
        process.wait()
    with pytest.raises(GmgError, match="has ended"):
        strangers.end(seen, signal.SIGTERM)
    with pytest.raises(GmgError, match="a PID of the host"):
        strangers.end(GpuProcess(os.getpid(), foreign=True), signal.SIGKILL)
    with pytest.raises(GmgError, match="not visible here"):
        strangers.end(GpuProcess(os.getpid()), signal.SIGKILL)
