"""Tunings as they look at different moments, on made-up GPUs with a usual curve: flat, then linear, then full."""

from typing import Any

from gmg_tui.model import (
    Fps,
    Gpu,
    JobRecord,
    Phase,
    Queue,
    RunSpec,
    Session,
    Slot,
    Snapshot,
    SweepSpec,
    Worker,
    WorkerState,
)
from gmg_tui.model.tuning import (
    Answer,
    Best,
    Edge,
    MemoryLine,
    Together,
    Trial,
    TrialKind,
    TrialState,
    TuneSpec,
    Tuning,
)
from tests.workers import changed as replace
from tests.workers import worker_of

NOW = 1_795_244_467.0
H100 = "NVIDIA H100 80GB HBM3"
OUT_OF_MEMORY = "CUDA out of memory: 1.2 GiB more were asked for, 0.4 GiB were free"
ARGS = ("-B", "{n_envs}", "--seed", "{seed}")
SPEC = TuneSpec()
EIGHT = tuple(f"gpu{i}" for i in range(8))
MEMORY = MemoryLine(430.0, 0.79, 19_200)
_SLOW = {"gpu5": 0.92, "gpu2": 1.004}
_FIXED_S, _EACH_S = 4.757e-4, 5.94e-8


def rate_at(value: int, slot: str = "gpu0") -> float:
    """The true rate; beyond 17,000 it falls."""
    rate = value / (_FIXED_S + _EACH_S * value)
    return rate * (0.955 if value > 17_000 else 1.0) * _SLOW.get(slot, 1.0)


def measured(number: int, value: int, slot: str, kind: TrialKind = TrialKind.LADDER, **changes: Any) -> Trial:
    """A trial that has its rate, to within 1 %."""
    rate = rate_at(value, slot)
    trial = Trial(
        number,
        value,
        slot,
        kind,
        TrialState.MEASURED,
        rate,
        margin_pct=0.9,
        memory_mib=430.0 + 0.79 * value,
        gpu_util_pct=min(97.0, 40.0 + value / 200),
        power_w=min(610.0, 210.0 + value / 30),
        start_s=41.0,
        measured_s=12.0,
    )
    return replace(trial, **changes)


def started(number: int, value: int, slot: str, kind: TrialKind = TrialKind.LADDER, **changes: Any) -> Trial:
    return replace(Trial(number, value, slot, kind, TrialState.RUNNING), **changes)


def measuring(number: int, value: int, slot: str, kind: TrialKind = TrialKind.LADDER, **changes: Any) -> Trial:
    """A trial that is being measured, so far to within 4 %."""
    rate = rate_at(value, slot)
    fields = {"rate": rate, "margin_pct": 3.6, "start_s": 40.0, "measured_s": 9.0}
    return replace(started(number, value, slot, kind), **{**fields, **changes})


def best(value: int) -> Best:
    rate = rate_at(value)
    return Best(value, rate, 0.6, 430.0 + 0.79 * value, 97.0, 610.0)


FIRST = Tuning(
    SPEC, "doubled values, while that is faster", (started(1, 64, "gpu0", TrialKind.LADDER),), Answer(H100, EIGHT)
)
"""All values are unknown."""

_LADDER = (
    measured(1, 64, "gpu0", TrialKind.LADDER),
    measured(2, 256, "gpu1"),
    measured(3, 1024, "gpu2"),
    measured(4, 4096, "gpu3"),
    measuring(5, 8192, "gpu4"),
    started(6, 16_384, "gpu5"),
    measuring(7, 4096, "gpu6", TrialKind.COMMON),
    Trial(8, 4096, "gpu0", TrialKind.COMMON, TrialState.WAITING),
)
LADDER = Tuning(
    SPEC,
    "ladder: up to 16,384",
    _LADDER,
    Answer(H100, EIGHT, best(4096), best(4096), best(4096), memory=MEMORY),
    eta_s=312.0,
    command=("gmg-tui", "franka.py", "-B", "4096", "--seed", "{seed}"),
)
"""Eight slots, half of them measured, and the memory as a line."""

_REFINED = (
    *_LADDER[:4],
    measured(5, 8192, "gpu4"),
    measured(6, 16_384, "gpu5"),
    measured(7, 4096, "gpu6", TrialKind.COMMON),
    measured(8, 4096, "gpu0", TrialKind.COMMON),
    measured(9, 4096, "gpu5", TrialKind.COMMON),
    Trial(10, 20_000, "gpu7", TrialKind.LADDER, TrialState.FAILED, reason=OUT_OF_MEMORY, start_s=38.0),
    measured(11, 12_288, "gpu1", TrialKind.REFINE),
    measured(12, 18_000, "gpu3", TrialKind.REFINE),
    measured(13, 17_000, "gpu2", TrialKind.REFINE),
    Trial(14, 15_000, "gpu6", TrialKind.REFINE, TrialState.SKIPPED, reason="gpu6 was throttled: measured again"),
)
_EDGE = Edge(20_000, OUT_OF_MEMORY)
_FOUND = Answer(
    H100,
    EIGHT,
    best(15_000),
    best(17_000),
    best(18_000),
    _EDGE,
    MEMORY,
    factors={"gpu5": 0.92},
    warnings=("gpu5 is 8 % slower than the other GPUs of its model",),
)
_COMMAND = ("gmg-tui", "franka.py", "-B", "15000", "--seed", "{seed}")
EDGE = Tuning(
    SPEC,
    "refining between 12,288 and 18,000",
    (*_REFINED, measuring(15, 15_000, "gpu0", TrialKind.REFINE)),
    replace(_FOUND, recommended=best(16_384)),
    eta_s=140.0,
    command=_COMMAND,
)
"""A value that ran out of memory, and one that was skipped."""

