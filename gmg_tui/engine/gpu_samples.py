"""The newest samples of a session's GPUs, and their age."""

from collections.abc import Iterable, Iterator

from msgspec import structs

from gmg_tui.machine.gpu.driver import LATE_S, NO_ANSWER, SILENT_S
from gmg_tui.model import GpuSample

_LATE_INTERVALS = 2.0
_SILENT_INTERVALS = 3.0
"""Sampling intervals before a sample counts as late, and a GPU as silent."""


class GpuSamples:
    """The newest sample of each GPU.

    Args:
        uuids: The GPUs' UUIDs.
        interval_s: Expected sampling interval.
        now: The start of sampling, monotonic seconds like all moments here.
    """

    def __init__(self, uuids: Iterable[str], interval_s: float, now: float) -> None:
        self._late_s = max(LATE_S, _LATE_INTERVALS * interval_s)
        self._silent_s = max(SILENT_S, _SILENT_INTERVALS * interval_s)
        self._read_at = dict.fromkeys(uuids, now)
        self.newest: dict[str, GpuSample] = {}
        """The samples by UUID; values that the driver has not updated for too long are unknown."""

    def update(self, samples: Iterable[GpuSample], now: float) -> None:
        """Applies the sampler's newest samples."""
        for sample in samples:
            self._read_at[sample.uuid] = now - (sample.age_s or 0.0)
            self.newest[sample.uuid] = structs.replace(sample, age_s=None)

    def expire(self, now: float) -> bool:
        """Drops samples that are too old, but keeps lost GPUs lost. Returns True if any was dropped."""
        before = dict(self.newest)
        for uuid, read_at in self._read_at.items():
            sample = before.get(uuid)
            if now - read_at >= self._silent_s and (sample is None or not sample.lost):
                self.newest[uuid] = GpuSample(uuid=uuid, error=NO_ANSWER)
        return self.newest != before

    def current(self, now: float) -> Iterator[GpuSample]:
        """Yields the samples; late ones with metrics, or that had them, carry their age."""
        for uuid, sample in self.newest.items():
            age_s = now - self._read_at[uuid]
            late = age_s >= self._late_s and sample.error in (None, NO_ANSWER)
            yield structs.replace(sample, age_s=age_s) if late else sample
