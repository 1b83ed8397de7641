"""`ls`: the sessions of this user on this machine."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from gmg_tui import lost, units
from gmg_tui import session as sessions
from gmg_tui.client import EngineClient
from gmg_tui.commands.tell import tell
from gmg_tui.errors import GmgError
from gmg_tui.headless.columns import columns
from gmg_tui.headless.jobs import counts
from gmg_tui.headless.reporter import states
from gmg_tui.model import Queue
from gmg_tui.session import Found, WorkerBrief

_ANSWER_S = 2.0
"""How long an engine may take to say how its workers are; then what its record says is shown."""
_HEADER = ("name", "state", "script", "started", "workers", "FPS")
_LEFT = frozenset({"name", "state", "script", "started", "workers"})
_SCRIPT_COLUMNS = 40


class _Now(NamedTuple):
    """How a session fares."""

    workers: tuple[WorkerBrief, ...]
    queue: Queue | None = None
    """None in a plain run."""


class _Jobs(Struct, frozen=True):
    """How many jobs a sweep has, and what became of them."""

    total: int
    waiting: int
    running: int
    finished: int
    failed: int
    stopped: int


class _Row(Struct, frozen=True, omit_defaults=True):
    """A session in `gmg-tui ls --json`."""

    name: str
    state: str
    engine_pid: int
    script: str
    started: str
    """ISO 8601, UTC."""
    folder: str
    workers: tuple[WorkerBrief, ...]
    jobs: _Jobs | None = None
    """Left out but for a sweep."""


def ls(*, as_json: bool) -> int:
    """Print the sessions, the newest first, after clearing away what lost ones have left; the exit status."""
    lost.clear(tell)
    found = sessions.listing()
    moments = asyncio.run(_look(found))
    if as_json:
        rows = [_row(one, now) for one, now in zip(found, moments, strict=True)]
        print(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
    elif found:
        cells = [_cells(one, now) for one, now in zip(found, moments, strict=True)]
        epitaphs = [one.epitaph() for one in found if one.state == "lost"]
        print("\n".join([*columns(_HEADER, cells, left=_LEFT), *epitaphs]))
    else:
        print("no sessions yet; start one with: gmg-tui SCRIPT")
    return 0


async def _look(found: list[Found]) -> list[_Now]:
    return await asyncio.gather(*(_now(one) for one in found))


async def _now(found: Found) -> _Now:
    """The workers as the session's engine knows them now, else as its record has them."""
    if found.state != "running":
        return _Now(found.record.workers, found.record.queue)
    try:
        async with asyncio.timeout(_ANSWER_S):
            client = await EngineClient.connect(Path(found.record.session.spec.socket))
    except (GmgError, TimeoutError):
        return _Now(found.record.workers, found.record.queue)
    snapshot = client.welcome.snapshot
    await client.close()
    return _Now(tuple(WorkerBrief.of(worker) for worker in snapshot.workers), snapshot.queue)


def _row(found: Found, now: _Now) -> _Row:
    session, queue = found.record.session, now.queue
    return _Row(
        name=found.name,
        state=found.state,
        engine_pid=session.engine_pid,
        script=session.spec.script,
        started=datetime.fromtimestamp(session.started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        folder=str(found.folder),
        workers=now.workers,
        jobs=None
        if queue is None
        else _Jobs(queue.jobs, queue.waiting, queue.running, queue.finished, queue.failed, queue.stopped),
    )


def _cells(found: Found, now: _Now) -> tuple[str, ...]:
    session = found.record.session
    speeds = [worker.fps for worker in now.workers if worker.fps is not None]
    return (
        found.name,
        found.state,
        _shortened(session.spec.script),
        f"{units.span(time.time() - session.started)} ago",
        states(worker.state for worker in now.workers) if now.queue is None else counts(now.queue),
        units.fps(sum(speeds) if speeds else None),
    )


def _shortened(script: str) -> str:
    """A long path without its beginning, which says the least."""
    return script if len(script) <= _SCRIPT_COLUMNS else f"…{script[1 - _SCRIPT_COLUMNS :]}"
