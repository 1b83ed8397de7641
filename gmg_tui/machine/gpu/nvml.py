"""Access to NVML that survives the loss of a GPU or of the whole driver."""

import contextlib
import re
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self

import pynvml
from msgspec import structs

from gmg_tui.machine.gpu import driver, health, nvml_metrics
from gmg_tui.machine.gpu.driver import NvmlUnavailable, Query, gpu_trouble, query_text
from gmg_tui.machine.gpu.nvml_metrics import Gpm
from gmg_tui.model import Gpu, GpuHealth, GpuSample

__all__ = ["Nvml", "NvmlUnavailable"]

_MAX_CUDA_VERSION = 99_990
"""The highest plausible CUDA version, 99.99, as NVML encodes it."""
RETRY_S = 10.0
"""Seconds between attempts to reach a lost GPU or driver."""


class _Card:
    """A GPU or MIG instance that has answered. A fatal error invalidates its handle; a new `_Card` then replaces it."""

    def __init__(self, uuid: str) -> None:
        """Raises `pynvml.NVMLError` if it does not answer."""
        self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self.slow_metrics: GpuSample | None = None
        self.gpm: Gpm | None = None
        self.xids: health.XidEvents | None = None

    def free(self) -> None:
        """Frees NVML's memory for this GPU. Call only while NVML answers, or right before shutting it down."""
        if self.gpm is not None:
            self.gpm.free()
        if self.xids is not None:
            self.xids.free()


