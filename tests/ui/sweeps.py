"""Sweeps at fixed moments: the queue, its jobs, and the slots that take them."""

from typing import Any

from gmg_tui.model import Attempt, Fps, JobRecord, Queue, Snapshot, SweepSpec, Worker, WorkerState
from tests.ui import play, sessions
from tests.ui.fake_engine import FakeEngine
from tests.ui.play import FakedApp
from tests.ui.sessions import NOW
from tests.workers import changed, worker_of

OUT_OF_MEMORY = "CUDA out of memory: 61.4 GiB more were asked for, 12.1 GiB were free"
NO_MEMORY = "for 8.0 GiB of free VRAM (5.1 GiB are free)"
_RUNNING = 3
_SECONDS = 213.0
"""How long each job that has ended took."""


def name_of(number: int) -> str:
    return f"method={('sde', 'ode')[number % 2]}-b{2 ** (number % 5)}"


def jobs(
    count: int = 30, done: int = 12, *, running: int = _RUNNING, failed: tuple[int, ...] = (5,)
) -> list[JobRecord]:
    """A queue in its order: `done` jobs have ended, the next `running` run, the others wait."""
    return [_job(number, done, running, failed) for number in range(1, count + 1)]


def _job(number: int, done: int, running: int, failed: tuple[int, ...]) -> JobRecord:
    values = {"method": ("sde", "ode")[number % 2], "branch_counts": 2 ** (number % 5), "quick": number % 2 == 0}
    job = JobRecord(number, name_of(number), values=values, position=float(number))
    if number > done + running:
        return job
    slot = f"gpu{(number - 1) % _RUNNING}"
    fps = Fps(14_047_310.0 + 1000 * number, 14_000_000.0, 14_100_000.0, 90, settled=14_047_310.0 + 1000 * number)
    log = f"logs/{number:04d}-{job.name}.log"
    begun = changed(job, slot=slot, last=Attempt(1), started=sessions.NOW - 600, log=log)
    if number > done:
        return changed(begun, state=WorkerState.RUNNING)
    if number in failed:
        return changed(
            begun,
            state=WorkerState.FAILED,
            reason=OUT_OF_MEMORY,
            last=Attempt(2, exit_code=1),
            elapsed_s=9.0,
            ended=1.0,
        )
    last = Attempt(1, fps=fps, exit_code=0)
    return changed(begun, state=WorkerState.FINISHED, last=last, elapsed_s=_SECONDS, ended=1.0)


def queue_of(records: list[JobRecord], *, version: int = 1, **changes: Any) -> Queue:
    states = [record.state for record in records]
    counts = {
        "waiting": states.count(WorkerState.WAITING),
        "finished": states.count(WorkerState.FINISHED),
        "failed": states.count(WorkerState.FAILED),
        "stopped": states.count(WorkerState.STOPPED),
    }
    fields: dict[str, Any] = counts | {"eta_s": 252.0, "version": version, **changes}
    return Queue(running=len(states) - sum(counts.values()), **fields)


def workers(records: list[JobRecord], slots: int = 4, second: float = 0.0) -> tuple[Worker, ...]:
    """The workers of the jobs that run, with a time-out; on the slots beside them nobody is."""
    active = [record for record in records if not record.state.ended and record.state is not WorkerState.WAITING]
    by_slot = {record.slot: record for record in active}
    made = []
    for index in range(slots):
        slot = f"gpu{index}"
        job = by_slot.get(slot)
        if job is None:
            made.append(worker_of(slot, index, WorkerState.WAITING, NOW - 61.0, reason=NO_MEMORY))
            continue
        made.append(
            changed(
                sessions.running(index, second=second),
                job=job.number,
                job_name=job.name,
                attempt_started=NOW - 372.0,
                state_since=NOW - 340.0,
            )
        )
    return tuple(made)


def snapshot(records: list[JobRecord], *, slots: int = 4, second: float = 0.0, **changes: Any) -> Snapshot:
    """A sweep of `records` on GPUs, the last of which waits for memory."""
    return Snapshot(
        time=sessions.NOW + second,
        elapsed_s=2467.0 + second,
        workers=workers(records, slots, second),
        samples=tuple(sessions.sample(i, second=second, busy=i < _RUNNING) for i in range(slots)),
        clients=1,
        queue=queue_of(records, **changes),
    )


def ended_snapshot(records: list[JobRecord], slots: int = 4) -> Snapshot:
    last = tuple(
        changed(sessions.running(index), state=WorkerState.FINISHED, job=job.number, job_name=job.name, exit_code=0)
        for index, job in enumerate(records[-slots:])
    )
    queue = queue_of(records, version=9, eta_s=None, ended=True)
    return changed(snapshot(records), workers=last, queue=queue)


def engine(records: list[JobRecord] | None = None, *, slots: int = 4, used: int = 4) -> FakeEngine:
    """An engine whose queue has `records`, on `used` of `slots` GPUs."""
    records = jobs() if records is None else records
    session = sessions.session(slots, name="sweep-1")
    sweep = SweepSpec(file="/home/me/sim/grid.toml", timeout_s=1800.0)
    spec = changed(session.spec, script="experiment.py", args=("--method", "{method}"), sweep=sweep)
    log = {slot.name: sessions.log_of(play.LOG_LINES) for slot in session.slots}
    made = FakeEngine(
        changed(session, spec=spec), snapshot(records, slots=used), recent=sessions.recent(slots), log=log
    )
    made.jobs = records
    return made


def app(of: FakeEngine | None = None, *, ascii_only: bool = False) -> FakedApp:
    return play.app_of(of or engine(), ascii_only=ascii_only)
