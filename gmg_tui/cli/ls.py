"""`ls`: list this user's sessions on all machines that share the state folder."""

import asyncio
import time
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.cli.printing import note, print_json
from gmg_tui.cli.rm import sessions_without_record
from gmg_tui.machine.ownership import user_name
from gmg_tui.model import WorkerState, units
from gmg_tui.model.alert import by_urgency, urgent
from gmg_tui.results import table
from gmg_tui.results.column import Column
from gmg_tui.results.job_columns import as_plain
from gmg_tui.session.client import newest_snapshot

_WAITING_STATES = (WorkerState.WAITING, WorkerState.RESTARTING, WorkerState.STOPPING)
_MAX_WAIT_LINES = _MAX_ALERT_LINES = 4
"""Maximum lines about one session."""
_JOB_STATES = ("waiting", "running", "finished", "failed", "stopped")


def ls(*, as_json: bool) -> int:
    """Prints the sessions, newest first; returns the exit status."""
    sessions.clear_lost(note)

    async def update() -> list[sessions.SessionEntry]:
        return await asyncio.gather(*map(_update, sessions.list_sessions()))

    entries = asyncio.run(update())
    if as_json:
        print_json([_row(entry) for entry in entries])
        return 0
    remarks = [entry.remark for entry in entries]
    remarks += [line for entry in entries for line in (*_wait_lines(entry), *_alert_lines(entry))]
    names = [session.name for session in sessions_without_record()]
    remarks += [f"{name} has no readable record; remove it with: gmg-tui rm {name}" for name in names]
    owners = {folder.name: user_name(folder.lstat().st_uid) for folder in sessions.unreadable_folders()}
    remarks += [f"{name} cannot be read; it belongs to {owner}" for name, owner in owners.items()]
    if entries or any(remarks):
        table.print_table(_COLUMNS, entries, *filter(None, remarks))
    else:
        print("no sessions yet; start one with: gmg-tui SCRIPT")
    return 0


async def _update(entry: sessions.SessionEntry) -> sessions.SessionEntry:
    """Returns the session with its engine's current workers and queue; unchanged if no engine answers."""
    if not entry.runs_here:
        return entry
    snapshot = await newest_snapshot(entry.record.session)
    if snapshot is None:
        return entry
    workers = sessions.WorkerBrief.from_workers(snapshot.workers)
    return structs.replace(entry, record=structs.replace(entry.record, workers=workers, queue=snapshot.queue))


def _row(entry: sessions.SessionEntry) -> dict[str, Any]:
    """Returns a session for `ls --json`, with job counts for a sweep."""
    session, queue = entry.record.session, entry.record.queue
    row: dict[str, Any] = {
        "name": entry.name,
        "state": entry.state,
        "host": session.spec.host or None,
        "engine_pid": session.engine_pid,
        "script": session.spec.script,
        "started": units.iso(session.began),
        "folder": str(entry.folder),
        "workers": [as_plain(worker) for worker in entry.record.workers],
    }
    if queue is not None:
        row["jobs"] = {"total": queue.jobs, **{state: getattr(queue, state) for state in _JOB_STATES}}
    return row


def _progress_text(entry: sessions.SessionEntry) -> str:
    """Returns the states of a session's workers, or the progress of a sweep's jobs."""
    queue = entry.record.queue
    return units.tally(worker.state for worker in entry.record.workers) if queue is None else queue.progress()


def _wait_lines(entry: sessions.SessionEntry) -> list[str]:
    """Returns a line for each wait reason of a running session's workers, up to a limit."""
    waiting = [worker for worker in entry.record.workers if worker.state in _WAITING_STATES and worker.reason]
    reasons = {f"{worker.state}, {worker.reason}" for worker in waiting if entry.state == "running"}
    return [
        f"{entry.name}: {reason}".replace(", for ", ", waiting for ") for reason in sorted(reasons)[:_MAX_WAIT_LINES]
    ]


def _alert_lines(entry: sessions.SessionEntry) -> list[str]:
    """Returns a line for each of the most urgent alerts of a running session's workers."""
    if entry.state != "running":
        return []
    slots = {alert: worker.slot for worker in entry.record.workers for alert in worker.alerts}
    most_urgent = by_urgency(urgent(slots))[:_MAX_ALERT_LINES]
    return [f"{entry.name}: {slots[alert]} {alert.headline}" for alert in most_urgent]


def _fps(entry: sessions.SessionEntry) -> float | None:
    """Returns the sum of the workers' current rates; None for a sweep, whose jobs differ, and for an ended session."""
    if entry.state != "running" or entry.record.queue is not None:
        return None
    rates = [worker.fps for worker in entry.record.workers if worker.fps is not None]
    return sum(rates) if rates else None


_COLUMNS = (
    Column[sessions.SessionEntry]("name", lambda entry: entry.name, priority=100, align_left=True),
    Column[sessions.SessionEntry]("state", lambda entry: entry.state, priority=90, align_left=True),
    Column[sessions.SessionEntry](
        "host", lambda entry: entry.host if entry.runs_elsewhere else None, priority=60, align_left=True
    ),
    Column[sessions.SessionEntry](
        "script", lambda entry: Path(entry.record.session.spec.script).name, priority=40, align_left=True
    ),
    Column[sessions.SessionEntry](
        "started",
        lambda entry: f"{units.span(time.time() - entry.record.session.began)} ago",
        priority=50,
        align_left=True,
    ),
    Column[sessions.SessionEntry]("workers", _progress_text, priority=80, align_left=True),
    Column[sessions.SessionEntry]("fps", _fps, "FPS", write=units.fps, priority=70),
)
