"""Asks a library of the driver in a process of its own, which may crash or hang without harm."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

_REAP_S = 2.0
"""How long a killed helper is waited for; one inside the driver may take a while to die."""


class NoAnswerError(Exception):
    """A helper has given no answer; its text says why in one line.

    Attributes:
        transient: Whether it may answer later: too many open files, a time-out.
    """

    def __init__(self, text: str, *, transient: bool = False) -> None:
        super().__init__(text)
        self.transient = transient


async def ask(program: Path, subject: str, environ: Mapping[str, str], timeout_s: float) -> bytes:
    """The last line that `program` prints; it is killed after `timeout_s`.

    Args:
        program: A module without imports beyond the standard library.
        subject: What it asks, for the texts of errors: `EGL`.
        environ: Its environment.
        timeout_s: How long it may take, seconds.

    Raises:
        NoAnswerError: It could not be started, crashed, hung, or printed nothing.
    """
    # -P keeps its folder out of the import path: the modules there may be named like the standard library's.
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-S",
            str(program),
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise NoAnswerError(f"cannot ask {subject}: {error.strerror}", transient=True) from error
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    except TimeoutError as error:
        raise NoAnswerError(f"{subject} did not answer within {timeout_s:g} s", transient=True) from error
    finally:
        await _end(process)
    return _last_line(output, subject, process.returncode or 0)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REAP_S):
            await process.wait()


def _last_line(output: bytes, subject: str, code: int) -> bytes:
    if code < 0:
        name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
        raise NoAnswerError(f"{subject} crashed the process that asked it ({name})")
    line = output.strip().rpartition(b"\n")[2]  # a driver may have printed something before
    if not line:
        raise NoAnswerError(f"the process that asked {subject} gave no answer (exit code {code})")
    return line
