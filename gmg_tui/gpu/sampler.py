"""The thread that samples a session's GPUs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from msgspec import structs

from gmg_tui.gpu.driver import Driver
from gmg_tui.gpu.health_watch import HealthWatch
from gmg_tui.model import Gpu, GpuSample

_LOG = logging.getLogger(__name__)

SLOW_S = 5.0
"""About how often the slow metrics are refreshed, seconds."""

_AGE_S = 1.0
"""How long before the end of its round a sample was read, where that is worth telling."""

Deliver = Callable[[tuple[GpuSample, ...], str | None], None]
"""Takes the samples of all GPUs, and why NVML as a whole does not answer; called in the sampler's thread."""


class Sampler:
    """Samples every GPU at each interval, in one daemon thread.

    The slow metrics are spread over the intervals, so that no single round refreshes all of them. NVML's failures never
    end the thread: a GPU's trouble is in its sample, any other in the line beside the samples.
    """

    def __init__(self, gpus: tuple[Gpu, ...], interval_s: float, deliver: Deliver, nvml: Driver) -> None:
        """Prepare to sample `gpus` every `interval_s`; the owner of `nvml` closes it after `stop`."""
        self._gpus = gpus
        self._interval_s = interval_s
        self._deliver = deliver
        self._rounds_per_slow = max(1, round(SLOW_S / interval_s))
        self._nvml = nvml
        self._health = HealthWatch(nvml, gpus)
        self._logged = ""
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="nvml-sampler", daemon=True)

    def start(self) -> None:
        """Start; the first round follows at once."""
        self._thread.start()

    def stop(self, wait_s: float = 2.0) -> bool:
        """End the thread, waiting for `wait_s` at most, as a driver may hang. Returns whether it has ended."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        # One that hangs has used up the time.
        alive = self._thread.is_alive()
        return self._health.stop(0.0 if alive else wait_s) and not alive

    def _run(self) -> None:
        number = 0
        next_at = time.monotonic()
        while not self._stopping:
            self._round(number)
            if number == 0:
                self._health.start()  # the handles are known by now, and the first metrics are not kept waiting
            number += 1
            # No catching up after a round that took longer than the interval.
            next_at = max(next_at + self._interval_s, time.monotonic())
            self._wake.wait(max(0.0, next_at - time.monotonic()))
            self._wake.clear()

    def _read(self, gpu: Gpu, *, slow: bool) -> GpuSample:
        return self._nvml.read(gpu, slow=slow, activity=True)

    def _round(self, number: int) -> None:
        # A broken driver may make pynvml or ctypes raise anything, and the receiver's loop may have closed; the next
        # round must come nevertheless.
        turn = number % self._rounds_per_slow
        try:
            if self._nvml.hear(self._gpus):
                self._health.look()
            read = [
                (time.monotonic(), self._read(gpu, slow=number == 0 or position % self._rounds_per_slow == turn))
                for position, gpu in enumerate(self._gpus)
            ]
            now, error = time.monotonic(), self._nvml.error
            samples = tuple(_with_age(sample, now - asked_at) for asked_at, sample in read)
        except Exception as fault:
            error = f"reading the GPUs fails: {fault!r}"
            samples = tuple(GpuSample(uuid=gpu.uuid, error=error) for gpu in self._gpus)
        try:
            if not self._stopping:
                self._deliver(samples, error)
        except Exception as fault:
            if repr(fault) != self._logged:
                _LOG.exception("GPU samples were not taken")
                self._logged = repr(fault)


def _with_age(sample: GpuSample, age_s: float) -> GpuSample:
    """The sample as it is delivered: GPUs that answer slowly make those before them wait."""
    return structs.replace(sample, age_s=age_s) if age_s >= _AGE_S else sample
