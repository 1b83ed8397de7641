"""What a scrape tells, from snapshots made here."""

from __future__ import annotations

import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gmg_tui.metrics import view as views
from gmg_tui.metrics.collector import SessionsCollector
from gmg_tui.metrics.failure_class import failure_class
from gmg_tui.metrics.following import Following
from gmg_tui.metrics.view import View
from gmg_tui.model import (
    Fps,
    Gpu,
    GpuSample,
    Phase,
    Queue,
    Rank,
    RunSpec,
    Session,
    Slot,
    SlotKind,
    Snapshot,
    SweepSpec,
    Worker,
    WorkerState,
)
from gmg_tui.store.totals import Totals
from tests.metrics.served import samples, value

_GPUS = tuple(Gpu(index, f"GPU-{index}", "H100") for index in range(2))


def _session(*, sweep: SweepSpec | None = None, node: str = "local") -> Session:
    spec = RunSpec("sim-1", "/s", "/s.sock", "sim.py", (), "/", "python", sweep=sweep)
    slots = tuple(Slot(f"gpu{gpu.index}", SlotKind.GPU, gpu, node) for gpu in _GPUS)
    return Session(spec, slots, 1, time.time() - 60, "0.1", id="a")


def _worker(slot: int, state: WorkerState = WorkerState.RUNNING, **more: Any) -> Worker:
    return Worker(f"gpu{slot}", slot, state, **({"attempt": 1} | more))


def _snapshot(*workers: Worker, samples: tuple[GpuSample, ...] = (), queue: Queue | None = None) -> Snapshot:
    return Snapshot(time.time(), 60.0, workers, samples, queue=queue)


class Told:
    """A view, and what a scrape tells of it."""

    def __init__(self, session: Session) -> None:
        self.following = Following((), lambda _: None)
        self.view = self.following.views[session.spec.name] = View(session)
        self._registry = CollectorRegistry()
        self._registry.register(SessionsCollector(self.following))

    def __call__(self, name: str, **labels: str) -> float | None:
        return value(self.text, name, **labels)

    @property
    def text(self) -> str:
        return generate_latest(self._registry).decode()


@pytest.fixture
def told() -> Told:
    return Told(_session())


def test_what_is_not_known_is_absent_and_zero_is_told(told: Told) -> None:
    told.view.take(_snapshot(_worker(0), samples=(GpuSample("GPU-0", gpu_util_pct=0.0, power_w=None),)))
    assert told("gmg_gpu_utilization_ratio", uuid="GPU-0") == 0.0
    for name in ("gmg_gpu_power_watts", "gmg_worker_fps", "gmg_worker_n_envs", "gmg_worker_energy_joules_total"):
        assert samples(told.text, name) == []
    assert "None" not in told.text
    assert '=""' not in told.text


def test_a_rate_that_has_grown_silent_is_not_told(told: Told) -> None:
    fps = Fps(100.0, 90.0, 110.0, 3, settled=95.0)
    told.view.take(_snapshot(_worker(0, fps=fps), _worker(1, fps=fps, fps_silent_s=48.0)))
    assert (told("gmg_worker_fps", slot="gpu0"), told("gmg_worker_fps_settled", slot="gpu0")) == (100.0, 95.0)
    assert told("gmg_worker_fps", slot="gpu1") is None
    assert told("gmg_session_fps") == 95.0


def test_energy_and_lines_never_go_back(told: Told) -> None:
    lines, joules = [], []
    for attempt, energy, count in ((1, 100.0, 10), (1, 250.0, 20), (2, None, 20), (2, 40.0, 30), (2, 60.0, 0)):
        told.view.take(_snapshot(_worker(0, attempt=attempt, energy_j=energy, log_lines=count)))
        lines.append(told("gmg_worker_lines_total", slot="gpu0"))
        joules.append(told("gmg_worker_energy_joules_total", slot="gpu0"))
    assert lines == [10, 20, 20, 30, 30]
    assert joules == [100, 250, 250, 290, 310]


