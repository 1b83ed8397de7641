"""The jobs and attempts of a session as they were at a moment: what came later is not known yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from gmg_tui.model import (
    Attempt,
    AttemptMetrics,
    Details,
    Gpu,
    JobRecord,
    Lane,
    QueueView,
    Session,
    Settings,
    Slot,
    SlotKind,
    Snapshot,
    TriedView,
    Worker,
    WorkerState,
)
from gmg_tui.results.tried import Ran, TriedArguments
from gmg_tui.store.records import JobAttempt

_NOT_KEPT = "not kept"
_NAMELESS = "GPU"
"""What a GPU is called whose model is not kept."""
_MOST_JOBS = 500
"""So many at most in a part of the queue."""


def with_earlier_slots(session: Session, attempts: Iterable[JobAttempt]) -> Session:
    """The session with the slots that it had before it was resumed with others, as its attempts name them."""
    known, gpus = (
        {slot.name: slot for slot in session.slots},
        {slot.gpu.uuid: slot.gpu for slot in session.slots if slot.gpu},
    )
    for one in attempts:
        if one.slot in known:
            continue
        if one.gpu_uuid is None:
            kind, gpu = SlotKind.CPU, None
        else:
            kind = SlotKind.MIG if one.gpu_uuid.startswith("MIG") else SlotKind.GPU
            gpu = gpus.get(one.gpu_uuid) or Gpu(one.gpu_index or 0, one.gpu_uuid, _NAMELESS)
        known[one.slot] = Slot(one.slot, kind, gpu, one.slot.rpartition("/")[0])
    return structs.replace(session, slots=tuple(known.values()))


def attempt_then(attempt: Attempt, time: float) -> Attempt:
    """An attempt as it was at `time` (Unix seconds), at which it had started."""
    if attempt.ended is None or attempt.ended <= time:
        return attempt
    state = WorkerState.RUNNING if attempt.state.ended else attempt.state
    metrics = attempt.metrics
    if metrics is not None:  # its figures are those of its end
        metrics = AttemptMetrics(
            metrics.attempt, metrics.args, n_envs=metrics.n_envs, given=metrics.given, env=metrics.env
        )
    return structs.replace(attempt, ended=None, exit_code=None, reason=None, state=state, metrics=metrics)


def job_then(job: JobRecord, time: float, workers: Mapping[int, Worker]) -> JobRecord:
    """A job as it was at `time` (Unix seconds); `workers` are those of the jobs that had slots then, by number."""
    worker = workers.get(job.number)
    occupied = worker is not None and not worker.state.ended
    known = job.ended if job.ended is not None else job.started
    if not occupied and (known is None or known <= time):  # one that was skipped has never started: when, is not kept
        return job
    bare = JobRecord(
        job.number,
        job.name,
        job.batch,
        job.values,
        position=job.position,
        only=job.only,
        combination=job.combination,
        gpus=job.gpus,
        world_size=job.world_size,
    )
    if worker is None or (not occupied and (job.started is None or job.started > time)):
        return bare  # or it has run before, and will again: no slot had it then
    ran = structs.replace(
        bare,
        state=WorkerState.RUNNING,
        slot=worker.slot,
        slots=job.slots if worker.slot in job.slots else (),
        gpu_index=job.gpu_index if worker.slot == job.slot else None,
        gpu_uuid=job.gpu_uuid if worker.slot == job.slot else None,
        started=job.started,
        elapsed_s=max(0.0, time - job.started) if job.started is not None else None,
        out_dir=job.out_dir,
        log=job.log,
        attempts=job.attempts,
    )
    return structs.replace(
        ran,
        state=worker.state,
        reason=worker.reason,
        attempts=worker.attempt,
        fps=worker.fps,
        n_envs=worker.n_envs,
        memory_peak_mib=worker.memory_peak_mib,
        gpu_util_mean_pct=worker.gpu_util_mean_pct,
        power_mean_w=worker.power_mean_w,
    )


def queue_view(session: Session, jobs: Iterable[JobRecord], snapshot: Snapshot, first: int, count: int) -> QueueView:
    """A part of a sweep's queue as it was."""
    workers = {worker.job: worker for worker in reversed(snapshot.workers) if worker.job is not None}  # rank 0's
    then = [job_then(job, snapshot.time, workers) for job in jobs]
    order = sorted(then, key=_place)
    first = max(0, min(first, len(order)))
    benched = snapshot.queue.benched if snapshot.queue is not None else {}
    lanes = tuple(
        Lane(
            worker.slot,
            job=worker.job if not worker.state.ended else None,
            waits=worker.reason if worker.state is WorkerState.WAITING else None,
            benched=benched.get(worker.slot),
        )
        for worker in snapshot.workers
    )
    return QueueView(
        version=snapshot.queue.version if snapshot.queue is not None else 0,
        first=first,
        total=len(order),
        jobs=tuple(structs.replace(job, result={}) for job in order[first : first + max(0, min(count, _MOST_JOBS))]),
        lanes=lanes,
        batches=tuple(batch.name for batch in session.spec.sweep.batches) if session.spec.sweep is not None else (),
    )


def _place(job: JobRecord) -> tuple[int, float, int]:
    """Ended ones by their end, then those that run, then those that wait."""
    if job.state.ended:
        return 0, job.ended or 0.0, job.number
    return (2 if job.state is WorkerState.WAITING else 1), job.position, job.number


def tried(session: Session, attempts: Iterable[JobAttempt], time: float) -> TriedView:
    """All that had been tried by `time`, Unix seconds."""
    known, live = TriedArguments(), []
    for one in sorted(attempts, key=lambda one: one.attempt.started):
        if one.attempt.started > time:
            continue
        attempt = attempt_then(one.attempt, time)
        if attempt.ended is not None:
            known.add(one.slot, attempt)
        else:
            slot = session.slot(one.slot)
            live.append(Ran(one.slot, slot.gpu.name if slot is not None and slot.gpu is not None else None, attempt))
    return known.view(live, time)


def details(
    session: Session, worker: Worker, job: JobRecord | None, attempts: Sequence[JobAttempt], time: float
) -> Details:
    """What is kept of the worker's attempts and settings; its environment and its GPU's processes are not."""
    there = [
        attempt_then(one.attempt, time)
        for one in attempts
        if one.slot == worker.slot and one.attempt.started <= time and (worker.job is None or one.job == worker.job)
    ]
    settings = tuple(
        Settings(one.metrics.given if one.metrics.given is not None else one.args, one.metrics.env)
        if one.metrics is not None
        else Settings(one.args)
        for one in there
    )
    spec = session.spec
    script, module = spec.script, spec.module
    if spec.sweep is not None and job is not None and job.batch < len(spec.sweep.batches):
        batch = spec.sweep.batches[job.batch]
        script, module = batch.script, batch.module
    last = settings[-1] if settings else Settings(worker.args)
    return Details(
        slot=worker.slot,
        command=(spec.python, *(("-m",) if module else ()), script, *(there[-1].args if there else worker.args)),
        cwd=spec.cwd,
        env={},
        unset=(_NOT_KEPT,),
        egl=_NOT_KEPT,
        attempts=tuple(there),
        settings=settings,
        args=last.args,
        extra_env=last.env,
    )
