"""A session's folder as an engine leaves it: a minute of two workers, one of which fails and is restarted."""

from __future__ import annotations

from pathlib import Path

from gmg_tui.model import (
    Attempt,
    AttemptMetrics,
    Batch,
    Fps,
    JobRecord,
    Queue,
    RunSpec,
    Session,
    Slot,
    SlotKind,
    Snapshot,
    SweepSpec,
    Worker,
    WorkerState,
)
from gmg_tui.session import LOGS, STORE
from gmg_tui.store.moments import Moment
from gmg_tui.store.records import JobAttempt, MetricsRow
from gmg_tui.store.writer import StoreWriter

START = 1_795_244_400.0
LENGTH_S = 60
STEP_S = 10
ARGS = ("-B", "4096")
SLOTS = ("cpu0", "cpu1")


def session_in(folder: Path, *, name: str = "life", sweep: bool = False) -> Session:
    """A session of two CPU slots."""
    spec = RunSpec(
        name,
        str(folder),
        str(folder / "none.sock"),
        "sim.py",
        ARGS,
        str(folder),
        "/opt/venv/bin/python",
        sweep=SweepSpec((Batch("", "sweep.py"),)) if sweep else None,
    )
    return Session(spec, tuple(Slot(slot, SlotKind.CPU) for slot in SLOTS), 4711, START, "0.1.0", id="1f")


def snapshot_at(second: int, *, sweep: bool = False) -> Snapshot:
    """`cpu0` builds, runs from 10 s on and finishes at the end; `cpu1` fails at 30 s and runs again."""
    if second >= LENGTH_S:
        states = WorkerState.FINISHED, WorkerState.STOPPED
    elif second < 10:
        states = WorkerState.BUILDING, WorkerState.BUILDING
    else:
        states = WorkerState.RUNNING, WorkerState.RESTARTING if second == 30 else WorkerState.RUNNING
    workers = tuple(
        Worker(
            slot,
            place,
            state,
            state_s=float(second),
            args=ARGS,
            attempt=1 if second <= 30 else place + 1,
            fps=Fps(1000.0 + second, 900.0, 1100.0, second) if second >= 10 else None,
            n_envs=4096,
            output_bytes=7 * (second // 10) if not sweep else None,
            job=(place + 1 if second < 40 else place + 3) if sweep else None,
            job_name=f"job{place + 1 if second < 40 else place + 3}" if sweep else "",
        )
        for place, (slot, state) in enumerate(zip(SLOTS, states, strict=True))
    )
    queue = Queue(2 if second < 40 else 0, 2, 0 if second < 40 else 2, 0, 0, second) if sweep else None
    return Snapshot(START + second, float(second), workers, queue=queue)


def attempts(*, sweep: bool = False) -> list[JobAttempt]:
    """Of a plain run: one of `cpu0`, two of `cpu1`; of a sweep one of each of four jobs."""
    spans = [(1, 1, "cpu0", 0, 60), (2, 1, "cpu1", 0, 30), (2, 2, "cpu1", 31, 60)]
    if sweep:
        spans = [(1, 1, "cpu0", 0, 39), (2, 1, "cpu1", 0, 38), (3, 1, "cpu0", 40, 60), (4, 1, "cpu1", 40, 60)]
    return [
        JobAttempt(
            job,
            slot,
            None,
            None,
            Attempt(
                number,
                ARGS,
                1000 + job,
                START + begin,
                START + end,
                1 if end == 30 else 0,
                WorkerState.FAILED if end == 30 else WorkerState.FINISHED,
                "it fell over" if end == 30 else None,
                AttemptMetrics(number, ARGS, fps=1000.0, settled=1000.0, n_envs=4096, given=ARGS),
            ),
            log=f"{LOGS}/{f'000{job}-job{job}' if sweep else slot}.log",
        )
        for job, number, slot, begin, end in spans
    ]


def jobs(*, sweep: bool = False) -> list[JobRecord]:
    """Their records, as they ended."""
    if not sweep:
        return []
    return [
        JobRecord(
            one.job,
            f"job{one.job}",
            state=WorkerState.FINISHED,
            position=float(one.job),
            slot=one.slot,
            attempts=1,
            started=one.attempt.started,
            ended=one.attempt.ended,
            elapsed_s=30.0,
            log=one.log,
            fps=Fps(2000.0, 2000.0, 2000.0, 9),
        )
        for one in attempts(sweep=True)
    ]


async def lived(folder: Path, *, sweep: bool = False, moments: bool = True, name: str = "life") -> Session:
    """Write the folder of a session that has ended."""
    session = session_in(folder, name=name, sweep=sweep)
    (folder / LOGS).mkdir(parents=True, exist_ok=True)
    writer = StoreWriter(folder / STORE, lambda text: None)
    writer.start()
    writer.session(session)
    for job in jobs(sweep=sweep):
        writer.job(job)
    for one in attempts(sweep=sweep):
        writer.attempt(one)
        (folder / str(one.log)).write_text("".join(f"line {number} of {one.slot}\n" for number in range(1, 21)))
    for second in range(LENGTH_S):
        writer.metrics(
            [
                MetricsRow(START + second, slot, 1, 1000.0 + second, 2000.0 + second, None, None, None, None)
                for slot in SLOTS
                if second >= 10
            ]
        )
    for second in range(0, LENGTH_S + 1, STEP_S) if moments else ():
        writer.moment(Moment.of(snapshot_at(second, sweep=sweep)))
    await writer.close()
    return session
