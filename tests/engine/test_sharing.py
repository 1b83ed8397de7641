"""A sweep on GPUs that other processes use: it begins on the free ones, and takes the others as they become free."""

import os
import signal

import pytest
from msgspec import structs

from gmg_tui.engine.scheduling.allotment import Allotment
from gmg_tui.engine.scheduling.packing import Packing, Running
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.jobs.job_queue import JobQueue
from gmg_tui.machine.gpu.free import Leases
from gmg_tui.model import Attempt, Gpu, GpuProcess, GpuSample, JobRecord, Slot, Snapshot, WorkerState
from gmg_tui.session.protocol import Action
from tests.nvml_sim import Process, Sim
from tests.patience import eventually

from .harness import program, running, spec_for, sweep_for


@pytest.fixture(autouse=True)
def machine(sim: Sim) -> None:
    """Three GPUs; this process is on the first."""
    sim.gpus = sim.gpus[:3]
    for gpu in sim.gpus:
        gpu.memory_used_mib = 4
    sim.gpus[0].processes = [Process(os.getpid(), 31744)]
    sim.write()


def _reason(snapshot: Snapshot, slot: str) -> str:
    return next(worker.reason for worker in snapshot.workers if worker.slot == slot) or ""


async def test_a_sweep_begins_on_free_gpus_and_takes_others_as_they_come(sim: Sim) -> None:
    spec = sweep_for([{"x": n} for n in range(5)], program("--s", "600", gpus="free", wait_s=600.0))
    async with running(spec, sim.env()) as run:
        await run.until_state("gpu1", WorkerState.STARTING)
        await run.until_state("gpu2", WorkerState.STARTING)
        await run.until(lambda s: _reason(s, "gpu0").startswith("for its GPU: "))
        assert ", 31.0 GiB, since " in _reason(run.snapshot, "gpu0")
        assert [process.pid for process in (await run.client.details("gpu0")).processes or ()] == [os.getpid()]
        sim.gpus[0].processes = []
        sim.write()
        await run.until_state("gpu0", WorkerState.STARTING)


async def test_it_takes_only_the_wanted_gpus_and_ends_without_the_others(sim: Sim) -> None:
    spec = sweep_for([{"x": n} for n in range(3)], program("--s", "0.1", gpus="free:2", wait_s=600.0))
    async with running(spec, sim.env()) as run:
        queue = await run.until_done()
    assert (queue.finished, queue.jobs, queue.benched) == (3, 3, {})
    assert {worker.slot for worker in run.snapshot.workers} == {"gpu1", "gpu2"}


def _one_runs(snapshot: Snapshot) -> bool:
    """True once two jobs have finished, and one GPU is left without a job."""
    is_live = [worker.state.live for worker in snapshot.workers]
    return snapshot.queue is not None and snapshot.queue.finished == 2 and sorted(is_live) == [False, True]


async def test_a_sweep_releases_a_gpu_that_it_has_no_more_jobs_for(sim: Sim) -> None:
    jobs = [{"x": seconds} for seconds in ("0.1", "0.1", "600")]
    async with running(sweep_for(jobs, program("--s", "{x}", gpus="free:2")), sim.env()) as run:
        await run.until(_one_runs)
        (busy,) = [worker.index for worker in run.snapshot.workers if worker.state.live]
        uuids = [slot.gpu.uuid for slot in run.client.welcome.session.slots if slot.gpu is not None]
        await eventually(lambda: Leases().acquire(uuids[1 - busy]))
        assert not Leases().acquire(uuids[busy])


async def test_a_gpu_that_another_session_has_taken_once_no_job_was_left_for_it_gets_no_later_job(sim: Sim) -> None:
    others = Leases()
    jobs = [{"x": seconds} for seconds in ("0.1", "0.1", "600")]
    async with running(sweep_for(jobs, program("--s", "{x}", gpus="free:2")), sim.env()) as run:
        await run.until(_one_runs)
        (idle,) = [worker.slot for worker in run.snapshot.workers if not worker.state.live]
        uuid_ = sim.gpus[int(idle[3:])].uuid
        await eventually(lambda: others.acquire(uuid_))
        await run.client.add_jobs(JobRecord(4, "late", {"x": "600"}))
        await run.until(lambda s: "another session has taken it" in _reason(s, idle))
        others.release(uuid_)
        await run.until(lambda s: run.worker(idle).state.live)
        assert not others.acquire(uuid_)


