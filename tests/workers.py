"""Workers with an attempt, made from one list of fields."""

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec import Struct, structs

from gmg_tui.diagnosis.facts import Facts
from gmg_tui.diagnosis.kinds import KINDS, Watch
from gmg_tui.model import Alert, Attempt, Fps, GpuSample, RunSpec, Session, Sign, Slot, Worker, WorkerState
from gmg_tui.model.alert import by_urgency

_S = TypeVar("_S", bound=Struct)
_NUMBERED = {"attempt": "number", "attempt_started": "started", "attempt_ended": "ended"}
_OF_ATTEMPT = frozenset(Attempt.__struct_fields__) - {"state", "reason", "alerts"} | _NUMBERED.keys()


def alerts(since: float = 0.0, **texts: str) -> tuple[Alert, ...]:
    """Alerts, by kind."""
    return tuple(Alert(kind, KINDS[kind].severity, text, since) for kind, text in texts.items())


def diagnosed(worker: Worker, sample: GpuSample | None, now: float = 0.0, **facts: Any) -> Worker:
    """A worker with the alerts that its GPU's sample raises within some seconds."""
    watch = Watch()
    for moment in (now - 9, now):
        watch.update(Facts(moment, worker, sample, **facts))
    return structs.replace(worker, alerts=by_urgency((*worker.alerts, *watch.alerts)))


def texts(of: Iterable[Alert | Sign]) -> tuple[str, ...]:
    """The texts of alerts, or of their signs."""
    return tuple(alert.text for alert in of)


def worker_of(slot: str, index: int, state: WorkerState, *rest: Any, **fields: Any) -> Worker:
    """A worker; the fields of an attempt become those of its newest one, which is number 1 if none is given."""
    args = fields.pop("args", ()) if fields.keys().isdisjoint(_OF_ATTEMPT - {"args"}) else ()
    of_attempt = {name: fields.pop(name) for name in list(fields) if name in _OF_ATTEMPT}
    made = structs.replace(Worker(slot, index, state, *rest), **{"newest": Attempt(0, args), **fields})
    return changed(made, **of_attempt) if of_attempt else made


def changed(struct: _S, **fields: Any) -> _S:
    """`struct` with other fields; those of a worker's attempt are changed there."""
    if not isinstance(struct, Worker):
        return structs.replace(struct, **fields)
    of_attempt = {_NUMBERED.get(name, name): fields.pop(name) for name in list(fields) if name in _OF_ATTEMPT}
    newest = fields.pop("newest", struct.newest)
    if of_attempt:
        newest = structs.replace(newest, **{"number": newest.number or 1, **of_attempt})
    return structs.replace(struct, newest=newest, **fields)


def reached(
    number: int,
    args: tuple[str, ...] = (),
    fps: Fps | None = None,
    n_envs: int | None = None,
    gpu_util_pct: float | None = None,
    memory_peak_mib: float | None = None,
    power_w: float | None = None,
    **more: Any,
) -> Attempt:
    """An attempt, by what it has reached."""
    if fps is not None and fps.mean is not None and power_w is not None:
        fps = structs.replace(fps, env_steps=60 * fps.mean, seconds=60.0, energy_j=60 * power_w)
    made = Attempt(number, args, given=args, fps=fps, n_envs=n_envs, memory_peak_mib=memory_peak_mib)
    return structs.replace(made, gpu_util_mean_pct=gpu_util_pct, power_mean_w=power_w, **more)


def session_of(*slots: str | Slot, name: str = "sim-1", started: float = 0.0, **spec: Any) -> Session:
    """A session on these slots, which are shares of the CPU where only a name is given."""
    made = tuple(slot if isinstance(slot, Slot) else Slot(slot) for slot in slots)
    run_spec = RunSpec(name, f"/state/{name}", f"/run/{name}.sock", "sim.py", (), "/", "python", **spec)
    return Session(run_spec, made, 1, started, "0")
