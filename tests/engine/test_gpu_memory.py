"""The GPU memory of an attempt and of other processes, as NVML lists it."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from msgspec import structs

from gmg_tui.engine.attempts import gpu_use
from gmg_tui.engine.attempts.gpu_use import GpuMemory
from gmg_tui.engine.scheduling.packing import crowding
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.model import NO_ATTEMPT, Gpu, GpuProcess, GpuSample, Slot, TuneSpec
from gmg_tui.model.tuning import TrialState
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from tests.nvml_sim import Process, Sim

from .harness import program, running, sweep_for

OURS, STRANGER = 100, 7


def _sample(used_mib: float | None, *pids: int, hidden: bool = False) -> GpuSample:
    processes = None if hidden else tuple(GpuProcess(pid) for pid in pids)
    return GpuSample("GPU-0", memory_used_mib=used_mib, processes=processes)


def _after(*live: GpuSample, before: GpuSample | None, pid: int = OURS) -> GpuMemory:
    memory = GpuMemory("gpu0")
    memory.measure(before, frozenset(), live=False)
    for sample in live:
        memory.measure(sample, {pid}, live=True)
    memory.mark_ended()
    return memory


def _measured(memory: GpuMemory, *samples: GpuSample) -> str | None:
    """What the next attempt has to wait for after `samples`."""
    for sample in samples:
        memory.measure(sample, frozenset(), live=False)
    return memory.wait_reason()


@pytest.mark.parametrize("before", [_sample(500), None], ids=["known before", "known from the first reading on"])
def test_without_process_names_the_memory_in_use_decides(before: GpuSample | None) -> None:
    memory = _after(_sample(500), _sample(30_000), before=before)
    assert _measured(memory, _sample(30_000)) == "for 28.8 GiB on gpu0 to be released (see its process list)"
    assert _measured(memory, _sample(1_900)) is None, "drivers round"
    assert memory.unreleased_warning() is None


def test_the_absence_of_listed_processes_is_sufficient() -> None:
    memory = _after(_sample(500), _sample(30_000, OURS), before=_sample(500))
    assert memory.wait_reason() is not None, "the last reading still names it"
    assert _measured(memory, _sample(30_000, STRANGER)) is None


def test_processes_present_before_the_attempt_are_not_its_own() -> None:
    host_pid = 4711
    memory = _after(_sample(20_000, STRANGER), _sample(50_000, STRANGER, host_pid), before=_sample(20_000, STRANGER))
    assert _measured(memory, _sample(50_000, STRANGER, host_pid)) is not None
    assert _measured(memory, _sample(24_000, STRANGER)) is None


def test_other_workers_on_the_card_make_it_unknown_unless_processes_are_listed() -> None:
    unnamed = _after(_sample(500), _sample(30_000), before=_sample(500))
    memory = _after(_sample(500), _sample(30_000, OURS), before=_sample(500))
    unnamed.shared = memory.shared = True
    assert (unnamed.wait_reason(), unnamed.unreleased_warning()) == (None, None)
    assert memory.wait_reason() is not None


def test_peak_memory_counts_only_the_processes_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_use, "_LIST_DELAY_S", 0.0)
    other = GpuProcess(STRANGER, memory_mib=4000.0)

    def peak_mib(*own_mib: float | None, shared: bool = False, before: Sequence[GpuProcess] = (other,)) -> float | None:
        memory = GpuMemory("gpu0")
        memory.measure(GpuSample("u", memory_used_mib=500.0 + 4000.0 * len(before), processes=tuple(before)))
        memory.shared = shared
        for used_mib, mib in zip((9000.0, 700.0), own_mib, strict=True):
            processes = (GpuProcess(1, memory_mib=mib), other)
            memory.measure(GpuSample("u", memory_used_mib=used_mib, processes=processes), {1}, live=True)
        return memory.peak_mib

    assert (peak_mib(3000.0, 2000.0, shared=True), peak_mib(None, None, shared=True)) == (3000.0, None)
    assert (peak_mib(3000.0, 2000.0), peak_mib(None, None)) == (3000.0, 4500.0)
    assert (peak_mib(3000.0, 2000.0, before=()), peak_mib(None, None, before=())) == (3000.0, 4500.0)


@pytest.mark.parametrize(("pids", "peak_mib"), [((), 8500.0), ((400_001,), 8500.0), ((400_001, 400_002), None)])
def test_in_a_container_peak_memory_is_unknown_once_another_process_may_have_come(
    monkeypatch: pytest.MonkeyPatch, pids: tuple[int, ...], peak_mib: float | None
) -> None:
    monkeypatch.setattr(gpu_use, "_LIST_DELAY_S", 0.0)
    memory = GpuMemory("gpu0")

    def measure(used_mib: float, earlier_mib: float, *pids: int) -> None:
        sizes_mib = {STRANGER: earlier_mib} | dict.fromkeys(pids, 4000.0)
        processes = tuple(GpuProcess(pid, memory_mib=mib, foreign=True) for pid, mib in sizes_mib.items())
        memory.measure(GpuSample("u", memory_used_mib=used_mib, processes=processes), {1}, live=True)

    measure(500.0, 400.0)
    for pid in pids:  # one after the other
        measure(9000.0, 400.0, pid)
    measure(50_000.0, 41_400.0)  # the earlier process grows
    assert (memory.peak_mib, memory.used_mib) == (peak_mib, None)


async def test_a_restart_on_a_shared_gpu_does_not_wait_for_the_memory_of_others() -> None:
    """In a container the driver does not name the processes: two thirds of what is used may be the neighbours'."""
    memory = _after(_sample(500, hidden=True), _sample(30_000, hidden=True), before=_sample(500, hidden=True))
    memory.measure(_sample(20_000, hidden=True), frozenset(), live=False)
    waits: list[str] = []
    memory.shared = True
    await memory.wait_for_release(waits.append)
    assert waits == []
    assert memory.unreleased_warning() is None