async def test_after_the_wait_the_gpus_in_use_are_benched(sim: Sim) -> None:
    spec = sweep_for([{"x": n} for n in range(3)], program("--s", "600", gpus="free", wait_s=1.0))
    async with running(spec, sim.env()) as run:
        snapshot = await run.until(lambda s: s.queue is not None and s.queue.benched)
        assert snapshot.queue.benched["gpu0"].startswith("not free after 1 s: for its GPU: ")
        assert {*snapshot.queue.benched} == {"gpu0"}
        others, uuid_ = Leases(), sim.gpus[0].uuid
        assert others.acquire(uuid_)
        await run.client.use_slot("gpu0", used=True)
        await run.until(lambda s: "another session has taken it" in _reason(s, "gpu0"))
        others.release(uuid_)
        await run.until(lambda _: run.worker("gpu0").state.live)
        assert not others.acquire(uuid_)


def _needs(number: int, peak_mib: float | None, state: WorkerState = WorkerState.STOPPED) -> JobRecord:
    return JobRecord(number, f"job-{number}", last=Attempt(1, (), state=state, memory_peak_mib=peak_mib))


def _used(uuid: str, mib: float, *, foreign: bool = False) -> GpuSample:
    processes = (GpuProcess(7, memory_mib=mib, foreign=foreign),)
    return GpuSample(uuid, memory_used_mib=mib, memory_free_mib=80_000 - mib, processes=processes)


def _board(used_mib: float, *jobs: JobRecord) -> SlotBoard:
    """A board with two slots on one GPU of 80,000 MiB, and one on an equal one that nobody uses."""
    slots = {}
    for index, (name, uuid_, used) in enumerate((("a-1", "A", used_mib), ("a-2", "A", used_mib), ("b", "B", 4.0))):
        slot = slots[name] = EngineSlot(Slot(name, Gpu(index, uuid_, "H100")), index, 3)
        slot.sample = _used(uuid_, used)
    return SlotBoard(slots, JobQueue(jobs))


@pytest.mark.parametrize(
    ("used_mib", "job", "slot"),
    [
        (4.0, _needs(1, 79_996.0), "a-1"),
        (32_000.0, _needs(1, 48_000.0), "a-1"),
        (32_000.0, _needs(1, None), "a-1"),
        (32_000.0, _needs(1, 60_000.0), "b"),
        (32_000.0, _needs(1, 47_000.0, WorkerState.FAILED), "b"),  # it wanted more
        (32_000.0, _needs(1, 99_000.0), "b"),  # no GPU is larger
    ],
)
def test_a_job_starts_where_its_memory_fits_beside_what_others_use(used_mib: float, job: JobRecord, slot: str) -> None:
    assert _board(used_mib, job).next() == Allotment(1, (slot,))


def test_a_job_that_fits_nowhere_waits_and_lets_others_pass() -> None:
    board = _board(32_000.0, _needs(1, 60_000.0), _needs(2, 20_000.0), _needs(3, 40_000.0))
    board.slots["b"].sample = _used("B", 70_000)
    assert board.next() == Allotment(2, ("a-1",))
    board.jobs["a-1"] = 2
    board.queue.occupy(2)
    assert board.next() == Allotment(), "20,000 MiB of the free 48,000 are for job 2"
    board.update()
    lack = "58.6 GiB, as before, but only 27.3 GiB is free"
    assert board.slots["a-2"].idle_reason == f"job 1 waits for memory: it needs {lack}"
    assert board.wait_reason(1) == f"for memory: it needs {lack}"
    assert board.wait_reason(2) is None


def test_a_peak_holds_no_job_back_in_a_container_where_it_may_have_been_another_user_s() -> None:
    board = _board(32_000.0, _needs(1, 60_000.0))
    board.slots["a-1"].sample = _used("A", 32_000.0, foreign=True)
    assert board.next() == Allotment(1, ("a-1",))


