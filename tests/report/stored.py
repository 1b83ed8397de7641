"""Sessions with a store, as an engine leaves them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import new_session
from gmg_tui import session as sessions
from gmg_tui.model import Batch, JobRecord, SweepSpec, WorkerState
from gmg_tui.results import Results
from gmg_tui.session import STORE
from gmg_tui.store.records import Event, JobAttempt, MetricsRow
from gmg_tui.store.writer import StoreWriter
from tests.store import records

HOSTILE = "</script><script>document.title='stolen'</script><b>x</b>\x1b]0;stolen\x07"
"""What a worker may call anything."""


def jobs(count: int) -> list[JobRecord]:
    """Jobs that went well, but for each fifth."""
    bad = {"state": WorkerState.FAILED, "exit_code": 1, "reason": "out of memory", "result": {}}
    return [records.finished(number, **(bad if number % 5 == 0 else {})) for number in range(1, count + 1)]


def metrics(count: int = 300, *, cards: bool = True) -> list[MetricsRow]:
    """Figures of two slots, one each second."""
    card = (90.0, 30211.0, 612.5, 61.0) if cards else (None, None, None, None)
    return [
        MetricsRow(records.START + second, f"cpu{slot}", 1 + second // 20, 1000.0 + second, 1010.0 + second, *card)
        for second in range(count)
        for slot in range(2)
    ]


async def session(
    name: str,
    listed: Iterable[JobRecord],
    *,
    attempts: Iterable[JobAttempt] | None = None,
    rows: Sequence[MetricsRow] = (),
    events: Iterable[Event] = (),
    ended: bool = True,
    best: str | None = None,
    started: float = records.START,
    spec: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Make a session with this store; its folder. Without `ended` it counts as lost.

    `spec` and `about` are what its `RunSpec` and its `Session` say differently.
    """
    listed = list(listed)
    _, folder = new_session.create(name, "sim.py")
    session = records.session(folder)
    if best is not None:
        session = structs.replace(session, spec=structs.replace(session.spec, sweep=SweepSpec((Batch(),), best=best)))
    session = structs.replace(
        session, spec=structs.replace(session.spec, **(spec or {})), started=started, **(about or {})
    )
    sessions.write_record(sessions.Record(session, (), time.time() if ended else None))
    said: list[str | None] = []
    writer = StoreWriter(folder / STORE, said.append, results=Results(folder))
    writer.start()
    writer.session(session)
    for job in listed:
        writer.job(job)
    for one in [records.attempt_of(job) for job in listed if job.started] if attempts is None else attempts:
        writer.attempt(one)
    for event in events:
        writer.event(event)
    writer.metrics(rows)
    await writer.close()
    assert said == []
    return folder
