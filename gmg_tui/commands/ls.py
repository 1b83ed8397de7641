"""`ls`: the sessions of this user, those of other machines too that share the state folder."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from gmg_tui import clearing, recovery, tables, units
from gmg_tui import session as sessions
from gmg_tui.clearing import Removable
from gmg_tui.client import EngineClient
from gmg_tui.commands import over_nodes
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError
from gmg_tui.folder_tree import Size, measure
from gmg_tui.headless.jobs import counts
from gmg_tui.headless.reporter import states
from gmg_tui.model import Queue, WorkerState, own_rates
from gmg_tui.session import Found, WorkerBrief
from gmg_tui.text import clean

_ANSWER_S = 2.0
"""How long an engine may take to report its workers; after that its record is shown."""
_HEADER = ("name", "state", "host", "script", "started", "workers", "FPS", "size")
_ALIGN = "llllllrr"
_HOST, _SCRIPT = 2, 3
"""Columns of `_HEADER`."""
_SCRIPT_COLUMNS, _LEAST_COLUMNS = 40, 8
"""The greatest width of a script's name, and the least to which a narrow terminal cuts it."""
_SIZES_S = 0.5
"""How long the folders are measured; those of a few sessions may be too large, or the disk too slow."""
_SAME = ("name", "state", "folder", "started", "engine_pid")
"""What is the same in two rows of one session that two nodes have listed."""
_JOB_STATES = ("waiting", "running", "finished", "failed", "stopped")


