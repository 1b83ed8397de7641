"""The sampler's thread on the simulated driver."""

import queue
from collections.abc import Callable

from gmg_tui.machine.gpu import nvml_metrics
from gmg_tui.machine.gpu.nvml import Nvml
from gmg_tui.machine.gpu.sampler import SLOW_INTERVAL_S, Sampler
from gmg_tui.model import Gpu, GpuSample
from tests.nvml_sim import Sim
from tests.nvml_sim.child import on_simulated_driver
from tests.patience import LONG_S

TICK_S = 0.02
Round = tuple[tuple[GpuSample, ...], str | None]


class Rounds:
    """Collects the rounds of a sampler."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Round] = queue.SimpleQueue()

    def __call__(self, samples: tuple[GpuSample, ...], error: str | None) -> None:
        self._queue.put((samples, error))

    def next(self) -> Round:
        return self._queue.get(timeout=LONG_S)

    def until(self, wanted: Callable[[Round], bool]) -> Round:
        while not wanted(batch := self.next()):
            pass
        return batch


def cards() -> tuple[Gpu, ...]:
    nvml = Nvml.open()
    try:
        return nvml.gpus()
    finally:
        nvml.close()


@on_simulated_driver
def test_every_round_reads_every_card_after_a_single_initialisation(sim: Sim) -> None:
    gpus, rounds = cards(), Rounds()
    sim.record()
    nvml = Nvml.open()
    thread = Sampler(gpus, TICK_S, rounds, nvml)
    thread.start()
    assert [sample.gpu_util_pct for sample in rounds.next()[0]] == [gpu.gpu_util_pct for gpu in sim.gpus]
    sim.gpus[5].gpu_util_pct = 3
    sim.write()
    samples, error = rounds.until(lambda batch: batch[0][5].gpu_util_pct == 3)
    assert error is None
    assert [sample.uuid for sample in samples] == [gpu.uuid for gpu in gpus]
    assert thread.stop()
    nvml.close()
    calls = sim.calls()
    assert calls.count("nvmlInitWithFlags") == calls.count("nvmlShutdown") == 1
    assert calls.count("nvmlDeviceGetHandleByUUID") == len(gpus)


@on_simulated_driver
def test_the_first_round_reads_everything_and_slow_metrics_are_spread_over_the_next(sim: Sim) -> None:
    counts: queue.SimpleQueue[int] = queue.SimpleQueue()
    gpus = cards()
    sim.record()
    # Called in the sampler's thread after each round, so the log holds the calls of that round alone.
    thread = Sampler(
        gpus, SLOW_INTERVAL_S / 250, lambda *_: counts.put(sim.calls().count("nvmlDeviceGetFanSpeed")), Nvml.open()
    )
    thread.start()
    assert [counts.get(timeout=LONG_S) for _ in range(10)] == [8, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert thread.stop()


@on_simulated_driver
def test_the_thread_survives_unexpected_exceptions(sim: Sim) -> None:
    gpus, rounds = cards(), Rounds()
    deliveries = 0

    def deliver(samples: tuple[GpuSample, ...], error: str | None) -> None:
        nonlocal deliveries
        deliveries += 1
        if deliveries == 1:
            raise RuntimeError("Event loop is closed")
        rounds(samples, error)

    thread = Sampler(gpus, TICK_S, deliver, Nvml.open())
    thread.start()
    rounds.next()
    real = nvml_metrics.read_fast
    setattr(nvml_metrics, "read_fast", lambda *_: 1 // 0)  # noqa: B010
    _, error = rounds.until(lambda batch: batch[1] is not None)
    assert "ZeroDivisionError" in (error or "")
    nvml_metrics.read_fast = real
    rounds.until(lambda batch: batch[1] is None and batch[0][0].gpu_util_pct == 90)
    assert thread.stop()


@on_simulated_driver
def test_a_hanging_driver_blocks_neither_stop_nor_exit(sim: Sim) -> None:
    gpus, nvml = cards(), Nvml.open()
    sim.delay_ms = 3_600_000
    sim.write()
    thread = Sampler(gpus, TICK_S, lambda *_: None, nvml)
    thread.start()
    assert not thread.stop(wait_s=0.05)
