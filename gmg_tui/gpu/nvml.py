"""A handle on NVML that survives the loss of a GPU or of the whole driver."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from typing import Any

import pynvml
from msgspec import structs

from gmg_tui.gpu import discovery, metrics
from gmg_tui.gpu.failure import GPU_LOST, LIBRARY_GONE, NvmlUnavailable, gpu_trouble, unavailable
from gmg_tui.gpu.gpm import Gpm
from gmg_tui.gpu.health import Healths
from gmg_tui.gpu.metrics import Asker
from gmg_tui.gpu.xid_events import XidEvents
from gmg_tui.model import Gpu, GpuActivity, GpuHealth, GpuSample

__all__ = ["Nvml", "NvmlUnavailable"]

RETRY_S = 10.0
"""How long to wait before a lost GPU or driver is tried again, seconds."""


class Nvml:
    """One initialisation of NVML.

    GPUs are queried through handles that are looked up by UUID and kept, since a look-up costs more than a query. Any
    method may block for as long as the driver does, and may be called in any thread.
    """

    def __init__(self, retry_s: float = RETRY_S) -> None:
        self.error: str | None = None
        """Why NVML as a whole does not answer at the moment, in one line; None while it does."""
        self.silent: tuple[tuple[int, str], ...] = ()
        """Indices of GPUs that the last `gpus` could not identify, each with the reason in one line."""
        self.indices: dict[str, int] = {}
        """Of the GPUs that the last `gpus` has found, by UUID."""
        self.fixed_indices = False
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._reviving = threading.Lock()
        self._handles: dict[str, Any] = {}
        self._slow: dict[str, GpuSample] = {}
        self._trouble: dict[str, tuple[float, GpuSample]] = {}
        """For each GPU in trouble, when it is tried again, and its sample until then."""
        self._gpms: dict[str, Gpm] = {}
        self._xids: XidEvents | None = None
        self._listen_at = 0.0
        self._healths = Healths()

    @property
    def in_trouble(self) -> bool:
        """Whether a GPU, or NVML as a whole, has not answered lately."""
        return bool(self._trouble) or self.error is not None

    @classmethod
    def open(cls, retry_s: float = RETRY_S) -> Nvml:
        """Initialise NVML. Raises `NvmlUnavailable` if there is no driver, or this user may not use it."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise unavailable(error) from error
        return cls(retry_s)

    def close(self) -> None:
        """Shut NVML down, whether or not it still answers; no other thread may be using it."""
        for gpm in self._gpms.values():
            gpm.free()
        if self._xids is not None:
            self._xids.free()
        self._forget()
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs in the order of their NVML indices; a GPU in MIG mode is followed by its instances.

        A GPU that does not even give its UUID (lost earlier, or not this user's) is in `silent` instead.
        Raises `NvmlUnavailable` when NVML as a whole does not answer.
        """
        self._require()
        try:
            found, self.silent = discovery.discover()
        except pynvml.NVMLError as error:
            raise self._fail(error) from error
        self.indices = {gpu.uuid: gpu.index for gpu in found if gpu.mig_index is None}
        return found

    def index_of(self, uuid: str) -> int:
        """The current NVML index of a GPU, or of the GPU that a MIG instance is on.

        Raises `NvmlUnavailable` when the GPU or NVML as a whole does not answer.
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
            raise NvmlUnavailable(f"{uuid}: {gpu_trouble(error)}") from error

    def driver_version(self) -> str | None:
        """The driver's version as nvidia-smi shows it; None if unknown."""
        return discovery.driver_version()

    def cuda_version(self) -> str | None:
        """The newest CUDA that the driver runs, such as 12.8; None if unknown."""
        return discovery.cuda_version()

    def look(self, gpu: Gpu) -> GpuHealth | None:
        """Read the health of a GPU, or of the GPU that a MIG instance is on; samples have it from then on.

        Returns None where it says nothing of it, or does not answer.
        """
        if self.error is not None:
            return None
        uuid = gpu.parent_uuid or gpu.uuid
        try:
            return self._healths.look(uuid, Asker(self._handle(uuid)))
        except pynvml.NVMLError:
            return None  # `read` tells it, and decides when it is tried again

    def hear(self, gpus: Iterable[Gpu]) -> bool:
        """Take the Xids of these GPUs since the last time; samples have them from then on. Returns whether there were any.

        Call it in one thread only, always with the same GPUs. Does not wait.
        """
        now, any_heard = time.monotonic(), False
        if self.error is not None or now < self._listen_at:
            return False
        try:
            if self._xids is None:
                self._xids = XidEvents(self._handles_of(gpu.parent_uuid or gpu.uuid for gpu in gpus))
            for uuid, code in self._xids.heard():
                self._healths.hear(uuid, code)
                any_heard = True
        except pynvml.NVMLError:  # a GPU is lost: listen anew to those that are left
            if self._xids is not None and self.error is None:
                self._xids.free()
            self._xids = None
            self._listen_at = now + self._retry_s
        return any_heard

    def read(self, gpu: Gpu, *, slow: bool, activity: bool = False) -> GpuSample:
        """A sample of `gpu`. Trouble with the GPU, or with NVML as a whole, is in the sample, never raised.

        Args:
            gpu: The GPU or MIG instance. Instances report their memory and processes; utilisation, power and
                temperature belong to the whole GPU.
            slow: Whether to refresh fan, PCIe, limits and processes too.
            activity: Whether to measure what the GPU does by its own counters: between one read and the next. Read each
                GPU in one thread only then.
        """
        if not self._answers():
            return GpuSample(uuid=gpu.uuid, error=self.error)
        sample = self._sample(gpu, slow, activity)
        health = self._healths.of(gpu.parent_uuid or gpu.uuid)
        return sample if health is None else structs.replace(sample, health=health)

    def _sample(self, gpu: Gpu, slow: bool, activity: bool) -> GpuSample:
        until, said = self._trouble.get(gpu.uuid, (0.0, None))
        if said is not None and time.monotonic() < until:
            return said
        try:
            sample = self._ask(gpu.uuid, slow)
            found = self._activity(gpu) if activity else None
        except pynvml.NVMLError as error:
            if error.value in LIBRARY_GONE:
                return GpuSample(uuid=gpu.uuid, error=str(self._fail(error)))
            return self._set_aside(gpu.uuid, error)
        self._trouble.pop(gpu.uuid, None)
        return sample if found is None else structs.replace(sample, activity=found)

    def _ask(self, uuid: str, slow: bool) -> GpuSample:
        ask = Asker(self._handle(uuid))
        kept = self._slow.get(uuid)
        if slow or kept is None:
            kept = self._slow[uuid] = metrics.slow(ask, uuid)
        sample = metrics.fast(ask, kept)
        if ask.refusal and sample == GpuSample(uuid=uuid):
            return GpuSample(uuid=uuid, error=ask.refusal)
        return sample

    def _handle(self, uuid: str) -> Any:
        handle = self._handles.get(uuid)
        if handle is None:
            handle = self._handles[uuid] = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return handle

    def _handles_of(self, uuids: Iterable[str]) -> dict[str, Any]:
        """The handles of GPUs, each once, without those of GPUs that do not answer."""
        found = {}
        for uuid in dict.fromkeys(uuids):
            with contextlib.suppress(pynvml.NVMLError):
                found[uuid] = self._handle(uuid)
        return found

    def _activity(self, gpu: Gpu) -> GpuActivity | None:
        gpm = self._gpms.get(gpu.uuid)
        if gpm is None:
            instance = gpu.mig_ids[0] if gpu.mig_ids is not None else None
            gpm = self._gpms[gpu.uuid] = Gpm(self._handle(gpu.parent_uuid or gpu.uuid), instance)
        return gpm.read()

    def _set_aside(self, uuid: str, error: pynvml.NVMLError) -> GpuSample:
        """Leave a GPU that does not answer alone for a while, and drop its handle, which stays dead."""
        said = GpuSample(uuid=uuid, lost=error.value in GPU_LOST, error=gpu_trouble(error))
        self._handles.pop(uuid, None)
        self._slow.pop(uuid, None)
        if (gpm := self._gpms.pop(uuid, None)) is not None:
            gpm.free()
        self._trouble[uuid] = (time.monotonic() + self._retry_s, said)
        return said

    def _require(self) -> None:
        if not self._answers():
            raise NvmlUnavailable(self.error)

    def _answers(self) -> bool:
        """Whether NVML may be queried, after an attempt to revive it if one is due."""
        if self.error is None:
            return True
        with self._reviving:
            return self.error is None or self._revive()

    def _revive(self) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        with contextlib.suppress(pynvml.NVMLError):  # whatever is left of the failed initialisation
            pynvml.nvmlShutdown()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._fail(error)
            return False
        self.error = None
        return True

    def _fail(self, error: pynvml.NVMLError) -> NvmlUnavailable:
        """Record that NVML as a whole does not answer: all handles are invalid."""
        trouble = unavailable(error)
        self.error = str(trouble)
        self._retry_at = time.monotonic() + self._retry_s
        self._forget()
        return trouble

    def _forget(self) -> None:
        self._handles.clear()
        self._slow.clear()
        self._trouble.clear()
        # Not freed: another thread may be using it at this moment, and what NVML had is gone anyhow.
        self._gpms, self._xids = {}, None
