"""Which cards and MIG instances there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pynvml

from gmg_tui.gpu import figures
from gmg_tui.gpu.failure import LIBRARY_GONE, card_trouble
from gmg_tui.gpu.figures import Asker
from gmg_tui.model import Gpu


def discover() -> tuple[tuple[Gpu, ...], tuple[tuple[int, str], ...]]:
    """All cards by index, each followed by its MIG instances, and the indices that do not answer, each with the reason.

    Raises:
        pynvml.NVMLError: NVML as a whole does not answer.
    """
    found: list[Gpu] = []
    silent: list[tuple[int, str]] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            found += _card(index)
        except pynvml.NVMLError as error:
            if error.value in LIBRARY_GONE:
                raise
            silent.append((index, card_trouble(error)))
    return tuple(found), tuple(silent)


def _card(index: int) -> list[Gpu]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    ask = Asker(handle)
    pci = ask(pynvml.nvmlDeviceGetPciInfo)
    persistence = ask(pynvml.nvmlDeviceGetPersistenceMode)
    mig_mode = ask(pynvml.nvmlDeviceGetMigMode)
    card = Gpu(
        index=index,
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=ask(pynvml.nvmlDeviceGetName) or "unknown GPU",
        pci_bus_id=_text(pci.busId) if pci else None,
        memory_total_mib=figures.memory_total_mib(ask),
        power_limit_w=figures.power_limit_w(ask),
        persistence=None if persistence is None else bool(persistence),
        mig=bool(mig_mode and mig_mode[0]),
    )
    return [card, *(_instances(card, handle) if card.mig else ())]


def _instances(card: Gpu, handle: Any) -> Iterator[Gpu]:
    for mig_index in range(Asker(handle)(pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0):
        instance = Asker(handle)(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, mig_index)
        if instance is None:  # indices may have gaps
            continue
        ask = Asker(instance)
        yield Gpu(
            index=card.index,
            uuid=pynvml.nvmlDeviceGetUUID(instance),
            name=ask(pynvml.nvmlDeviceGetName) or "unknown MIG instance",
            pci_bus_id=card.pci_bus_id,
            memory_total_mib=figures.memory_total_mib(ask),
            persistence=card.persistence,
            mig_index=mig_index,
            parent_uuid=card.uuid,
        )


def _text(value: bytes | str) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value
