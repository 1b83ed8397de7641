"""`python -m gmg_tui.engine`: reads a `RunSpec` as JSON from standard input and runs it.

On standard output it says one line of JSON, once it listens and its workers are being started, or that it cannot:
`{"ok": true, "warnings": [...]}` or `{"ok": false, "error": "one line", "exit_code": 2}`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from gmg_tui.engine import own_log
from gmg_tui.engine.main import Engine, Hardware
from gmg_tui.errors import GmgError
from gmg_tui.model import RunSpec


def _answer(**fields: Any) -> None:
    """Say the one line, and let go of standard output."""
    os.write(1, msgspec.json.encode(fields) + b"\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


async def _run(engine: Engine) -> None:
    await engine.start()
    _answer(ok=True, warnings=[])
    await engine.run()


def main() -> None:
    """Run one session from its start to its end."""
    try:
        spec = msgspec.json.decode(sys.stdin.buffer.read(), type=RunSpec)
        own_log.hold(Path(spec.folder))
        _log_to_stderr()
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
        asyncio.run(_run(Engine(spec, hardware)))
    except OSError as error:
        logging.getLogger(__name__).exception("the engine cannot go on")
        _answer(ok=False, error=f"the engine cannot start: {error}", exit_code=1)


if __name__ == "__main__":
    main()
