"""A signal reaches one process and no other, with pidfds and without."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gmg_tui.machine import process_signals


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def _refuse(code: int | None, *_: object) -> int:
    raise AttributeError if code is None else OSError(code, os.strerror(code))


@pytest.fixture(params=["works", "open ENOSYS", "open EPERM", "send ENOSYS", "send EPERM", "not in this Python"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel's behaviour with pidfds."""
    call, _, error = request.param.partition(" ")
    if call in {"open", "send"}:
        module, name = (os, "pidfd_open") if call == "open" else (signal, "pidfd_send_signal")
        code = getattr(errno, error)
        monkeypatch.setattr(module, name, lambda *_: _refuse(code))
    elif call == "not":
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.delattr(signal, "pidfd_send_signal")
    return str(request.param)


@pytest.mark.usefixtures("kernel")
def test_a_signal_reaches_the_process_that_started_then_and_no_other(child: subprocess.Popen[bytes]) -> None:
    started = process_signals.start_ticks(child.pid)
    assert started is not None
    assert not process_signals.send(child.pid, started + 1, signal.SIGKILL)
    assert child.poll() is None
    assert process_signals.send(child.pid, started, signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    assert process_signals.start_ticks(child.pid) is None
    assert not process_signals.send(child.pid, started, signal.SIGTERM)


def test_the_reason_for_missing_pidfds_is_reported(kernel: str) -> None:
    trouble = process_signals.pidfd_trouble()
    assert (trouble is None) == (kernel == "works")
    if "EPERM" in kernel:
        assert "Operation not permitted" in (trouble or "")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_another_users_process_is_refused(kernel: str, child: subprocess.Popen[bytes]) -> None:
    started = process_signals.start_ticks(child.pid)
    assert started is not None
    os.setresuid(4242, 4242, 0)
    try:
        with pytest.raises(PermissionError):
            process_signals.send(child.pid, started, signal.SIGTERM)
    finally:
        os.setresuid(0, 0, 0)
