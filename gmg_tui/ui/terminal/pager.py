"""Shows a file in the user's pager, which has the terminal meanwhile."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import threading
from pathlib import Path

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
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[OSError | None] = loop.create_future()

    def finish(error: OSError | None) -> None:
        if not answered.done():
            answered.set_result(error)

    def read() -> None:
        failure: OSError | None = None
        try:
            with path.open("rb") as file:
                file.read(1)
        except OSError as error:
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, failure)

    # Not an executor's thread: the interpreter would wait for it at its end, and the disk may never answer.
    threading.Thread(target=read, name="pager", daemon=True).start()
    try:
        error = await asyncio.wait_for(answered, ANSWER_S)
    except TimeoutError:
        raise GmgError(f"the disk does not answer: {path}") from None
    if isinstance(error, FileNotFoundError):
        raise GmgError(f"nothing has been written yet to {path}")
    if error is not None:
        raise GmgError(f"{path}: {error.strerror}")


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
