"""Shows a file in the user's pager, which has the terminal meanwhile."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
from pathlib import Path

from gmg_tui.daemon_thread import in_daemon_thread
from gmg_tui.errors import GmgError

FALLBACK = "less"
"""The pager where `$PAGER` names none."""
ANSWER_S = 3.0
"""How long a disk may take to show the beginning of a file."""
_INTERRUPTS = (signal.SIGINT, signal.SIGQUIT)
"""What the terminal sends to every process in front, while only the pager is meant."""


def command() -> list[str]:
    """The pager's command line. Raises `GmgError` where the program is missing."""
    configured = os.environ.get("PAGER", "").strip()
    try:
        words = shlex.split(configured) or [FALLBACK]
    except ValueError as error:
        raise GmgError(f"PAGER={configured} cannot be read: {error}") from None
    if shutil.which(words[0]) is None:
        why = f"PAGER names {words[0]}, which is not installed" if configured else f"{FALLBACK} is not installed"
        raise GmgError(f"no pager: {why}")
    return words


async def check(path: Path) -> None:
    """Read the beginning of a file, without ever waiting for its disk in the event loop.

    Raises:
        GmgError: It is not there, cannot be read, or its disk does not answer.
    """

    def read() -> None:
        with path.open("rb") as file:
            file.read(1)

    try:
        await asyncio.wait_for(in_daemon_thread(read), ANSWER_S)
    except TimeoutError:
        raise GmgError(f"the disk does not answer: {path}") from None
    except FileNotFoundError:
        raise GmgError(f"nothing has been written yet to {path}") from None
    except OSError as error:
        raise GmgError(f"{path}: {error.strerror}") from None


async def show(words: list[str], path: Path) -> None:
    """Run the pager on a file until it ends; within `App.suspend()`. Raises `GmgError`.

    `LESS=R` shows the colours of Genesis, unless the user wants something else of `less`.
    """
    before = {number: signal.getsignal(number) for number in _INTERRUPTS}
    failure: str | None = None
    for number in _INTERRUPTS:
        signal.signal(number, lambda *_: None)  # unlike SIG_IGN, the pager does not inherit this
    try:
        process = await asyncio.create_subprocess_exec(*words, str(path), env={"LESS": "R", **os.environ})
        status = await process.wait()
        if status:  # its message was gone with its screen
            failure = f"exit status {status}" if status > 0 else f"killed by signal {-status}"
    except OSError as error:
        failure = error.strerror
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if failure is not None:
        raise GmgError(f"{words[0]}: {failure}")
