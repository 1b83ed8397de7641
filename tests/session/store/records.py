"""Records as a session makes them, and any that hypothesis can think of."""

from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from msgspec import Struct, structs

from gmg_tui.model import Attempt, Fps, JobRecord, RunSpec, Session, Slot, WorkerState
from gmg_tui.model.states import Moment
from gmg_tui.session.store.database import JobAttempt, MetricsRow, StoreError
from gmg_tui.session.store.reader import load_jobs

START = 1_795_000_000.0


def jobs_so_far(path: Path) -> list[JobRecord]:
    """The jobs of a store; none before it is made, which takes several writes."""
    try:
        return load_jobs(path)
    except StoreError:
        return []


_floats = st.floats(allow_nan=False, allow_infinity=False)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_whole = st.integers(-(2**63), 2**63 - 1)
_plain: dict[object, st.SearchStrategy[Any]] = {
    float: _floats,
    Moment: st.floats(0.0, 2.5e11),
    str: _texts,
    int: _whole,
    bool: st.booleans(),
    type(None): st.none(),
    Any: st.recursive(
        st.none() | st.booleans() | _whole | _floats | _texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
        max_leaves=8,
    ),
}


def _values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of an annotated type; of a struct with any value in each of its fields."""
    if kind in _plain:
        return _plain[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    if isinstance(kind, type) and issubclass(kind, Struct | tuple):
        return st.builds(
            kind, **{name: _values(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
        )
    origin, of = get_origin(kind), get_args(kind)
    if origin is tuple:
        return st.lists(_values(of[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(_texts, _values(of[1]), max_size=4)
    return st.one_of([_values(each) for each in of])


jobs: st.SearchStrategy[JobRecord] = _values(JobRecord).map(lambda job: structs.replace(job, result=job.result or {}))
attempts: st.SearchStrategy[JobAttempt] = _values(JobAttempt)


def metrics(count: int) -> list[MetricsRow]:
    return [MetricsRow(START + n, "cpu0", 1, float(n), None, 10.0, None, None) for n in range(count)]


def session(folder: Path, *, slots: int = 2) -> Session:
    spec = RunSpec(folder.name, str(folder), str(folder / "socket"), "sim.py", (), str(folder), "python")
    return Session(spec, tuple(Slot(f"cpu{n}") for n in range(slots)), 1, START, "1.0.0")


def finished(number: int, **more: Any) -> JobRecord:
    """A job that went well, 10 s after the one before it; the fields of an attempt are those of its last one."""
    begun = START + 10 * number
    rate = Fps(100.0 * number, 90.0 * number, 110.0 * number, 8, 105.0 * number, 810.0 * number, 9.0)
    last: dict[str, Any] = {
        "number": 1,
        "args": ("--lr", "0.1"),
        "given": ("--lr", "0.1"),
        "pid": 1000 + number,
        "started": begun,
        "ended": begun + 9.5,
        "exit_code": 0,
        "state": WorkerState.FINISHED,
        "fps": rate,
        "n_envs": 4096,
    }
    fields: dict[str, Any] = {
        "number": number,
        "name": f"job-{number}",
        "values": {"lr": number / 10, "method": "ode"},
        "state": WorkerState.FINISHED,
        "position": float(number),
        "slot": f"cpu{number % 2}",
        "started": begun,
        "ended": begun + 9.5,
        "elapsed_s": 9.5,
        "log": f"logs/{number:04d}-job-{number}.log",
        "result": {"tm_score": number / 100},
    }
    for name, value in more.items():
        (last if name == "args" or name not in JobRecord.__struct_fields__ else fields)[name] = value
        if name in ("state", "reason", "started", "ended"):
            last[name] = value
    return JobRecord(last=Attempt(**last), **fields)


def attempt_of(job: JobRecord, number: int = 1, **more: Any) -> JobAttempt:
    if "args" in more:
        more["given"] = more["args"]
    attempt = structs.replace(job.last, **{"number": number, "started": job.started or 0.0, "state": job.state, **more})
    return JobAttempt(job.number, job.slot or "cpu0", job.gpu_uuid, attempt, job.log)
