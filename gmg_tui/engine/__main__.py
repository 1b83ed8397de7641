"""`python -m gmg_tui.engine`: runs the session whose `RunSpec` is the first line of standard input, as JSON.

The second line may hold flags. With `viewer`, the workers wait briefly for the first frame of an expected screen. With
`confirm`, nothing runs until a third line confirms that the reply was read; if standard input ends instead, the
launcher is gone and the session ends. With `new:DEVICE:INODE`, the session's folder, made by the launcher, is then
removed; nothing runs if another folder has replaced it.

Progress lines such as `{"progress": "1 of 2 nodes has answered"}` may precede the reply, which is one line of JSON:
`{"ok": true, "warnings": [...], "socket": "its path"}` or `{"ok": false, "error": "…", "exit_code": 2}`.
"""

import asyncio
import gc
import logging
import os
import select
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gmg_tui.engine.clock import any_of
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.main import Engine
from gmg_tui.engine.output.logs import LogHandler, LogWriter
from gmg_tui.engine.records.session_files import lock
from gmg_tui.machine import procfs
from gmg_tui.machine.folders import OpenFolder
from gmg_tui.model import RunSpec
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.environ import WORKER_VARIABLES

_CHECK_INTERVAL_S = 2.0
"""Interval of checks while waiting for GPUs that are in use."""
_GC_THRESHOLD = 20_000
"""Number of new objects before a garbage collection; reference counting frees nearly all objects."""


def _reply(**fields: Any) -> None:
    """Prints the reply, and redirects standard output to `/dev/null`."""
    with suppress(BrokenPipeError):  # the launcher is gone, as standard input will show
        os.write(1, msgspec.json.encode(fields) + b"\n")
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 1)
    os.close(devnull)


def _report(text: str) -> None:
    """Prints progress during the start."""
    with suppress(BrokenPipeError):
        os.write(1, msgspec.json.encode({"progress": text}) + b"\n")


def _pause(text: str, lines: Sequence[str]) -> None:
    """Prints progress during a wait, then pauses. Raises `BrokenPipeError` once the launcher is gone."""
    os.write(1, msgspec.json.encode({"progress": text, "lines": lines}) + b"\n")
    if select.select([0], [], [], _CHECK_INTERVAL_S)[0]:  # the launcher sends nothing before the reply
        raise BrokenPipeError


def _open_new(folder: Path, words: list[bytes]) -> OpenFolder | None:
    """Opens the session's folder if the launcher made it. Raises `GmgError` if another has replaced it."""
    folder_ids = [word.removeprefix(b"new:").decode() for word in words if word.startswith(b"new:")]
    if not folder_ids:
        return None
    new_folder = OpenFolder.open(folder)
    if new_folder.id not in folder_ids:
        raise GmgError(f"{folder} has been removed", 1)
    return new_folder


async def _run(engine: Engine, words: list[bytes], new_folder: OpenFolder | None) -> None:
    socket = await engine.start(_report)
    _reply(ok=True, warnings=engine.warnings, socket=socket)
    if b"confirm" in words and not await _wait_for_confirmation(engine.shutdown_requested):
        await engine.cancel(new_folder)
    else:
        await engine.run()


async def _wait_for_confirmation(shutdown_requested: asyncio.Event) -> bool:
    """Waits for a line on standard input. Returns False if there is none, or a signal ends the session first."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(0, readable.set)
    await any_of(readable, shutdown_requested)
    loop.remove_reader(0)
    received = select.select([0], [], [], 0)[0]  # a line received before a signal counts
    return bool(received and os.read(0, 1))


def main() -> None:
    """Runs the session specified on standard input."""
    for name in WORKER_VARIABLES:
        os.environ.pop(name, None)
    gc.freeze()  # imported modules stay; the launcher disables the collector during imports, which saves 23 ms of 129
    gc.set_threshold(_GC_THRESHOLD)
    gc.enable()
    logs = LogWriter()
    try:
        _main(logs)
    finally:
        logs.close()


def _main(logs: LogWriter) -> None:
    try:
        spec_json, words = sys.stdin.buffer.readline(), sys.stdin.buffer.readline().split()
        if not spec_json:
            return  # the launcher is gone
        if (reason := procfs.defect()) is not None:
            raise GmgError(reason, 1)
        spec = msgspec.json.decode(spec_json, type=RunSpec)
        lock(Path(spec.folder))
        new_folder = _open_new(Path(spec.folder), words)
        log_format = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        logging.basicConfig(handlers=[LogHandler(logs)], level=logging.INFO, format=log_format)
        hardware = Hardware.find(spec, _pause) if spec.nodes is None else Hardware((), None)
        if spec.agent is not None:
            hardware = hardware.on_node(spec.agent.node)
    except GmgError as error:
        _reply(ok=False, error=str(error), exit_code=error.exit_code)
        return
    except BrokenPipeError:  # the launcher is gone
        if new_folder is not None:
            new_folder.remove()
        return
    except (OSError, msgspec.MsgspecError) as error:
        _reply(ok=False, error=f"the engine cannot start: {error}", exit_code=1)
        return
    if sys.version_info >= (3, 12):
        with warnings.catch_warnings():
            # The default blocks the event loop while a debugger holds a worker that has ended.
            warnings.simplefilter("ignore", DeprecationWarning)
            asyncio.set_child_watcher(asyncio.ThreadedChildWatcher())
    try:
        engine = Engine(spec, hardware, logs, expect_viewer=b"viewer" in words)
        asyncio.run(_run(engine, words, new_folder))
    except GmgError as error:
        _reply(ok=False, error=str(error), exit_code=error.exit_code)
    except asyncio.CancelledError:
        _reply(ok=False, error="the engine was ended by a signal", exit_code=130)
    except OSError as error:
        logging.getLogger(__name__).exception("the engine failed")
        _reply(ok=False, error=f"the engine cannot start: {error}", exit_code=1)


if __name__ == "__main__":
    main()
