"""The threads that sample a session's GPUs."""

import logging
import threading
import time
from collections.abc import Callable

from msgspec import structs

from gmg_tui.machine.gpu.driver import Driver
from gmg_tui.model import Gpu, GpuSample

_LOG = logging.getLogger(__name__)

SLOW_INTERVAL_S = 5.0
"""Approximate seconds between two readings of the slow metrics."""
HEALTH_INTERVAL_S = 30.0
_MIN_AGE_S = 1.0
"""Seconds after which a sample records its age."""

Deliver = Callable[[tuple[GpuSample, ...], str | None], None]
"""Receives the samples of all GPUs, and any error of NVML as a whole; called in the sampler's thread."""


class Sampler:
    """Samples every GPU at each interval, in one daemon thread.

    The slow metrics are spread over the rounds. A second thread reads the health, which may take long, every
    `HEALTH_INTERVAL_S` and after an Xid. Failures of NVML never end a thread.
    """

    def __init__(self, gpus: tuple[Gpu, ...], interval_s: float, deliver: Deliver, nvml: Driver) -> None:
        """Prepares to sample `gpus` every `interval_s`. Close `nvml` only after `stop`."""
        self._gpus = gpus
        self._interval_s = interval_s
        self._deliver = deliver
        self._rounds_per_slow = max(1, round(SLOW_INTERVAL_S / interval_s))
        self._nvml = nvml
        self._logged: set[str] = set()
        self._stopping = False
        self._wake, self._check_health = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml-sampler", daemon=True)
        self._health = threading.Thread(target=self._run_health, name="nvml-health", daemon=True)

    def start(self) -> None:
        """Starts sampling at once."""
        self._thread.start()

    def stop(self, wait_s: float = 2.0) -> bool:
        """Ends the threads, waiting at most `wait_s`, as a driver may hang. Returns True if they have ended."""
        self._stopping = True
        self._wake.set()
        self._check_health.set()
        until = time.monotonic() + wait_s
        for thread in (self._thread, self._health):
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        return not (self._thread.is_alive() or self._health.is_alive())

    def _run(self) -> None:
        round_number = 0
        next_at = time.monotonic()
        while not self._stopping:
            self._round(round_number)
            if round_number == 0:
                self._health.start()  # after the first metrics, so as not to delay them
            round_number += 1
            # Skips the rounds missed during a slow one.
            next_at = max(next_at + self._interval_s, time.monotonic())
            self._wake.wait(max(0.0, next_at - time.monotonic()))

    def _run_health(self) -> None:
        gpus = {gpu.parent_uuid or gpu.uuid: gpu for gpu in self._gpus}.values()
        while not self._stopping:
            try:
                for gpu in gpus:
                    if not self._stopping:
                        self._nvml.check_health(gpu)
            except Exception as fault:  # a broken driver may make pynvml or ctypes raise anything
                self._log("the health of the GPUs cannot be read", fault)
            self._check_health.wait(HEALTH_INTERVAL_S)
            if not self._stopping:
                self._check_health.clear()

    def _round(self, round_number: int) -> None:
        # A broken driver may make pynvml or ctypes raise anything, and the receiver's loop may have closed.
        turn = round_number % self._rounds_per_slow
        try:
            if self._nvml.poll_xids(self._gpus):
                self._check_health.set()
            read = []
            for position, gpu in enumerate(self._gpus):
                slow = round_number == 0 or position % self._rounds_per_slow == turn
                read.append((time.monotonic(), self._nvml.read(gpu, slow=slow, activity=True)))
            now, error = time.monotonic(), self._nvml.error
            # A slow GPU ages the samples before its own.
            ages = ((sample, now - at) for at, sample in read)
            samples = tuple(structs.replace(sample, age_s=age) if age >= _MIN_AGE_S else sample for sample, age in ages)
        except Exception as fault:
            error = f"the GPUs cannot be read: {fault!r}"
            samples = tuple(GpuSample(uuid=gpu.uuid, error=error) for gpu in self._gpus)
        try:
            if not self._stopping:
                self._deliver(samples, error)
        except Exception as fault:
            self._log("GPU samples were not delivered", fault)

    def _log(self, text: str, fault: Exception) -> None:
        if repr(fault) not in self._logged:
            self._logged = {repr(fault)}
            _LOG.exception(text)
