"""`stop`: end a running session."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path

from gmg_tui import recovery, units
from gmg_tui import session as sessions
from gmg_tui.client import ANSWER_S, EngineClient
from gmg_tui.commands.messages import tell, tell_left, tell_tuning
from gmg_tui.errors import GmgError
from gmg_tui.headless.reporter import signal_sent
from gmg_tui.model import Session, Snapshot, WorkerState
from gmg_tui.protocol import Bye, Lines, Update
from gmg_tui.session import Found

_END_S = 30.0
"""How long an engine may take to write its files and end, once its workers have ended."""
_LOOK_S = 0.1


def stop(name: str | None, *, gone: bool) -> int:
    """Stop a session's workers and wait until its engine has ended; the exit status.

    Standard error shows which workers are still there, and the last signal sent to each. A second ctrl+c kills them.
    With `gone` the named session's machine does not exist any more, and it counts as lost from now on.

    Raises:
        GmgError: There is no such session, it is another machine's, its engine does not answer, or was killed meanwhile.
    """
    recovery.clear(tell)
    if gone:
        if name is None:
            raise GmgError("--gone: give the session's name; gmg-tui ls lists them")
        recovery.give_up(sessions.find(name, running=False))
        tell(f"{name} counts as lost")
        return 0
    found = sessions.find(name, running=True, command="stop")
    tell(f"stopping {found.name}")
    last = asyncio.run(_stop(found.record.session))
    queue = last.queue
    if last.ended and last.clients > 1:
        others = units.count(last.clients - 1, "client")
        tell(f"all workers have ended; the engine ends once nobody is attached ({others} left)")
    else:
        _await_engine(found)
        ended = sessions.inspect(found.folder)
        if ended is not None and ended.state == "lost":
            raise GmgError(ended.loss_text(), 1)
        queue = ended.record.queue if ended is not None else queue
        tell(f"{found.name} has ended")
    if last.tuning is None:
        tell_left(queue.waiting if queue is not None else 0, found.name)
    elif last.tuning.stopped:
        tell_tuning(found.name)
    return 0


async def _stop(session: Session) -> Snapshot:
    """End the workers. Returns the last snapshot."""
    client = await EngineClient.connect(Path(session.spec.socket), session.id)
    loop = asyncio.get_running_loop()
    requests: list[asyncio.Task[None]] = []
    events: asyncio.Queue[Update | Lines | Bye] = asyncio.Queue()
    warned = False

    async def listen() -> None:
        async for event in client.events():
            events.put_nowait(event)

    def interrupt() -> None:
        nonlocal warned
        if warned:
            tell("killing the workers")
            requests.append(loop.create_task(client.end(kill=True)))
        else:
            tell("ctrl+c again kills the workers")
            warned = True

    loop.add_signal_handler(signal.SIGINT, interrupt)
    listening = loop.create_task(listen())
    requests.append(loop.create_task(client.end(kill=False)))
    snapshot, said = client.welcome.snapshot, ""
    try:
        while True:
            event = await _next(events, session)
            if isinstance(event, Update):
                snapshot = event.snapshot
                if (text := _left(snapshot)) != said:
                    said = text
                    tell(text)
            if isinstance(event, Bye) or snapshot.ended:
                break
    finally:
        await client.close()
        listening.cancel()
        for request in requests:
            with suppress(GmgError):  # the engine is gone, and with it the workers
                await request
        loop.remove_signal_handler(signal.SIGINT)
    return snapshot


def _left(snapshot: Snapshot) -> str:
    """The workers that are still there, and the last signal sent to each."""
    left = [worker for worker in snapshot.workers if not worker.state.ended]
    if not left:
        return "all workers have ended"
    return "still there: " + ", ".join(
        f"{worker.slot} ({(worker.state is WorkerState.STOPPING and signal_sent(worker)) or worker.state})"
        for worker in left
    )


async def _next(events: asyncio.Queue[Update | Lines | Bye], session: Session) -> Update | Lines | Bye:
    """What the engine sends next. Raises `GmgError` when it, which sends something each second, has been silent."""
    for _ in range(round(ANSWER_S)):  # by the second: time in which this process itself was stopped counts as one
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                return await events.get()
    raise GmgError(f"the engine of {session.spec.name} has not answered for {ANSWER_S:.0f} s{_frozen(session)}", 1)


def _await_engine(found: Found) -> None:
    """Block until the engine has released its lock. Raises `GmgError` when it does not."""
    deadline = time.monotonic() + _END_S
    while sessions.is_locked(found.folder):
        if time.monotonic() > deadline:
            raise GmgError(
                f"all workers have ended, but not the engine of {found.name}{_frozen(found.record.session)}", 1
            )
        time.sleep(_LOOK_S)  # nothing tells when another process lets go of a lock


def _frozen(session: Session) -> str:
    """What may be the matter with an engine that does not answer, and what to do, as the last clauses of a line."""
    pid = session.engine_pid
    return f"; if it is stopped (SIGSTOP), kill -CONT {pid} lets it go on; kill -KILL {pid} ends it and its workers"
