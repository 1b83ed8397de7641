"""`python -m gmg_tui.engine`: reads a `RunSpec` as one line of JSON from standard input and runs it.

Where a second line says `viewer`, a screen is being opened on the session, and the workers wait a moment for its first
frame.

On standard output it says one line of JSON, once it listens, or that it cannot:
`{"ok": true, "warnings": [...]}` or `{"ok": false, "error": "one line", "exit_code": 2}`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from gmg_tui.engine import own_log
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.logs import Log, LogHandler, Logs
from gmg_tui.engine.main import Engine
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec

_VIEWER = b"viewer"


def _answer(**fields: Any) -> None:
    """Say the one line, and let go of standard output."""
    os.write(1, msgspec.json.encode(fields) + b"\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _log_by(logs: Logs) -> None:
    handler = LogHandler(Log(logs, own_log.StandardError()))
    logging.basicConfig(
        handlers=[handler], level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


async def _run(engine: Engine) -> None:
    await engine.start()
    _answer(ok=True, warnings=[])
    await engine.run()


def main() -> None:
    """Run one session from its start to its end."""
    gc.freeze()  # what has been imported stays
    gc.enable()
    logs = Logs()
    try:
        _main(logs)
    finally:
        logs.close()


def _main(logs: Logs) -> None:
    try:
        described, _, more = sys.stdin.buffer.read().partition(b"\n")
        spec = msgspec.json.decode(described, type=RunSpec)
        own_log.hold(Path(spec.folder))
        _log_by(logs)
        hardware = Hardware.find(spec)
    except GmgError as error:
        _answer(ok=False, error=str(error), exit_code=error.exit_code)
        return
    except (OSError, msgspec.MsgspecError) as error:
        _answer(ok=False, error=f"the engine cannot start: {error}", exit_code=1)
        return
    if sys.version_info < (3, 12):
        # The default there starts a thread for each child; this one waits on a pidfd, as 3.12 does by itself.
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    try:
        asyncio.run(_run(Engine(spec, hardware, logs, viewer_comes=more.strip() == _VIEWER)))
    except GmgError as error:
        _answer(ok=False, error=str(error), exit_code=error.exit_code)
    except OSError as error:
        logging.getLogger(__name__).exception("the engine cannot go on")
        _answer(ok=False, error=f"the engine cannot start: {error}", exit_code=1)


if __name__ == "__main__":
    main()