class Nvml:
    """A connection to NVML, reopened once a lost driver is back.

    Keeps the handles of GPUs, since a look-up by UUID costs more than a query. Any method may block as long as the driver
    does; unless noted, any thread may call it.
    """

    def __init__(self, retry_s: float = RETRY_S) -> None:
        self.error: str | None = None
        """The reason why NVML as a whole does not answer; None while it does."""
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._lock = threading.Lock()
        self._cards: dict[str, _Card] = {}
        """By UUID, like the dictionaries below."""
        self._trouble: dict[str, tuple[float, GpuSample]] = {}
        """The time of the next attempt (monotonic seconds) for each GPU in trouble, and its sample until then."""
        self._healths: dict[str, GpuHealth] = {}
        self._register_at = 0.0
        """The time of the next attempt to register for the Xids of the remaining GPUs, monotonic seconds."""

    @classmethod
    def open(cls, retry_s: float = RETRY_S) -> Self:
        """Initialises NVML. Raises `NvmlUnavailable` if there is no driver, or this user may not use it."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise driver.unavailable_error(error) from error
        return cls(retry_s)

    def close(self) -> None:
        """Shuts NVML down, whether or not it answers. No other thread may be using it."""
        for card in self._cards.values():
            card.free()
        self._forget()
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def gpus(self) -> tuple[Gpu, ...]:
        """Returns the GPUs by index, each followed by its MIG instances. Those without a UUID have a `trouble`.

        Raises `NvmlUnavailable` if NVML as a whole does not answer.
        """
        self._require_nvml()
        gpus: list[Gpu] = []
        try:
            for index in range(pynvml.nvmlDeviceGetCount()):
                try:
                    gpus += _gpu_and_instances(index)
                except (pynvml.NVMLError, NvmlUnavailable) as error:
                    if getattr(error, "value", None) in driver.LIBRARY_GONE:
                        raise
                    gpus.append(Gpu(index, "", "", trouble=gpu_trouble(error)))
        except pynvml.NVMLError as error:
            raise self._fail(error) from error
        return tuple(gpus)

    def index_of(self, uuid: str) -> int:
        """Returns the current NVML index of a GPU. Raises `NvmlUnavailable` if the GPU or NVML does not answer."""
        self._require_nvml()
        try:
            return int(pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(uuid)))
        except pynvml.NVMLError as error:
            if error.value in driver.LIBRARY_GONE:
                raise self._fail(error) from error
            raise NvmlUnavailable(f"{uuid}: {gpu_trouble(error)}") from error

    def check_health(self, gpu: Gpu) -> GpuHealth | None:
        """Reads the health of a GPU, or of a MIG instance's GPU, for later samples.

        Returns None if no health is known, or if the GPU or NVML does not answer.
        """
        if self.error is not None:
            return None
        uuid = gpu.parent_uuid or gpu.uuid
        try:
            current = health.read(Query(self._card(uuid).handle))
        except pynvml.NVMLError:
            return None  # `read` reports the error, and schedules the next attempt
        with self._lock:
            before = self._healths.get(uuid, GpuHealth())
            new = health.judge(structs.replace(current, xids=before.xids))
            if new != GpuHealth():
                self._healths[uuid] = new
            return self._healths.get(uuid)

    def poll_xids(self, gpus: Iterable[Gpu]) -> bool:
        """Adds the new Xids of these GPUs to later samples, without waiting. Returns True if there were any.

        Registers each GPU once it answers. Call from one thread only.
        """
        if self.error is not None:
            return False
        now, any_new = time.monotonic(), False
        may_register = now >= self._register_at
        if may_register:
            self._register_at = now + self._retry_s
        for uuid in dict.fromkeys(gpu.parent_uuid or gpu.uuid for gpu in gpus):
            with contextlib.suppress(pynvml.NVMLError):  # a lost GPU is registered when it is back
                card = self._card(uuid) if may_register else self._cards.get(uuid)
                if card is not None and may_register and (card.xids is None or card.xids.lost):
                    card.xids = health.XidEvents(card.handle)
                for code in card.xids.poll() if card is not None and card.xids is not None else ():
                    with self._lock:
                        self._healths[uuid] = health.with_xid(self._healths.get(uuid, GpuHealth()), code)
                    any_new = True
        return any_new

    def read(self, gpu: Gpu, *, slow: bool, activity: bool = False) -> GpuSample:
        """Returns a sample of `gpu`. Errors of the GPU or of NVML are in the sample, never raised.

        Args:
            gpu: The GPU or MIG instance. Instances report only memory, processes and SM activity.
            slow: True to refresh fan, PCIe, limits and processes too; processes also if the memory in use has changed.
            activity: True to measure SM activity between reads, all of which must then come from one thread.
        """
        if not self._answers():
            return GpuSample(uuid=gpu.uuid, error=self.error)
        sample = self._sample(gpu, slow, activity)
        known = self._healths.get(gpu.parent_uuid or gpu.uuid)
        return sample if known is None else structs.replace(sample, health=known)

    def _sample(self, gpu: Gpu, slow: bool, activity: bool) -> GpuSample:
        until, failed = self._trouble.get(gpu.uuid, (0.0, None))
        if failed is not None and time.monotonic() < until:
            return failed
        try:
            card = self._card(gpu.uuid)
            sample = self._query_sample(card, gpu.uuid, slow)
            if activity:
                if card.gpm is None:
                    card.gpm = Gpm(self._card(gpu.parent_uuid or gpu.uuid).handle, gpu.gpu_instance)
                sample = structs.replace(sample, sm_pct=card.gpm.read())
        except pynvml.NVMLError as error:
            if error.value in driver.LIBRARY_GONE:
                return GpuSample(uuid=gpu.uuid, error=str(self._fail(error)))
            return self._set_aside(gpu, error)
        self._trouble.pop(gpu.uuid, None)
        return sample

    @staticmethod
    def _query_sample(card: _Card, uuid: str, slow: bool) -> GpuSample:
        query = Query(card.handle)
        if slow or card.slow_metrics is None:
            card.slow_metrics = nvml_metrics.read_slow(query, uuid)
        sample = nvml_metrics.read_fast(query, card.slow_metrics)
        card.slow_metrics = nvml_metrics.list_again(query, sample, card.slow_metrics)
        sample = structs.replace(sample, processes=card.slow_metrics.processes)
        if query.refusal and sample == GpuSample(uuid=uuid):
            return GpuSample(uuid=uuid, error=query.refusal)
        return sample

    def _card(self, uuid: str) -> _Card:
        """Returns a GPU or instance. Raises `pynvml.NVMLError` if it does not answer."""
        card = self._cards.get(uuid)
        return self._cards.setdefault(uuid, _Card(uuid)) if card is None else card

    def _set_aside(self, gpu: Gpu, error: pynvml.NVMLError) -> GpuSample:
        """Drops a GPU, or an instance with its GPU, until the next attempt. Returns the sample to use until then."""
        sample = GpuSample(uuid=gpu.uuid, lost=error.value in driver.GPU_LOST, error=gpu_trouble(error))
        for uuid in {gpu.uuid, gpu.parent_uuid or gpu.uuid}:
            if (card := self._cards.pop(uuid, None)) is not None and self.error is None:
                card.free()
        self._trouble[gpu.uuid] = (time.monotonic() + self._retry_s, sample)
        return sample

    def _require_nvml(self) -> None:
        if not self._answers():
            raise NvmlUnavailable(self.error)

    def _answers(self) -> bool:
        """True if NVML can be queried; first tries to revive it if an attempt is due."""
        if self.error is None:
            return True
        with self._lock:
            return self.error is None or self._revive()

    def _revive(self) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        with contextlib.suppress(pynvml.NVMLError):  # close the dead connection first
            pynvml.nvmlShutdown()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._fail(error)
            return False
        self.error = None
        return True

    def _fail(self, error: pynvml.NVMLError) -> NvmlUnavailable:
        """Records that NVML as a whole does not answer. All handles become invalid."""
        trouble = driver.unavailable_error(error)
        self.error = str(trouble)
        self._retry_at = time.monotonic() + self._retry_s
        self._forget()
        return trouble

    def _forget(self) -> None:
        # Not freed: another thread may be using them, and NVML has lost them anyway.
        self._cards, self._trouble, self._register_at = {}, {}, 0.0


def open_nvml() -> tuple[Nvml, tuple[Gpu, ...]]:
    """Opens NVML. Returns it with the GPUs. Raises `NvmlUnavailable` if it does not answer, or not in time."""
    return driver.call_driver(lambda: (nvml := Nvml.open(), nvml.gpus()))


def driver_version() -> str | None:
    """Returns the driver's version as nvidia-smi shows it; None if unknown."""
    try:
        return query_text(pynvml.nvmlSystemGetDriverVersion) or None
    except pynvml.NVMLError:
        return None


