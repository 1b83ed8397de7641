"""The thread that looks at the health of a session's GPUs."""

from __future__ import annotations

import logging
import threading

from gmg_tui.gpu.driver import Driver
from gmg_tui.model import Gpu

_LOG = logging.getLogger(__name__)

EVERY_S = 30.0


class HealthWatch:
    """Looks at each GPU every `EVERY_S`, or when asked to, in a daemon thread of its own.

    The counters may take the driver long, and the metrics of each second must not wait for them.
    """

    def __init__(self, nvml: Driver, gpus: tuple[Gpu, ...]) -> None:
        self._nvml = nvml
        self._gpus = tuple({gpu.parent_uuid or gpu.uuid: gpu for gpu in gpus}.values())
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="nvml-health", daemon=True)

    def start(self) -> None:
        """Look at once, and from then on."""
        self._thread.start()

    def look(self) -> None:
        """Look soon, as something has happened."""
        self._wake.set()

    def stop(self, wait_s: float) -> bool:
        """End the thread, waiting for `wait_s` at most, as a driver may hang. Returns whether it has ended."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        said = ""
        while not self._stopping:
            try:
                for gpu in self._gpus:
                    if not self._stopping:
                        self._nvml.look(gpu)
            except Exception as fault:  # a broken driver may make pynvml or ctypes raise anything
                if repr(fault) != said:
                    _LOG.exception("the health of the GPUs cannot be read")
                    said = repr(fault)
            self._wake.wait(EVERY_S)
            self._wake.clear()