def ls(*, as_json: bool, nodes: str | None = None) -> int:
    """Print the sessions, the newest first, after cleaning up after lost ones; the exit status.

    With `nodes` those of several machines; raises `GmgError` where these are not available.
    """
    if nodes is not None:
        return _on_nodes(nodes, as_json=as_json)
    recovery.clear(tell)
    found = asyncio.run(_listing())
    sizes = measure([one.folder for one in found], _SIZES_S)
    if as_json:
        rows = [_row(one, size) for one, size in zip(found, sizes, strict=True)]
        print(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
        return 0
    remarks = [*filter(None, map(_remark, found)), *map(_left_over, clearing.left_over(found))]
    table = _table(found, sizes) if found else []
    print("\n".join([*table, *remarks] or ["no sessions yet; start one with: gmg-tui SCRIPT"]))
    return 0


def _on_nodes(where: str, *, as_json: bool) -> int:
    answers = over_nodes.ask(where, ("ls", "--json"), "looking for sessions")
    if as_json:
        over_nodes.print_json(over_nodes.rows(answers))
        return int(any(answer.error for answer in answers.values()))
    # Nodes that share a state folder see the same sessions.
    seen: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in over_nodes.rows(answers):
        if "error" not in row:
            seen.setdefault(tuple(str(row[name]) for name in _SAME), []).append(row)
    cells = [
        (over_nodes.named((row["node"] for row in same), len(answers)), *_cells_of(same[0])) for same in seen.values()
    ]
    if cells:
        print("\n".join(tables.lines([("node", *_HEADER), *cells], f"l{_ALIGN}")))
    elif any(not answer.error for answer in answers.values()):
        print("no sessions yet")
    return over_nodes.tell_errors(answers)


async def _listing() -> list[Found]:
    return await asyncio.gather(*map(_updated, sessions.listing()))


async def _updated(found: Found) -> Found:
    """The session with its workers and queue as its engine reports them, else as its record has them."""
    if found.state != "running" or found.away:
        return found
    session = found.record.session
    try:
        async with asyncio.timeout(_ANSWER_S):
            client = await EngineClient.connect(Path(session.spec.socket), session.id)
    except (GmgError, TimeoutError):
        return found
    snapshot = client.welcome.snapshot
    await client.close()
    workers = tuple(WorkerBrief.of(worker) for worker in snapshot.workers)
    return structs.replace(found, record=structs.replace(found.record, workers=workers, queue=snapshot.queue))


def _row(found: Found, size: Size) -> dict[str, Any]:
    """A session in `gmg-tui ls --json`; only a sweep has jobs, in all and by state."""
    session, queue = found.record.session, found.record.queue
    row: dict[str, Any] = {
        "name": found.name,
        "state": found.state,
        "host": found.record.session.spec.host or None,
        "engine_pid": session.engine_pid,
        "script": session.spec.script,
        "started": datetime.fromtimestamp(session.started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "folder": str(found.folder),
        "bytes": size.bytes if size.complete else None,
        "workers": found.record.workers,
    }
    if queue is not None:
        row["jobs"] = {"total": queue.jobs, **{state: getattr(queue, state) for state in _JOB_STATES}}
    return row


def _table(found: list[Found], sizes: list[Size]) -> list[str]:
    """The sessions; with their machines where one of them is another's."""
    rows = [_HEADER, *map(_cells_here, found, sizes)]
    dropped = None if any(one.away for one in found) else _HOST
    lines = _drawn(rows, dropped, _SCRIPT_COLUMNS)
    if sys.stdout.isatty() and (excess := tables.width(lines) - shutil.get_terminal_size().columns) > 0:
        widest = min(_SCRIPT_COLUMNS, tables.width([row[_SCRIPT] for row in rows]))
        lines = _drawn(rows, dropped, max(_LEAST_COLUMNS, widest - excess))
    return lines


def _drawn(rows: list[tuple[str, ...]], dropped: int | None, script_columns: int) -> list[str]:
    """The table without the column `dropped`, and with that of the scripts in so many columns at most."""
    kept = [column for column in range(len(_HEADER)) if column != dropped]
    cut = [[_cut(row[column], script_columns) if column == _SCRIPT else row[column] for column in kept] for row in rows]
    return tables.lines(cut, "".join(_ALIGN[column] for column in kept))


def _cut(script: str, columns: int) -> str:
    """A path without its beginning where it is too long."""
    return script if len(script) <= columns else f"…{script[1 - columns :]}"


def _remark(found: Found) -> str:
    """What is to be said of a session below the table."""
    return found.loss_text() if found.state == "lost" else found.away_text("attach")


def _left_over(one: Removable) -> str:
    why = "its session.json cannot be read" if one.state == "damaged" else "it never began"
    return f"{one.name} is not listed, because {why}; remove it with: gmg-tui rm {one.name}"


def _cells_of(row: dict[str, Any]) -> tuple[str, ...]:
    """The cells of a session that another machine has listed."""
    workers = msgspec.convert(row["workers"], tuple[WorkerBrief, ...])
    jobs = row.get("jobs")
    queue = Queue(**{state: jobs[state] for state in _JOB_STATES}, version=0) if jobs else None
    started = datetime.fromisoformat(row["started"]).timestamp()
    size = units.mib(row["bytes"] / (1 << 20)) if row["bytes"] is not None else units.NOT_KNOWN
    about = (row["name"], row["state"], row["host"] or units.NOT_KNOWN, row["script"])
    return _cells(about, started, workers, queue, size)


def _cells_here(found: Found, size: Size) -> tuple[str, ...]:
    session, record = found.record.session, found.record
    about = (found.name, found.state, found.host or units.NOT_KNOWN, session.spec.script)
    return _cells(about, session.started, record.workers, record.queue, size.text)


def _cells(
    about: tuple[str, str, str, str],
    started: float,
    workers: tuple[WorkerBrief, ...],
    queue: Queue | None,
    size: str,
) -> tuple[str, ...]:
    name, state, host, script = about
    # A group's rate that rank 0 reports has that of the other ranks in it.
    rated = own_rates(workers)
    live = [worker for worker in rated if not WorkerState(worker.state).ended]
    counted = [worker for worker in live if worker.state == WorkerState.RUNNING] if live else rated
    speeds = [rate for worker in counted if (rate := worker.settled) is not None]
    return (
        name,
        state,
        host,
        clean(script.encode(errors="replace")),
        f"{units.span(time.time() - started)} ago",
        states(worker.state for worker in workers) if queue is None else counts(queue),
        units.fps(sum(speeds) if speeds else None),
        size,
    )