def test_a_peak_that_a_node_reported_holds_no_job_back_elsewhere() -> None:
    job = structs.replace(_needs(1, 99_000.0), slot="evil/gpu0")
    assert _board(32_000.0, job).next() == Allotment(1, ("a-1",))
    assert _board(32_000.0, structs.replace(job, slot="b")).next() == Allotment(1, ("b",))


def test_reasons_to_wait_are_those_of_the_slots_that_a_job_may_use() -> None:
    board = _board(32_000.0, structs.replace(_needs(1, 99_000.0), only="b"), _needs(2, 60_000.0))
    board.use("b", used=False)
    board.update()
    lack = "58.6 GiB, as before, but only 46.9 GiB is free"
    assert board.slots["a-1"].idle_reason == f"job 2 waits for memory: it needs {lack}"
    assert board.wait_reason(2) == f"for memory: it needs {lack}", "the GPU that is not used has room"
    board.use("b", used=True)
    board.queue.occupy(2)
    board.jobs["b"] = 2
    board.update()
    assert board.slots["a-1"].idle_reason == "no job is left for this slot"


def _packing(per_gpu: int, *phases: tuple[int, int | None, float]) -> list[str]:
    """The reports on a GPU that runs for a minute each: a number of jobs, the environments of each, and their rate."""
    reported: list[str] = []
    packing, now = Packing(per_gpu, reported.append), 0.0
    for phase, (count, n_envs, rate) in enumerate(phases):
        for _ in range(60):
            packing.add("A", [Running((phase, job), n_envs, rate) for job in range(count)], now := now + 1.0)
    return list(dict.fromkeys(reported))


@pytest.mark.parametrize(
    ("phases", "reports"),
    [
        ([(2, 4096, 485.0), (1, 8192, 1000.0)], ["2 × 4,096 is 3 % slower than 1 × 8,192: do not pack"]),
        ([(1, 4096, 600.0), (2, 4096, 485.0)], ["2 × 4,096 is 62 % faster than 1 × 4,096: packing pays"]),
        ([(2, None, 50.0), (1, None, 100.0)], ["2 jobs are as fast as 1 job: packing gains nothing"]),
        ([(2, 4096, 485.0), (1, 2048, 1000.0), (3, 4096, 1.0)], []),
    ],
)
def test_packing_is_compared_with_one_job_after_some_seconds_of_both(
    phases: list[tuple[int, int | None, float]], reports: list[str]
) -> None:
    assert _packing(2, *phases) == reports


def test_few_numbers_of_environments_are_compared_however_often_they_change() -> None:
    packing, now = Packing(2, lambda _: None), 0.0
    for n_envs in range(1, 200):
        for _ in range(15):
            packing.add("A", [Running(1, n_envs, 1.0)], now := now + 1.0)
            packing.add("B", [Running(2, int(now), 1.0)], now)  # never warm
    assert list(packing._totals) == [(1, n_envs) for n_envs in range(200 - 64, 200)]


async def test_a_session_leases_its_gpus_while_workers_run_however_it_ends(sim: Sim) -> None:
    others, uuid_ = Leases(), sim.gpus[1].uuid
    async with running(spec_for("--lines", "0", cpu=None, gpus="free:1"), sim.env()) as run:
        await run.until_state("gpu1", WorkerState.RUNNING)
        assert not others.acquire(uuid_)
        await run.client.act(Action.STOP, "gpu1")
        await run.until_state("gpu1", WorkerState.STOPPED)
        assert others.acquire(uuid_), "the engine lives on for its client"
        others.release(*others._held)
        await run.client.act(Action.RESTART, "gpu1")
        await run.until_state("gpu1", WorkerState.RUNNING)
        assert not others.acquire(uuid_)
        os.kill(run.process.pid, signal.SIGKILL)
        await run.process.wait()
        assert others.acquire(uuid_)
        others.release(*others._held)


def test_a_job_goes_to_a_slot_that_could_not_start_its_last_one_only_if_no_other_is_idle() -> None:
    board = _board(4.0, _needs(1, 4.0))
    assert board.next().slots == ("a-1",)
    board.pause("a-1", "the driver does not answer")
    board._card(board.slots["a-1"]).paused_until = 0.0
    assert board.next().slots == ("b",)
    board.jobs["b"] = 2
    assert board.next().slots == ("a-1",)