async def test_a_gpu_whose_memory_others_use_does_not_drain_the_queue(sim: Sim, tmp_path: Path) -> None:
    """A stranger may fill it and leave it again; jobs that fail there would be faster than all others."""
    (script := tmp_path / "script.py").write_text(
        "import os, sys, time\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.02)\n"
        "full = os.path.exists(sys.argv[1])\n"
        "sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' if full else 0)\n"
    )
    full, go = tmp_path / "full", tmp_path / "go"
    full.touch()
    sim.gpus[0].processes = [Process(os.getpid(), 60_000)]
    sim.write()
    batch = program(str(full), str(go), script=str(script), gpus="0,")
    async with running(sweep_for([{}] * 3, batch, interval_s=0.1), sim.env()) as run:
        await run.until(lambda _: run.worker("gpu0").alert("shared"))
        go.touch()
        await run.until(lambda _: "others use 58.6 GiB of its GPU's memory" in (run.worker("gpu0").reason or ""))
        full.unlink()
        queue = await run.until_done()
        last = [record.last.number for record in (await run.jobs()).values()]
    assert (queue.finished, queue.failed) == (3, 0)
    assert sorted(last) == [1, 1, 2]
    full.touch()
    sim.gpus[0].processes, sim.gpus[0].memory_used_mib = [], 400
    sim.write()
    async with running(sweep_for([{}], batch, interval_s=0.1), sim.env()) as run:
        assert (await run.until_done()).failed == 1, "nobody else uses it"


def test_memory_of_a_process_whose_size_is_unknown_is_not_the_worker_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_use, "_LIST_DELAY_S", 0.0)
    memory = GpuMemory("gpu0")
    for used_mib, pids in ((500.0, ()), (2500.0, (1,)), (76_000.0, (1, STRANGER)), (2600.0, (1,))):
        processes = tuple(GpuProcess(pid, memory_mib=None) for pid in pids)
        memory.measure(GpuSample("u", memory_used_mib=used_mib, processes=processes), {1}, live=True)
    assert memory.peak_mib == 2100.0


def test_memory_that_nvml_lists_late_for_another_process_is_not_the_worker_s(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = GpuMemory("gpu0")
    for second in range(60):
        monkeypatch.setattr(time, "monotonic", lambda second=second: float(second))
        used_mib = 76_000.0 if 20 <= second < 40 else 500.0
        is_listed = 25 <= second < 45  # every 5 seconds
        processes = (GpuProcess(STRANGER, memory_mib=75_500.0),) if is_listed else ()
        memory.measure(GpuSample("u", memory_used_mib=used_mib, processes=processes), {1}, live=True)
    assert memory.peak_mib == 0.0


_CROWDED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.00 GiB of which"
    " 512.00 MiB is free. Process 7 has 70.50 GiB memory in use. Including non-PyTorch memory, this process has 8.00 GiB"
    " memory in use. Of the allocated memory 1.00 GiB is allocated by PyTorch"
)


async def test_a_trial_that_lacks_memory_which_others_use_says_nothing_about_its_value(
    sim: Sim, tmp_path: Path
) -> None:
    (script := tmp_path / "script.py").write_text(f"raise SystemExit({_CROWDED!r})\n")
    tuned = program("-B", "{n_envs}", script=str(script), gpus="0,")
    spec = sweep_for([], tuned, tune=TuneSpec(low=16, high=64, settle_s=1.0))
    async with running(spec, sim.env()) as run:
        await run.until(lambda snapshot: snapshot.tuning and snapshot.tuning.ended)
        trials = run.snapshot.tuning.trials
    assert {trial.state for trial in trials} == {TrialState.SKIPPED}
    assert {trial.reason for trial in trials} == {"others use 70.5 GiB of its GPU's memory"}


def test_memory_that_others_used_during_an_attempt_explains_its_lack() -> None:
    memory = GpuMemory("gpu0")
    for mib in (0.0, 60_000.0, 0.0):
        processes = (GpuProcess(STRANGER, memory_mib=mib),)
        memory.measure(GpuSample("A", memory_used_mib=400 + mib, processes=processes), {1}, live=True)
    assert memory.others_peak_mib == 60_000.0


def test_in_a_container_what_was_in_use_before_counts_as_others_memory() -> None:
    def reason(before_mib: float, *, shared: bool = False) -> str | None:
        slot = EngineSlot(Slot("gpu0", Gpu(0, "A", "H100")), 0, 1)
        slot.sample = GpuSample("A", memory_used_mib=before_mib, memory_total_mib=80_000)
        attempt = structs.replace(NO_ATTEMPT, number=1, ended=1.0)
        worker: Any = MagicMock(failure=Failure(FailureKind.MEMORY, "out of memory", ""), attempt=attempt)
        (memory := GpuMemory("gpu0")).measure(slot.sample)
        memory.shared = shared
        slot.attempt = MagicMock(readings=MagicMock(memory=memory))
        return crowding(slot, worker)

    assert reason(60_000.0) == "others use 58.6 GiB of its GPU's memory"
    assert reason(60_000.0, shared=True) is None, "it may be that of this session's other workers"
    assert reason(4000.0) is None
