"""The newest samples of a session's GPUs, and their age."""

from collections.abc import Iterable, Iterator

from msgspec import structs

from gmg_tui.machine.gpu.driver import LATE_S, NO_ANSWER, SILENT_S
from gmg_tui.model import GpuSample

_LATE_INTERVALS = 2.0
_SILENT_INTERVALS = 3.0
"""GPUs that are sampled rarely have older samples; this many intervals do not count as silence."""


class GpuSamples:
    """The newest sample of each GPU.

    Args:
        uuids: The GPUs'.
        interval_s: How often they should be sampled, seconds.
        now: The start of sampling, monotonic seconds as all moments here.
    """

    def __init__(self, uuids: Iterable[str], interval_s: float, now: float) -> None:
        self._late_s = max(LATE_S, _LATE_INTERVALS * interval_s)
        self._silent_s = max(SILENT_S, _SILENT_INTERVALS * interval_s)
        self._read_at = dict.fromkeys(uuids, now)
        self.newest: dict[str, GpuSample] = {}
        """The samples by UUID; values that the driver has not answered for too long are unknown."""

    def update(self, samples: Iterable[GpuSample], now: float) -> None:
        """Applies the sampler's newest samples."""
        for sample in samples:
            self._read_at[sample.uuid] = now - (sample.age_s or 0.0)
            self.newest[sample.uuid] = structs.replace(sample, age_s=None)

    def expire(self, now: float) -> bool:
        """Drops samples that are too old, but not that a GPU is lost. Returns True if any was."""
        before = dict(self.newest)
        for uuid, read_at in self._read_at.items():
            sample = before.get(uuid)
            if now - read_at >= self._silent_s and (sample is None or not sample.lost):
                self.newest[uuid] = GpuSample(uuid=uuid, error=NO_ANSWER)
        return self.newest != before

    def current(self, now: float) -> Iterator[GpuSample]:
        """Yields the samples; those that have metrics, or had, and are late have their age."""
        for uuid, sample in self.newest.items():
            age_s = now - self._read_at[uuid]
            late = age_s >= self._late_s and sample.error in (None, NO_ANSWER)
            yield structs.replace(sample, age_s=age_s) if late else sample