def test_the_slots_of_other_machines_have_their_node() -> None:
    told = Told(_session(node="n1"))
    told.view.take(_snapshot(_worker(0), samples=(GpuSample("GPU-0", power_w=5.0),)))
    assert told("gmg_worker_attempt", node="n1", gpu="0", uuid="GPU-0") == 1
    assert told("gmg_gpu_power_watts", node="n1", gpu="0", uuid="GPU-0") == 5.0


def test_jobs_and_ranks_are_labels(told: Told) -> None:
    told.view.take(_snapshot(_worker(0, job=7, group=Rank("g0", 0, 2)), _worker(1, job=7, group=Rank("g0", 1, 2))))
    assert told("gmg_worker_attempt", slot="gpu0", job="7", rank="0") == 1
    assert told("gmg_worker_attempt", slot="gpu1", job="7", rank="1") == 1


def test_a_sweep_tells_its_jobs_and_how_long_they_wait() -> None:
    told = Told(_session(sweep=SweepSpec(())))
    queue = Queue(5, 2, 3, 1, 0, version=1, eta_s=90.0, busy_s=44.0, before_s=1000.0, benched={"gpu1": "failed"})
    told.view.take(_snapshot(_worker(0, job=4), queue=queue))
    told.view.totals = Totals({"gpu0": 2}, {("gpu0", "out of memory: too much"): 1}, begun=6, waited_s=30.0)
    assert [told("gmg_jobs", state=state) for state in ("waiting", "running", "finished", "failed")] == [5, 2, 3, 1]
    assert (told("gmg_queue_wait_seconds_count"), told("gmg_queue_wait_seconds_sum")) == (6, 30)
    assert told("gmg_queue_longest_wait_seconds") == pytest.approx(1060, abs=30)
    assert told("gmg_queue_eta_seconds") == 90
    assert told("gmg_jobs_busy_seconds_total") == 44
    assert told("gmg_slot_benched", slot="gpu1", uuid="GPU-1") == 1
    assert told("gmg_worker_restarts_total", slot="gpu0") == 2
    assert told("gmg_worker_failures_total", **{"class": "out of memory"}) == 1
    assert told("gmg_session_failures_total") == 1


def test_no_count_is_told_before_it_is_known_and_then_zero(told: Told) -> None:
    told.view.take(_snapshot(_worker(0)))
    assert samples(told.text, "gmg_worker_restarts_total") == samples(told.text, "gmg_session_failures_total") == []
    told.view.totals = Totals()
    assert told("gmg_worker_restarts_total", slot="gpu0") == told("gmg_session_failures_total") == 0


def test_of_an_engine_that_is_silent_only_that_is_told(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    told.view.take(_snapshot(_worker(0)))
    assert told("gmg_session_up") == 1
    monkeypatch.setattr(views, "SILENT_S", -1.0)
    assert told("gmg_session_up") == 0
    assert told("gmg_worker_attempt") is None


def test_of_a_session_that_has_ended_only_its_end_and_its_counts_are_told(told: Told) -> None:
    fps = Fps(100.0, 90.0, 110.0, 3)
    worker = _worker(0, WorkerState.FAILED, fps=fps, phase=Phase.RUNNING, n_envs=16, log_lines=9)
    told.view.take(_snapshot(worker, samples=(GpuSample("GPU-0", power_w=5.0),)))
    told.view.left = time.monotonic()
    assert told("gmg_worker_state", state="failed") == 1
    assert told("gmg_worker_lines_total", slot="gpu0") == 9
    for name in ("gmg_session_up", "gmg_session_fps", "gmg_worker_fps", "gmg_worker_n_envs", "gmg_gpu_power_watts"):
        assert samples(told.text, name) == []


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB.", "out of memory"),
        ("out of memory: 131,072 envs need about 102.3 GiB; about 98,000 fit", "out of memory"),
        ("rank 3: _pickle.UnpicklingError: pickle data was truncated", "cache race"),
        ("Killed by SIGKILL (-9): the host may have run out of memory", "killed"),
        ("timed out after 30 min", "timeout"),
        ("ended with the group: rank 1: ValueError: no", "group"),
        ("ValueError: the robot has 9 joints, 7 were given", "script"),
        ("exit code 3", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_class_of_a_failure(reason: str, expected: str) -> None:
    assert failure_class(reason) == expected
