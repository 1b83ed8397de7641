"""What happens to the health of a session's GPUs, as events of its store: Xids, errors of the memory, links that failed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from gmg_tui import units
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.gpu import xids
from gmg_tui.model import GpuHealth, GpuSample, Slot

XID, HEALTH = "xid", "health"
"""Kinds of events."""
_KNOWN = GpuHealth()


class HealthEvents:
    """Compares each GPU's health with the one before."""

    def __init__(self) -> None:
        self._before: dict[str, GpuHealth] = {}

    def take(
        self, samples: Mapping[str, GpuSample], slot_states: Collection[SlotState]
    ) -> Iterator[tuple[str, str, str]]:
        """What has happened since the last call: the kind, the text, and the first of the GPU's slots.

        An Xid that comes again and again is reported at its first, second, fourth, eighth … time.
        """
        for uuid, sample in samples.items():
            health, before = sample.health, self._before.get(uuid, _KNOWN)
            if health is None or health is before:
                continue
            self._before[uuid] = health
            events = [
                *((XID, text) for text in _xids(health, before)),
                *((HEALTH, text) for text in _rest(health, before)),
            ]
            if events:
                slot = next((slot_state.slot for slot_state in slot_states if _is_on(slot_state.slot, uuid)), None)
                where = f"GPU {slot.gpu.index} ({uuid})" if slot is not None and slot.gpu is not None else uuid
                yield from ((kind, f"{where}: {text}", slot.name if slot is not None else "") for kind, text in events)


def _is_on(slot: Slot, uuid: str) -> bool:
    return slot.gpu is not None and uuid in {slot.gpu.uuid, slot.gpu.parent_uuid}


def _xids(health: GpuHealth, before: GpuHealth) -> Iterator[str]:
    counts = {xid.code: xid.count for xid in before.xids}
    for xid in health.xids:
        earlier = counts.get(xid.code, 0)
        if xid.count.bit_length() > earlier.bit_length():
            meaning = xids.meaning(xid.code)
            times = f" ({units.count(xid.count, 'time')} by now)" if xid.count > 1 else ""
            yield f"Xid {xid.code}{times}: {meaning.text}; {meaning.advice}"


def _rest(health: GpuHealth, before: GpuHealth) -> Iterator[str]:
    counters = (
        ("uncorrected ECC error", health.ecc_uncorrected, before.ecc_uncorrected),
        ("corrected ECC error", health.ecc_corrected, before.ecc_corrected),
        ("recovered NVLink error", health.nvlink_recoveries, before.nvlink_recoveries),
    )
    for name, count, earlier in counters:
        if count is not None and count > (earlier or 0):
            since = "when the session began" if earlier is None else f"{count - earlier:,} more than before"
            yield f"{units.count(count, name)}, {since}"
    if health.remap_pending and not before.remap_pending:
        yield "a memory row waits to be replaced, by the next reset of the GPU"
    if health.remap_failed and not before.remap_failed:
        yield "a memory row cannot be replaced"
