"""The thread that asks all cards of a session, again and again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from gmg_tui.gpu.nvml import RETRY_S, Nvml, NvmlUnavailable
from gmg_tui.model import Gpu, GpuReading

_LOG = logging.getLogger(__name__)

SLOW_S = 5.0
"""About how often the figures that change seldom or cost much are asked for, seconds."""

Deliver = Callable[[tuple[GpuReading, ...], str | None], None]
"""Takes the readings of all cards, and why NVML as a whole does not answer; called in the sampler's thread."""


class Sampler:
    """Asks every card at each interval, in one daemon thread with one initialisation of NVML.

    The slow figures of the cards are spread over the intervals, so that no single round asks all of them. What NVML does
    never ends the thread: a card's trouble is in its reading, all other trouble in the line beside the readings.
    """

    def __init__(
        self,
        gpus: tuple[Gpu, ...],
        interval_s: float,
        deliver: Deliver,
        retry_s: float = RETRY_S,
        nvml: Nvml | None = None,
    ) -> None:
        """Prepare; nothing is asked before `start`.

        Args:
            gpus: The cards and MIG instances to ask.
            interval_s: Seconds from one round to the next.
            deliver: Takes each round.
            retry_s: Seconds between attempts to reach a lost card or driver.
            nvml: NVML that is open already, which its owner closes after `stop`; without it the thread opens its own.
        """
        self._gpus = gpus
        self._interval_s = interval_s
        self._deliver = deliver
        self._retry_s = retry_s
        self._rounds_per_slow = max(1, round(SLOW_S / interval_s))
        self._nvml = nvml
        self._owner = nvml is None
        self._open_at = 0.0
        self._error: str | None = None
        self._logged = ""
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="nvml-sampler", daemon=True)

    def start(self) -> None:
        """Begin; the first round follows at once."""
        self._thread.start()

    def stop(self, wait_s: float = 2.0) -> bool:
        """End the thread.

        Args:
            wait_s: How long to wait for it at most; a driver that hangs keeps the thread, which ends with the process.

        Returns:
            Whether it has ended.
        """
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        next_at = time.monotonic()
        while not self._stopping:
            self._round(number)
            number += 1
            # A round that took longer than the interval is not made up for.
            next_at = max(next_at + self._interval_s, time.monotonic())
            self._wake.wait(max(0.0, next_at - time.monotonic()))
            self._wake.clear()
        if self._nvml is not None and self._owner:
            self._nvml.close()

    def _round(self, number: int) -> None:
        # A broken driver may make pynvml or ctypes raise anything, and the receiver's loop may just have closed; the
        # next round must come all the same.
        try:
            readings = self._read(number)
        except Exception as fault:
            self._error = f"reading the GPUs fails: {fault!r}"
            readings = self._silent()
        try:
            if not self._stopping:
                self._deliver(readings, self._error)
        except Exception as fault:
            if repr(fault) != self._logged:
                _LOG.exception("GPU readings were not taken")
                self._logged = repr(fault)

    def _read(self, number: int) -> tuple[GpuReading, ...]:
        nvml = self._opened()
        if nvml is None:
            return self._silent()
        turn = number % self._rounds_per_slow
        readings = tuple(
            nvml.read(gpu, slow=number == 0 or place % self._rounds_per_slow == turn)
            for place, gpu in enumerate(self._gpus)
        )
        self._error = nvml.error
        return readings

    def _silent(self) -> tuple[GpuReading, ...]:
        return tuple(GpuReading(uuid=gpu.uuid, error=self._error) for gpu in self._gpus)

    def _opened(self) -> Nvml | None:
        if self._nvml is None and time.monotonic() >= self._open_at:
            try:
                self._nvml = Nvml.open(self._retry_s)
            except NvmlUnavailable as trouble:
                self._error = str(trouble)
                self._open_at = time.monotonic() + self._retry_s
        return self._nvml
