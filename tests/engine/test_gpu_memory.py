"""Which processes hold the memory of a card after an attempt."""

from __future__ import annotations

import pytest

from gmg_tui.engine.gpus.memory import GpuMemory
from gmg_tui.model import GpuProcess, GpuSample

OURS, STRANGER = 100, 7


def _sample(used_mib: float | None, *pids: int, hidden: bool = False) -> GpuSample:
    processes = None if hidden else tuple(GpuProcess(pid) for pid in pids)
    return GpuSample("GPU-0", memory_used_mib=used_mib, processes=processes)


def _after(*live: GpuSample, before: GpuSample | None, pid: int = OURS) -> GpuMemory:
    """The memory of an attempt that has just ended."""
    memory = GpuMemory("gpu0")
    memory.measure(before, frozenset(), live=False)
    for sample in live:
        memory.measure(sample, {pid}, live=True)
    memory.ended()
    return memory


def _measured(memory: GpuMemory, *samples: GpuSample) -> str | None:
    """What the next attempt has to wait for after `samples`."""
    for sample in samples:
        memory.measure(sample, frozenset(), live=False)
    return memory.awaited()


@pytest.mark.parametrize("before", [_sample(500), None], ids=["known before", "known from the first reading on"])
def test_without_process_names_the_memory_in_use_decides(before: GpuSample | None) -> None:
    memory = _after(_sample(500), _sample(30_000), before=before)
    assert (
        _measured(memory, _sample(30_000))
        == "for 28.8 GiB on gpu0 to be released (the list of its processes shows by whom)"
    )
    assert _measured(memory, _sample(1_900)) is None, "drivers round"
    assert memory.still_taken() is None


def test_the_absence_of_listed_processes_is_sufficient() -> None:
    memory = _after(_sample(500), _sample(30_000, OURS), before=_sample(500))
    assert memory.awaited() is not None, "the last reading still names it"
    assert _measured(memory, _sample(30_000, STRANGER)) is None


def test_processes_present_before_the_attempt_are_not_its_own() -> None:
    host_pid = 4711
    memory = _after(_sample(20_000, STRANGER), _sample(50_000, STRANGER, host_pid), before=_sample(20_000, STRANGER))
    assert _measured(memory, _sample(50_000, STRANGER, host_pid)) is not None
    assert _measured(memory, _sample(24_000, STRANGER)) is None


def test_other_workers_on_the_card_make_it_unknown_unless_processes_are_listed() -> None:
    unnamed = _after(_sample(500), _sample(30_000), before=_sample(500))
    memory = _after(_sample(500), _sample(30_000, OURS), before=_sample(500))
    assert (unnamed.awaited(shared=True), unnamed.still_taken(shared=True)) == (None, None)
    assert memory.awaited(shared=True) is not None


async def test_a_restart_on_a_shared_gpu_does_not_wait_for_the_memory_of_others() -> None:
    """In a container the driver does not name the processes: two thirds of what is used may be the neighbours'."""
    memory = _after(_sample(500, hidden=True), _sample(30_000, hidden=True), before=_sample(500, hidden=True))
    memory.measure(_sample(20_000, hidden=True), frozenset(), live=False)
    waits: list[str] = []
    await memory.released(waits.append, shared=True)
    assert waits == []
    assert memory.still_taken(shared=True) is None
