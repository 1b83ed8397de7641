"""Asks a worker's process for its Python stacks: by py-spy, else by the signal that the ranks of groups listen to."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

from msgspec import structs

from gmg_tui.ddp import stack_signal
from gmg_tui.engine.attempts.attempt import RunningAttempt
from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.processes import process_tree
from gmg_tui.engine.processes.process_tree import Proc
from gmg_tui.model import Rank, Stacks

_ANSWER_S = 5.0
"""How long a process may take to write its stacks."""
_PY_SPY_S = 3.0
_SETTLED_S = 0.2
"""A file that has not grown for so long has all that was written."""
_LOOK_S = 0.05
_MOST_BYTES = 256 << 10
_STOPPED = "Tt"
"""The states of a process that a signal or a debugger has stopped (proc(5))."""


async def of(attempt: RunningAttempt | None, slot: str, rank: Rank | None) -> Stacks:
    """The stacks of the process of an attempt (None where none lives) on a slot, or why there are none."""
    stacks = Stacks(slot, rank.rank if rank is not None else None)
    if attempt is None or not attempt.process.started or attempt.exit_code is not None:
        return structs.replace(stacks, error="no process runs")
    proc = process_tree.read(attempt.process.pid)
    if proc is None:
        return structs.replace(stacks, error="its process has just ended")
    text = await _spied(proc)
    if text:
        return structs.replace(stacks, text=text, source="py-spy")
    if proc.state in _STOPPED:
        return structs.replace(stacks, error=_stopped(proc))
    text, error = await _signalled(attempt, proc)
    return structs.replace(stacks, text=text, source="faulthandler" if text else "", error=error)


async def _spied(proc: Proc) -> str:
    """What py-spy prints; empty where it is not installed or lacks permission."""
    program = shutil.which("py-spy")
    if program is None:
        return ""
    # A stopped process is read as it is; one that runs is paused meanwhile, or its frames would change.
    way = ("--nonblocking",) if proc.state in _STOPPED else ()
    try:
        spy = await asyncio.create_subprocess_exec(
            *(program, "dump", *way, "--pid", str(proc.pid)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(_PY_SPY_S):
            output, _ = await spy.communicate()
    except TimeoutError:
        return ""
    finally:
        if spy.returncode is None:
            spy.kill()
    return _text(output) if spy.returncode == 0 else ""


async def _signalled(attempt: RunningAttempt, proc: Proc) -> tuple[str, str | None]:
    """What the process writes when it is asked by the signal, or why it does not."""
    file = attempt.launch.environment.full.get("GMG_STACK_FILE")
    if file is None:
        return "", "py-spy is not installed or lacks permission, and only the ranks of groups answer without it"
    if not process_tree.handles(proc.pid, stack_signal.SIGNAL):
        return "", "it does not listen: it is not a Python that reads PYTHONPATH, or is just being started"
    try:
        text = await in_daemon_thread(_asked, proc, Path(file))
    except OSError as error:
        return "", f"its stacks cannot be read: {error.strerror}"
    if text:
        return text, None
    after = process_tree.read(proc.pid)
    if after is not None and after.state in _STOPPED:
        return "", _stopped(after)
    return "", f"it has not answered for {_ANSWER_S:.0f} s"


def _stopped(proc: Proc) -> str:
    if proc.state == "T":
        return f"it is stopped by a signal and cannot answer; kill -CONT {proc.pid}"
    return "it is stopped by a debugger and cannot answer"


def _asked(proc: Proc, file: Path) -> str:
    """Send the signal, and wait for what the process writes; empty where it does not. Raises `OSError`."""
    before = file.stat().st_size
    if not process_tree.send(proc, stack_signal.SIGNAL):
        return ""
    deadline = time.monotonic() + _ANSWER_S
    size, grown_at = before, time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        now = file.stat().st_size
        if now != size:
            size, grown_at = now, time.monotonic()
        elif size > before and time.monotonic() - grown_at >= _SETTLED_S:
            break
    with file.open("rb") as stream:
        stream.seek(before)
        return _text(stream.read(_MOST_BYTES))


def _text(output: bytes) -> str:
    return output[:_MOST_BYTES].decode("utf-8", "replace").strip()