def cuda_version() -> str | None:
    """Returns the newest CUDA version that the driver supports, such as 12.8; None if unknown."""
    try:
        version = driver.if_plausible(int(pynvml.nvmlSystemGetCudaDriverVersion_v2()), _MAX_CUDA_VERSION)
    except pynvml.NVMLError:
        return None
    return f"{version // 1000}.{version % 1000 // 10}" if version else None


def _gpu_and_instances(index: int) -> list[Gpu]:
    """Returns a GPU and its MIG instances. Raises `pynvml.NVMLError` or `NvmlUnavailable` if the GPU has no UUID."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    query = Query(handle)
    pci = query(pynvml.nvmlDeviceGetPciInfo)
    persistence = query(pynvml.nvmlDeviceGetPersistenceMode)
    mig_mode = query(pynvml.nvmlDeviceGetMigMode)
    gpu = Gpu(
        index=index,
        uuid=_uuid(handle),
        name=query.text(pynvml.nvmlDeviceGetName) or "unknown GPU",
        pci_bus_id=(query_text(lambda: pci.busId) or None) if pci else None,
        memory_total_mib=nvml_metrics.memory_total_mib(query),
        power_limit_w=nvml_metrics.power_limit_w(query),
        persistence=None if persistence is None else bool(persistence),
        driver=driver_version(),
        cuda=cuda_version(),
        mig=bool(mig_mode and mig_mode[0]),
    )
    return [gpu, *(_instances(gpu, handle) if gpu.mig else ())]


def _uuid(handle: Any) -> str:
    """Returns the UUID. Raises `pynvml.NVMLError`, or `NvmlUnavailable` for an invalid one."""
    uuid = query_text(pynvml.nvmlDeviceGetUUID, handle)
    if not re.fullmatch(r"[!-~]+", uuid):
        raise NvmlUnavailable(f"NVML reports no valid UUID: {uuid!r}")
    return uuid


def _instances(gpu: Gpu, handle: Any) -> Iterator[Gpu]:
    for mig_index in range(Query(handle)(pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0):
        instance = Query(handle)(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, mig_index)
        if instance is None:  # indices may have gaps
            continue
        query = Query(instance)
        try:
            uuid = _uuid(instance)
        except (pynvml.NVMLError, NvmlUnavailable) as error:
            if getattr(error, "value", None) in driver.FATAL:
                raise
            yield Gpu(gpu.index, "", "", mig_index=mig_index, trouble=gpu_trouble(error))
            continue
        yield structs.replace(
            gpu,
            uuid=uuid,
            name=query.text(pynvml.nvmlDeviceGetName) or "unknown MIG instance",
            memory_total_mib=nvml_metrics.memory_total_mib(query),
            power_limit_w=None,
            mig=False,
            mig_index=mig_index,
            parent_uuid=gpu.uuid,
            gpu_instance=query(pynvml.nvmlDeviceGetGpuInstanceId),
        )
