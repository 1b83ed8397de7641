"""NVML, held open: the cards, their figures, and what happens when a card or the whole driver goes away."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import pynvml

from gmg_tui.gpu import discovery, figures
from gmg_tui.gpu.failure import CARD_LOST, LIBRARY_GONE, NvmlUnavailable, card_trouble, unavailable
from gmg_tui.gpu.figures import Asker
from gmg_tui.model import Gpu, GpuReading

__all__ = ["Nvml", "NvmlUnavailable"]

RETRY_S = 10.0
"""How long a lost card, or a driver that went away, is left alone before it is tried again, seconds."""


class Nvml:
    """One initialisation of NVML.

    Cards are asked through handles that are looked up by UUID and kept, since a look-up costs more than a question. Any
    method may block for as long as the driver does, and may be called in any thread.

    Attributes:
        error: Why NVML as a whole does not answer at the moment, in one line; None while it does.
        silent: Indices of cards that the last `cards` could not identify, each with the reason in one line.
    """

    def __init__(self, retry_s: float = RETRY_S) -> None:
        self.error: str | None = None
        self.silent: tuple[tuple[int, str], ...] = ()
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._healing = threading.Lock()
        self._handles: dict[str, Any] = {}
        self._slow: dict[str, GpuReading] = {}
        self._trouble: dict[str, tuple[float, GpuReading]] = {}
        """For each card in trouble, when it is looked up anew and what is said of it until then."""

    @classmethod
    def open(cls, retry_s: float = RETRY_S) -> Nvml:
        """Initialise NVML.

        Args:
            retry_s: Seconds between attempts to reach a lost card or driver.

        Raises:
            NvmlUnavailable: There is no driver, or it does not let this user in.
        """
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise unavailable(error) from error
        return cls(retry_s)

    def close(self) -> None:
        """End this initialisation. Whether NVML still answers does not matter then."""
        self._forget()
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def cards(self) -> tuple[Gpu, ...]:
        """The cards in the order of their NVML indices; a card in MIG mode is followed by its instances.

        A card that does not even give its UUID (lost before now, or not this user's) is not among them but in `silent`.

        Raises:
            NvmlUnavailable: NVML as a whole does not answer.
        """
        self._require()
        try:
            found, self.silent = discovery.discover()
        except pynvml.NVMLError as error:
            raise self._fail(error) from error
        return found

    def index_of(self, uuid: str) -> int:
        """The present NVML index of a card, or of the card that a MIG instance is on.

        Raises:
            NvmlUnavailable: The card or NVML as a whole does not answer.
        """
        self._require()
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            if uuid.startswith("MIG-"):
                handle = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            return int(pynvml.nvmlDeviceGetIndex(handle))
        except pynvml.NVMLError as error:
            if error.value in LIBRARY_GONE:
                raise self._fail(error) from error
            raise NvmlUnavailable(f"{uuid}: {card_trouble(error)}") from error

    def driver_version(self) -> str | None:
        """The driver's version as nvidia-smi shows it; None when NVML does not say."""
        try:
            return str(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError:
            return None

    def read(self, gpu: Gpu, *, slow: bool) -> GpuReading:
        """What `gpu` says now. The trouble of a card, or of NVML as a whole, is in the reading, never raised.

        Args:
            gpu: The card or MIG instance. Instances give their memory and processes; utilisation, power and temperature
                belong to the card as a whole.
            slow: Whether to ask for fan, PCIe, limits and processes too; else these are as asked last.
        """
        if not self._answers():
            return GpuReading(uuid=gpu.uuid, error=self.error)
        until, said = self._trouble.get(gpu.uuid, (0.0, None))
        if said is not None and time.monotonic() < until:
            return said
        try:
            reading = self._ask(gpu.uuid, slow)
        except pynvml.NVMLError as error:
            if error.value in LIBRARY_GONE:
                return GpuReading(uuid=gpu.uuid, error=str(self._fail(error)))
            return self._set_aside(gpu.uuid, error)
        self._trouble.pop(gpu.uuid, None)
        return reading

    def _ask(self, uuid: str, slow: bool) -> GpuReading:
        handle = self._handles.get(uuid)
        if handle is None:
            handle = self._handles[uuid] = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        ask = Asker(handle)
        kept = self._slow.get(uuid)
        if slow or kept is None:
            kept = self._slow[uuid] = figures.slow(ask, uuid)
        reading = figures.fast(ask, kept)
        if ask.refusal and reading == GpuReading(uuid=uuid):
            return GpuReading(uuid=uuid, error=ask.refusal)
        return reading

    def _set_aside(self, uuid: str, error: pynvml.NVMLError) -> GpuReading:
        """Leave a card that does not answer alone for a while; a dead handle stays dead, so it is dropped."""
        said = GpuReading(uuid=uuid, lost=error.value in CARD_LOST, error=card_trouble(error))
        self._handles.pop(uuid, None)
        self._slow.pop(uuid, None)
        self._trouble[uuid] = (time.monotonic() + self._retry_s, said)
        return said

    def _require(self) -> None:
        if not self._answers():
            raise NvmlUnavailable(self.error)

    def _answers(self) -> bool:
        """Whether NVML may be asked, after an attempt to heal it where one is due."""
        if self.error is None:
            return True
        with self._healing:
            return self.error is None or self._heal()

    def _heal(self) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        with contextlib.suppress(pynvml.NVMLError):  # what is left of the initialisation that failed, if anything
            pynvml.nvmlShutdown()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._fail(error)
            return False
        self.error = None
        return True

    def _fail(self, error: pynvml.NVMLError) -> NvmlUnavailable:
        """Note that NVML as a whole does not answer: all handles are void."""
        trouble = unavailable(error)
        self.error = str(trouble)
        self._retry_at = time.monotonic() + self._retry_s
        self._forget()
        return trouble

    def _forget(self) -> None:
        self._handles.clear()
        self._slow.clear()
        self._trouble.clear()
