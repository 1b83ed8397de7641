"""`stop`: end a running session."""

from __future__ import annotations

import asyncio
import fcntl
import signal
from contextlib import suppress
from pathlib import Path

from gmg_tui import lost
from gmg_tui import session as sessions
from gmg_tui.client import EngineClient
from gmg_tui.commands.tell import tell
from gmg_tui.errors import GmgError
from gmg_tui.headless.reporter import signal_sent
from gmg_tui.model import Snapshot, WorkerState
from gmg_tui.protocol import Bye, Update


def stop(name: str | None) -> int:
    """Stop a session's workers and wait until its engine has ended; the exit status.

    Who is still there, and which signal was sent, is told on standard error. A second ctrl+c kills the workers.

    Raises:
        GmgError: There is no such session, or its engine does not answer.
    """
    lost.clear(tell)
    found = sessions.find(name, running=True)
    tell(f"stopping {found.name}")
    others = asyncio.run(_stop(Path(found.record.session.spec.socket)))
    if others:
        tell(f"all workers have ended; the engine ends when nobody looks at the session any more ({others} still do)")
    else:
        _await_engine(found.folder)
        tell(f"{found.name} has ended")
    return 0


async def _stop(socket: Path) -> int:
    """End the workers; how many other clients keep the engine."""
    client = await EngineClient.connect(socket)
    loop = asyncio.get_running_loop()
    requests: list[asyncio.Task[None]] = []

    def ask(*, kill: bool) -> None:
        requests.append(loop.create_task(client.end(kill=kill)))

    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            tell("ctrl+c again kills the workers")
        else:
            tell("killing the workers")
            ask(kill=True)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    ask(kill=False)
    snapshot, said = client.welcome.snapshot, ""
    try:
        async for event in client.events():
            if isinstance(event, Update):
                snapshot = event.snapshot
                text = _left(snapshot)
                if text != said:
                    said = text
                    tell(text)
            if isinstance(event, Bye) or snapshot.ended:
                break
    finally:
        await client.close()
        for request in requests:
            with suppress(GmgError):  # the engine is gone: what was asked for is done
                await request
        loop.remove_signal_handler(signal.SIGINT)
    return max(snapshot.clients - 1, 0) if snapshot.ended else 0


def _left(snapshot: Snapshot) -> str:
    """Who is still there, and which signal was sent to each."""
    left = [worker for worker in snapshot.workers if not worker.state.ended]
    if not left:
        return "all workers have ended"
    return "still there: " + ", ".join(
        f"{worker.slot} ({signal_sent(worker) if worker.state is WorkerState.STOPPING else worker.state})"
        for worker in left
    )


def _await_engine(folder: Path) -> None:
    """Block until the engine has let go of the lock that it holds all its life."""
    try:
        with (folder / sessions.ENGINE_LOG).open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_SH)
    except FileNotFoundError:
        return  # somebody removed the folder, and the engine with it
