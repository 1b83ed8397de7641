"""The content of a scrape, by constructed snapshots."""

import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gmg_tui.model import Fps, Gpu, GpuSample, Queue, Rank, Slot, Snapshot, Worker, WorkerState
from gmg_tui.results import prometheus as collector
from gmg_tui.results.prometheus import SessionsCollector, SessionView
from tests.results.metrics.served import samples, value
from tests.workers import alerts, session_of, worker_of

_GPUS = tuple(Gpu(index, f"GPU-{index}", "H100") for index in range(2))
_FPS = Fps(100.0, 90.0, 110.0, 3, settled=95.0)


class Scrape:
    """A session, and its part of a scrape."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, node: str = "") -> None:
        slots = tuple(Slot(f"gpu{gpu.index}", gpu, node) for gpu in _GPUS)
        session = session_of(*slots, started=time.time() - 60)
        self.snapshot: Snapshot | None = None

        async def views() -> list[SessionView]:
            return [(session, self.snapshot)]

        monkeypatch.setattr(collector, "_views", views)
        self._registry = CollectorRegistry()
        self._registry.register(SessionsCollector())

    def update(self, *workers: Worker, sample: GpuSample | None = None, queue: Queue | None = None) -> None:
        samples = (sample,) if sample is not None else ()
        self.snapshot = Snapshot(time.time(), 60.0, workers, samples, queue=queue)

    def __call__(self, name: str, **labels: str) -> float | None:
        return value(self.text, name, **labels)

    @property
    def text(self) -> str:
        return generate_latest(self._registry).decode()


@pytest.fixture
def scrape(monkeypatch: pytest.MonkeyPatch) -> Scrape:
    return Scrape(monkeypatch)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """The attempts in the session's store, which has one job, too."""
    attempts: list[SimpleNamespace] = []
    job = SimpleNamespace(slot="gpu0", energy_j=300.0)
    stored = SimpleNamespace(attempts={1: attempts}, iter_jobs=lambda: [job])
    monkeypatch.setattr(collector, "open_store", lambda *_: nullcontext(stored))
    return attempts


def _ran(number: int, state: WorkerState) -> SimpleNamespace:
    return SimpleNamespace(slot="gpu0", attempt=SimpleNamespace(number=number, state=state))


def _worker(slot: int, state: WorkerState = WorkerState.RUNNING, **more: Any) -> Worker:
    return worker_of(f"gpu{slot}", slot, state, **({"attempt": 1} | more))


def test_unknown_values_are_absent_and_zeros_are_exported(scrape: Scrape) -> None:
    scrape.update(_worker(0), sample=GpuSample("GPU-0", gpu_util_pct=0.0, power_w=None))
    assert scrape("gmg_gpu_utilization_ratio", uuid="GPU-0") == 0.0
    for name in ("gmg_gpu_power_watts", "gmg_worker_fps", "gmg_worker_n_envs", "gmg_worker_restarts_total"):
        assert samples(scrape.text, name) == []
    assert "None" not in scrape.text
    assert '=""' not in scrape.text


def test_an_outdated_rate_is_absent(scrape: Scrape) -> None:
    scrape.update(
        _worker(0, fps=_FPS, metrics={"reward": 1.5}), _worker(1, fps=_FPS, alerts=alerts(48.0, silent="no FPS line"))
    )
    assert (scrape("gmg_worker_fps", slot="gpu0"), scrape("gmg_worker_fps_mean", slot="gpu0")) == (95.0, 90.0)
    assert scrape("gmg_worker_fps", slot="gpu1") is None
    assert scrape("gmg_session_fps") == 95.0
    assert scrape("gmg_worker_metric", slot="gpu0", metric="reward") == 1.5


def test_names_with_control_characters_do_not_break_a_scrape(scrape: Scrape) -> None:
    scrape.update(_worker(0, metrics={"a\0b\r\x1b[31m": 1.0, "a\0b\r": 2.0, 'x"} 3\n': 4.0, "\x1b[2J": 5.0}))
    assert not {"\0", "\r", "\x1b"} & set(scrape.text)
    assert scrape("gmg_worker_metric", metric='x"} 3\n') == 4.0
    assert len(samples(scrape.text, "gmg_worker_metric")) == 3, "no two samples with the same labels"


def test_nodes_jobs_and_ranks_are_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    scrape = Scrape(monkeypatch, node="n1")
    ranks = (_worker(rank, job=7, group=Rank("g0", rank, 2)) for rank in range(2))
    scrape.update(*ranks, sample=GpuSample("GPU-0", power_w=5.0))
    assert scrape("gmg_worker_attempt", node="n1", slot="gpu0", gpu="0", uuid="GPU-0", gmg_job="7", rank="0") == 1
    assert scrape("gmg_worker_attempt", slot="gpu1", gmg_job="7", rank="1") == 1
    assert scrape("gmg_gpu_power_watts", node="n1", gpu="0", uuid="GPU-0") == 5.0


def test_jobs_and_counters(scrape: Scrape, attempts: list[SimpleNamespace]) -> None:
    scrape.update(_worker(0, job=4), queue=Queue(5, 2, 3, 1, 0, version=1, eta_s=90.0))
    assert scrape("gmg_worker_restarts_total", slot="gpu0") == scrape("gmg_session_failures_total") == 0
    attempts += [_ran(1, WorkerState.FAILED), _ran(2, WorkerState.STOPPED), _ran(3, WorkerState.RUNNING)]
    assert [scrape("gmg_jobs", state=state) for state in ("waiting", "running", "finished", "failed")] == [5, 2, 3, 1]
    assert scrape("gmg_queue_eta_seconds") == 90
    assert scrape("gmg_worker_restarts_total", slot="gpu0") == 2
    assert scrape("gmg_session_failures_total") == 1
    assert scrape("gmg_worker_energy_joules_total", slot="gpu0") == 300
    assert samples(scrape.text, "gmg_worker_energy_joules_total")[0][0]["slot"] == "gpu0"


def test_a_silent_engine_is_exported_as_down(scrape: Scrape) -> None:
    assert scrape("gmg_session_up") == 0
    scrape.update(_worker(0))
    assert scrape("gmg_session_up") == 1


def test_ended_workers_export_their_end_and_their_counters(scrape: Scrape) -> None:
    scrape.update(_worker(0, WorkerState.FAILED, fps=_FPS, n_envs=16, log_lines=9))
    assert scrape("gmg_worker_state", state="failed") == 1
    assert scrape("gmg_worker_lines_total", slot="gpu0") == 9
    for name in ("gmg_session_fps", "gmg_worker_fps", "gmg_worker_n_envs"):
        assert samples(scrape.text, name) == []
