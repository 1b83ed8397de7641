"""Records as a session makes them, and any that hypothesis can think of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from gmg_tui.model import Attempt, AttemptMetrics, Fps, JobRecord, RunSpec, Session, Slot, SlotKind, WorkerState
from gmg_tui.store.reader import load_jobs
from gmg_tui.store.records import Event, JobAttempt, MetricsRow, StoreError

START = 1_795_000_000.0


def jobs_so_far(path: Path) -> list[JobRecord]:
    """The jobs of a store; none before it is made, which takes several writes."""
    try:
        return load_jobs(path)
    except StoreError:
        return []


_floats = st.floats(allow_nan=False, allow_infinity=False)
_maybe = st.none() | _floats
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_whole = st.integers(-(2**63), 2**63 - 1)
_states = st.sampled_from(WorkerState)
_json = st.recursive(
    st.none() | st.booleans() | _whole | _floats | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
_fps = st.builds(
    Fps, last=_floats, mean=_floats, max=_floats, samples=st.integers(0, 2**40), settled=_maybe, spread=_maybe
)

jobs = st.builds(
    JobRecord,
    number=st.integers(1, 2**40),
    name=_texts,
    batch=st.integers(0, 9),
    values=st.dictionaries(_texts, st.booleans() | _whole | _floats | _texts, max_size=4),
    state=_states,
    position=_floats,
    reason=st.none() | _texts,
    only=st.none() | _texts,
    combination=_texts,
    slot=st.none() | _texts,
    gpu_index=st.none() | st.integers(0, 63),
    gpu_uuid=st.none() | _texts,
    attempts=st.integers(0, 99),
    exit_code=st.none() | st.integers(-64, 255),
    started=_maybe,
    ended=_maybe,
    elapsed_s=_maybe,
    fps=st.none() | _fps,
    n_envs=st.none() | st.integers(0, 2**40),
    memory_peak_mib=_maybe,
    gpu_util_mean_pct=_maybe,
    power_mean_w=_maybe,
    energy_j=_maybe,
    out_dir=st.none() | _texts,
    log=st.none() | _texts,
    result=st.dictionaries(_texts, _json, max_size=4),
)
attempts = st.builds(
    JobAttempt,
    job=st.integers(1, 2**40),
    slot=_texts,
    gpu_index=st.none() | st.integers(0, 63),
    gpu_uuid=st.none() | _texts,
    attempt=st.builds(
        Attempt,
        number=st.integers(1, 999),
        args=st.lists(_texts, max_size=4).map(tuple),
        pid=st.none() | st.integers(1, 2**22),
        started=_floats,
        ended=_maybe,
        exit_code=st.none() | st.integers(-64, 255),
        state=_states,
        reason=st.none() | _texts,
        metrics=st.none() | st.builds(AttemptMetrics, attempt=st.integers(1, 9), args=st.just(("-B", "4")), fps=_maybe),
    ),
    log=st.none() | _texts,
)
events = st.builds(Event, time=_floats, kind=_texts, text=_texts, slot=st.none() | _texts, job=st.none() | _whole)
metrics = st.builds(MetricsRow, _floats, _texts, st.none() | _whole, *[_maybe] * 7)


def session(folder: Path, *, slots: int = 2) -> Session:
    """A session on CPU slots."""
    spec = RunSpec(folder.name, str(folder), str(folder / "socket"), "sim.py", (), str(folder), "python")
    return Session(spec, tuple(Slot(f"cpu{n}", SlotKind.CPU) for n in range(slots)), 1, START, "0.1.0")


def finished(number: int, **more: Any) -> JobRecord:
    """A job that went well, 10 s after the one before it."""
    begun = START + 10 * number
    fields: dict[str, Any] = {
        "number": number,
        "name": f"job-{number}",
        "values": {"lr": number / 10, "method": "ode"},
        "state": WorkerState.FINISHED,
        "position": float(number),
        "slot": f"cpu{number % 2}",
        "attempts": 1,
        "exit_code": 0,
        "started": begun,
        "ended": begun + 9.5,
        "elapsed_s": 9.5,
        "fps": Fps(last=100.0 * number, mean=90.0 * number, max=110.0 * number, samples=8, settled=105.0 * number),
        "n_envs": 4096,
        "out_dir": f"/results/job-{number}",
        "log": f"logs/{number:04d}-job-{number}.log",
        "result": {"tm_score": number / 100},
    }
    return JobRecord(**{**fields, **more})


def attempt_of(job: JobRecord, number: int = 1, **more: Any) -> JobAttempt:
    """An attempt of `job`."""
    fields: dict[str, Any] = {
        "number": number,
        "args": ("--lr", "0.1"),
        "pid": 1000 + job.number,
        "started": job.started or 0.0,
        "ended": job.ended,
        "exit_code": job.exit_code,
        "state": job.state,
        "reason": job.reason,
    }
    return JobAttempt(
        job.number, job.slot or "cpu0", job.gpu_index, job.gpu_uuid, Attempt(**{**fields, **more}), job.log
    )
