"""Sessions with a store, as an engine leaves them."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from gmg_tui import session as sessions
from gmg_tui.model import Fps, JobRecord, Snapshot, WorkerState
from gmg_tui.results.json_csv_export import export
from gmg_tui.session import STORE
from gmg_tui.session.store.database import AttemptCurves, JobAttempt, MetricsRow
from gmg_tui.session.store.writer import StoreWriter
from tests.cli.scripted import in_process
from tests.session.store import records
from tests.workers import worker_of

HOSTILE = "</script><script>document.title='stolen'</script><b>x</b>\x1b]0;stolen\x07"
"""A hostile name."""


def jobs(count: int) -> list[JobRecord]:
    """Returns jobs, of which every fifth has failed."""
    bad = {"state": WorkerState.FAILED, "exit_code": 1, "reason": "out of memory", "result": {}}
    return [records.finished(number, **(bad if number % 5 == 0 else {})) for number in range(1, count + 1)]


def metrics(count: int = 300, *, cards: bool = True) -> list[MetricsRow]:
    card = (90.0, 30211.0, 612.5, 61.0) if cards else (None, None, None, None)
    return [
        MetricsRow(records.START + second, f"cpu{slot}", 1 + second // 20, 1010.0 + second, *card)
        for second in range(count)
        for slot in range(2)
    ]


async def session(
    name: str,
    listed: Iterable[JobRecord],
    *,
    attempts: Iterable[JobAttempt] | None = None,
    rows: Sequence[MetricsRow | AttemptCurves] = (),
    ended: bool = True,
    started: float = records.START,
    spec: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    snapshot: Snapshot | None = None,
) -> Path:
    """Make a session with this store; its folder. Without `ended` it counts as lost.

    `spec` and `about` change fields of its `RunSpec` and its `Session`.
    """
    listed = list(listed)
    folder = sessions.create(name, "sim.py")
    session = records.session(folder)
    session = structs.replace(
        session, spec=structs.replace(session.spec, **(spec or {})), started=started, **(about or {})
    )
    sessions.write_record(sessions.Record(session, (), time.time() if ended else None))
    printed: list[str | None] = []
    writer = StoreWriter(folder / STORE, printed.append, export=lambda: export(session))
    writer.start()
    for job in listed:
        writer.put(job)
    for attempt in [records.attempt_of(job) for job in listed if job.started] if attempts is None else attempts:
        writer.put(attempt)
    writer.put(*rows)
    if snapshot is not None:
        writer.put(snapshot)
    await writer.close()
    assert printed == []
    return folder


def snapshot(**rates: float | None) -> Snapshot:
    """The end of a plain run with these rates by slot; None for a worker that has failed."""
    workers = (
        worker_of(
            slot,
            index,
            WorkerState.FAILED if rate is None else WorkerState.STOPPED,
            fps=None if rate is None else Fps(rate, rate, rate, 100, rate),
        )
        for index, (slot, rate) in enumerate(rates.items())
    )
    return Snapshot(records.START + 100, 100.0, tuple(workers))


def report(*words: str) -> tuple[str, str, int]:
    """Returns the standard output, standard error and exit status of `gmg-tui report`."""
    return in_process("report", *words)