_CONFIRMED = (*_REFINED, measured(15, 15_000, "gpu0", TrialKind.REFINE))
CONFIRMING = Tuning(
    SPEC,
    "confirming 17,000 and 18,000 on exchanged GPUs",
    (*_CONFIRMED, measuring(16, 17_000, "gpu3", TrialKind.CONFIRM), measuring(17, 18_000, "gpu2", TrialKind.CONFIRM)),
    _FOUND,
    eta_s=95.0,
    command=_COMMAND,
)

_LAST = (*_CONFIRMED, measured(16, 17_000, "gpu3", TrialKind.CONFIRM), measured(17, 18_000, "gpu2", TrialKind.CONFIRM))

_RATES = {slot: 0.989 * rate_at(15_000, slot) for slot in EIGHT}
_TOTAL = sum(_RATES.values())
_WITH_TOTAL = replace(_FOUND, together=Together(15_000, _TOTAL, 0.4, 98.9, _RATES))
ENDED = Tuning(
    SPEC,
    "found in 00:11:20",
    (*_LAST, *(measured(18 + i, 15_000, slot, TrialKind.TOGETHER) for i, slot in enumerate(EIGHT))),
    _WITH_TOTAL,
    ended=True,
    command=_COMMAND,
)

CUSTOM = Tuning(
    TuneSpec("bs", 8, 512, "samples_s"),
    "found in 00:03:02",
    tuple(
        Trial(
            number,
            value,
            f"cpu{number % 2}",
            TrialKind.LADDER,
            TrialState.MEASURED,
            rate,
            rate * 0.99,
            rate * 1.01,
            start_s=4.0,
            measured_s=8.0,
        )
        for number, (value, rate) in enumerate([(8, 40.1), (16, 48.2), (32, 51.3), (64, 51.8), (128, 49.9)], 1)
    ),
    Answer(
        "CPU", ("cpu0", "cpu1"), Best(32, 51.3, 0.8), Best(64, 51.8, 0.8), Best(128, 49.9, 0.8), factors={"cpu1": 0.99}
    ),
    ended=True,
    command=("gmg-tui", "--cpu", "2", "train.py", "32"),
)
"""A metric of the script's own, on shares of the CPU: neither memory nor utilisation nor power is known."""


def session(tuning: Tuning, name: str = "tune-1") -> Session:
    slots = []
    answer = tuning.answer
    for slot in answer.slots:
        if answer.model == "CPU":
            slots.append(Slot(slot))
            continue
        index = int(slot[3:])
        gpu = Gpu(index, f"GPU-{index:08d}", answer.model, f"00000000:{index:02X}:00.0", 81559, 700.0)
        slots.append(Slot(slot, gpu))
    on_cpu = slots[0].gpu is None
    script, args = ("train.py", ("{bs}",)) if on_cpu else ("franka.py", ARGS)
    spec = RunSpec(
        name=name,
        folder=f"/home/me/.local/state/gmg-tui/sessions/{name}",
        socket=f"/run/user/1000/gmg-tui/{name}.sock",
        script=script,
        args=args,
        cwd="/home/me/sim",
        python="/opt/venv/bin/python",
        cpu=len(slots) if on_cpu else None,
        sweep=SweepSpec(),
        tune=tuning.spec,
    )
    return Session(spec, tuple(slots), engine_pid=4711, started=NOW - 680, version="1.0.0")


def worker(trial: Trial, index: int) -> Worker:
    """What runs a trial: it compiles until there is a rate."""
    of = worker_of(
        trial.slot, index, WorkerState.COMPILING, NOW - 21.0, job=trial.number, job_name=str(trial.value), attempt=1
    )
    if trial.rate is None:
        return replace(
            of,
            phase=Phase.COMPILING,
            phase_since=NOW - 21.0,
            phase_usual_s=34.0,
            pid=50_000 + index,
            attempt_started=NOW - 30.0,
        )
    fps = Fps(trial.rate, trial.rate, trial.rate, 90, trial.rate)
    running = replace(
        of, state=WorkerState.RUNNING, phase=Phase.RUNNING, phase_since=NOW - 9.0, fps=fps, n_envs=trial.value
    )
    return replace(running, pid=50_000 + index, attempt_started=NOW - 49.0)


def record(trial: Trial, name: str) -> JobRecord:
    """The job that a trial is."""
    states = {
        TrialState.WAITING: WorkerState.WAITING,
        TrialState.RUNNING: WorkerState.RUNNING,
        TrialState.FAILED: WorkerState.FAILED,
    }
    state = states.get(trial.state, WorkerState.FINISHED)
    slot = None if state is WorkerState.WAITING else trial.slot
    return JobRecord(trial.number, f"{name}={trial.value}", state=state, slot=slot, reason=trial.reason)


def snapshot(tuning: Tuning, second: float = 0.0) -> Snapshot:
    slots = [slot.name for slot in session(tuning).slots]
    live = [trial for trial in tuning.trials if trial.state is TrialState.RUNNING]
    states = [trial.state for trial in tuning.trials]
    queue = Queue(
        waiting=states.count(TrialState.WAITING),
        running=len(live),
        finished=states.count(TrialState.MEASURED),
        failed=states.count(TrialState.FAILED),
        stopped=states.count(TrialState.SKIPPED),
        version=len(states),
        ended=tuning.ended,
    )
    workers = tuple(worker(trial, slots.index(trial.slot)) for trial in live)
    return Snapshot(NOW + second, 680.0 + second, workers, clients=1, queue=queue, tuning=tuning)
