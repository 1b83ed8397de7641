"""Samples of GPUs, the index that an attempt is given, and GPUs that get no more jobs."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from msgspec import structs

from gmg_tui import session
from gmg_tui.engine.attempts.local_host import DRIVER_WAIT_REASON
from gmg_tui.engine.hardware import GpuSamples
from gmg_tui.engine.scheduling import slot_board
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.jobs.job_queue import JobQueue
from gmg_tui.machine.gpu.driver import NO_ANSWER
from gmg_tui.model import (
    NO_ATTEMPT,
    DdpSpec,
    Gpu,
    GpuHealth,
    GpuSample,
    GpuTrouble,
    JobRecord,
    QueueAction,
    RestartMode,
    RunSpec,
    Slot,
    StartMode,
    WorkerState,
)
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind
from gmg_tui.session.protocol import Action
from gmg_tui.session.store import reader
from tests.nvml_sim import GPU_IS_LOST, Sim
from tests.patience import LONG_S

from .harness import program, running, spec_for, sweep_for

_READ = GpuSample("A", gpu_util_pct=97.0, power_w=600.0)


def _taken(*samples: GpuSample, interval_s: float = 1.0) -> GpuSamples:
    taken = GpuSamples(["A", "B"], interval_s, 100.0)
    taken.update(samples, 100.0)
    return taken


def test_the_age_of_a_sample_is_shown_from_3_s_and_its_values_dropped_from_15_s() -> None:
    ours = _taken(_READ)
    assert list(ours.current(102.9)) == [_READ]
    (late,) = ours.current(103.0)
    assert (late.age_s, late.gpu_util_pct, late.silent) == (3.0, 97.0, False)
    assert not ours.expire(114.9)
    assert ours.expire(115.0)
    assert not ours.expire(116.0), "said once"
    gone = list(ours.current(123.0))
    assert gone == [GpuSample(uuid, error=NO_ANSWER, age_s=23.0) for uuid in "AB"]
    assert all(sample.silent for sample in gone)
    ours.update([_READ], 124.0)
    assert next(iter(ours.current(124.0))) == _READ


def test_the_age_of_a_sample_counts_from_its_reading_not_its_delivery() -> None:
    ours = _taken(GpuSample("A", gpu_util_pct=97.0, age_s=14.0))
    assert [sample.age_s for sample in ours.current(100.0)] == [14.0]
    assert ours.expire(101.0)


def test_a_lost_gpu_stays_lost_and_unsupported_values_have_no_age() -> None:
    lost, refused = GpuSample("A", lost=True, error="lost"), GpuSample("B", error="no permission")
    ours = _taken(lost, refused)
    assert list(ours.current(110.0)) == [lost, refused]
    ours.expire(120.0)
    assert list(ours.current(120.0)) == [lost, GpuSample("B", error=NO_ANSWER, age_s=20.0)]


async def test_a_session_reports_the_activity_and_health_of_its_gpus(sim: Sim) -> None:
    sim.gpus[0].gpm, sim.gpus[0].ecc_uncorrected = {2: 41.5}, 2
    sim.write()
    spec = spec_for("--lines", "0", cpu=None, gpus="0,1", start=StartMode.TOGETHER)
    async with running(spec, sim.env()) as run:
        snapshot = await run.until(lambda s: len(s.samples) == 2 and s.samples[0].sm_pct and s.samples[1].health)
        first, second = snapshot.samples
        assert (first.sm_pct, second.sm_pct) == (41.5, None)
        assert first.health.fatal.text == "2 ECC errors, uncorrected"
        assert second.health.troubles == ()
        await run.until_state("gpu0", WorkerState.RUNNING)
        moment = run.snapshot.time
        await run.until(lambda s: s.time > moment + 2)
        assert (await run.client.series("gpu0")).sm_pct[-1] == 41.5
        assert (await run.client.series("gpu1")).sm_pct == ()


NEVER = ("--lines", "0")
RUNNING = WorkerState.RUNNING
ON_GPUS: dict[str, Any] = {"cpu": None, "start": StartMode.TOGETHER, "interval_s": 0.2}


async def test_a_worker_that_cannot_be_prepared_is_restarted_like_a_failed_one(sim: Sim) -> None:
    sim.gpus[0].fails = {"nvmlDeviceGetIndex": GPU_IS_LOST}
    sim.write()
    spec = spec_for(*NEVER, gpus="0,1", restart=RestartMode.FAILURE, max_restarts=1, **ON_GPUS)
    async with running(spec, sim.env()) as run:
        waiting = await run.until_state("gpu0", WorkerState.RESTARTING)
        assert waiting.restart_at is not None
        assert "lost" in (waiting.reason or "")
        await run.until_state("gpu0", WorkerState.FAILED)
        sim.gpus[0].fails = {}
        sim.write()
        await run.client.act(Action.RESTART, "gpu0")
        assert (await run.until_state("gpu0", RUNNING)).attempt == 1


@pytest.mark.parametrize("ddp", [None, DdpSpec()], ids=["a worker", "a group"])
async def test_an_edit_during_preparation_applies_to_the_attempt(sim: Sim, ddp: DdpSpec | None) -> None:
    spec = spec_for(*NEVER, gpus="2", ddp=ddp, **ON_GPUS)
    async with running(spec, sim.env()) as run:
        await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
        sim.hangs = True
        sim.write()
        await run.client.act(Action.RESTART, "gpu0", "gpu1")
        await run.until(lambda s: all(worker.reason == DRIVER_WAIT_REASON for worker in s.workers))
        await run.client.edit(("gpu0", "gpu1"), ("--lines", "9"), {})
        sim.hangs = False
        sim.write()
        await run.until(lambda s: s.ended)
        assert {worker.state for worker in run.snapshot.workers} == {WorkerState.FINISHED}
        assert {worker.newest.args for worker in run.snapshot.workers} == {("--lines", "9")}
        if ddp is None:
            assert {worker.attempt for worker in run.snapshot.workers} == {2}


async def test_a_driver_that_hangs_between_two_samples_does_not_hold_up_the_end(sim: Sim) -> None:
    async with running(spec_for(*NEVER, gpus="0,", **ON_GPUS | {"interval_s": 60.0}), sim.env()) as run:
        await run.until(lambda s: s.samples and run.worker("gpu0").pid)
        sim.hangs = True
        sim.write()
        await run.client.end(kill=True)
        await run.leave()
        await asyncio.wait_for(run.process.wait(), LONG_S)
        sim.hangs = False
        sim.write()


# GPUs on which every job fails at once are disabled, and the jobs run elsewhere or later

_SCRIPT = """
import os, sys, time
from pathlib import Path
broken = Path("broken").read_text().split(",")
if os.environ["CUDA_VISIBLE_DEVICES"] in broken:
    Path(f"failed-{os.getpid()}").touch()
    print("[Genesis] [07:00:00] [INFO] Running at 12.00 FPS (1.00 FPS per env, 12 envs)." if "late" in broken else "")
    sys.exit("RuntimeError: No CUDA GPUs are available")
while len(list(Path().glob("failed-*"))) < 3:
    time.sleep(0.02)
"""
"""Fails on broken GPUs; on others it runs until three jobs have failed, so that it cannot take all of them."""
FINISHED, FAILED, WAITING = WorkerState.FINISHED, WorkerState.FAILED, WorkerState.WAITING


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """The file that lists the GPUs on which CUDA fails."""
    (tmp_path / "script.py").write_text(_SCRIPT)
    path = tmp_path / "broken"
    path.write_text("0")
    return path


def _sweep(broken: Path, jobs: int, gpus: str) -> RunSpec:
    batch = program(script=str(broken.parent / "script.py"), gpus=gpus)
    return sweep_for([{}] * jobs, batch, cwd=str(broken.parent))


def _stored(spec: RunSpec) -> list[JobRecord]:
    return reader.load_jobs(Path(spec.folder) / session.STORE)


async def test_a_gpu_with_cuda_errors_does_not_drain_the_queue(sim: Sim, broken: Path) -> None:
    spec = _sweep(broken, 12, "0,1")
    async with running(spec, sim.env()) as run:
        queue = await run.until_done()
        assert (queue.finished, queue.failed) == (12, 0)
        why = "3 jobs in a row failed there: "
        assert list(queue.benched) == ["gpu0"]
        assert queue.benched["gpu0"].startswith(why)
        assert "No CUDA GPUs are available" in queue.benched["gpu0"]
        assert not queue.stranded
    jobs = _stored(spec)
    assert {job.slot for job in jobs} == {"gpu1"}
    assert sorted(job.last.number for job in jobs) == [1] * 9 + [2] * 3
    assert [job.last.exit_code for job in jobs] == [0] * 12


_HOLDS = """
import os, sys, time
if sys.argv[1] == "fails" and os.environ["CUDA_VISIBLE_DEVICES"] == "0":
    sys.exit("RuntimeError: No CUDA GPUs are available")
while sys.argv[1] == "holds":
    time.sleep(0.1)
"""


async def test_a_gpu_is_not_suspected_once_the_jobs_that_failed_there_are_skipped(sim: Sim, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_HOLDS)
    jobs = [{"x": word} for word in ("fails", "holds", "fails", "fails", "ends")]
    async with running(sweep_for(jobs, program("{x}", script=str(script), gpus="0,1")), sim.env()) as run:
        await run.until(lambda _: "they rerun on another GPU to find out" in (run.worker("gpu0").reason or ""))
        await run.client.act_on_jobs(QueueAction.SKIP, 1, 3, 4)
        await run.until(lambda _: run.queue.finished == 1)
        assert (await run.jobs())["job-5"].slot == "gpu0"


def test_a_gpu_is_tried_again_some_time_after_failures_without_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = {name: EngineSlot(Slot(name, Gpu(index, name, "H100")), index, 2) for index, name in enumerate("AB")}
    board = SlotBoard(slots, JobQueue([JobRecord(number, f"job-{number}") for number in range(1, 5)]))

    def ended(job: int, state: WorkerState) -> Any:
        failure = Failure(FailureKind.DEVICE, "CUDA error", "", suspect=True) if state is FAILED else None
        attempt = structs.replace(NO_ATTEMPT, number=1, ended=1.0, had_progress=state is FINISHED)
        return MagicMock(state=state, failure=failure, attempt=attempt, task=MagicMock(job=job))

    assert [board.judge(slots["A"], ended(job, FAILED)) for job in (1, 2, 3)] == [(), (), (1, 2, 3)]
    board.judge(slots["B"], ended(1, FINISHED))
    assert board.benched() == {"A": "3 jobs in a row failed there: CUDA error; tried again after 30:00"}
    now = time.monotonic()
    for later_s, is_benched in ((1790.0, True), (1801.0, False)):
        monkeypatch.setattr(time, "monotonic", lambda later_s=later_s: now + later_s)
        board.review(())
        assert bool(board.benched()) is is_benched


async def test_a_bug_of_the_script_benches_no_gpu(sim: Sim, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nsys.exit('RuntimeError: CUDA error: an illegal memory access' if int(sys.argv[1]) < 6 else 0)"
    )
    jobs = [{"x": number} for number in range(9)]
    async with running(sweep_for(jobs, program("{x}", script=str(script), gpus="0,1")), sim.env()) as run:
        queue = await run.until_done()
    assert (queue.finished, queue.failed, queue.benched) == (3, 6, {})


async def test_jobs_that_fail_after_progress_or_twice_stay_failed(sim: Sim, broken: Path) -> None:
    broken.write_text("0,late")
    spec = _sweep(broken, 4, "0,")
    async with running(spec, sim.env()) as run:
        queue = await run.until_done()
    assert (queue.failed, queue.waiting, queue.benched) == (4, 0, {})
    broken.write_text("0,1")
    spec = _sweep(broken, 2, "0,1")
    async with running(spec, sim.env()) as run:
        queue = await run.until_done()
    assert (queue.failed, queue.benched) == (2, {})


async def test_a_job_that_fails_on_a_lost_gpu_runs_on_another(sim: Sim, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
        "sys.exit(int(os.environ['CUDA_VISIBLE_DEVICES'] == '0'))"
    )
    lost = tmp_path / "lost"
    spec = sweep_for([{}] * 2, program(str(lost), script=str(script), gpus="0,1"), interval_s=0.1)
    async with running(spec, sim.env()) as run:
        await run.until(lambda s: s.workers[0].pid)
        sim.gpus[0].lost = True
        sim.write()
        await run.until(lambda s: s.samples[0].lost)
        lost.touch()
        queue = await run.until_done()
    assert (queue.finished, queue.failed) == (2, 0)
    assert [job.slot for job in _stored(spec)] == ["gpu1"] * 2


def _board() -> tuple[SlotBoard, Callable[[GpuSample, float], bool]]:
    """A board with one GPU, and a function that returns True if a sample benches it."""
    slot = EngineSlot(Slot("gpu0", Gpu(0, "A", "H100")), 0, 1)
    board = SlotBoard({"gpu0": slot}, JobQueue([]))

    def benches(sample: GpuSample, now: float) -> bool:
        slot.sample = sample
        board.check_gpus(None, now)
        return bool(board.newly_benched())

    return board, benches


def test_a_gpu_lost_for_long_is_disabled_until_the_user_enables_it() -> None:
    board, benches = _board()
    lost = GpuSample("A", lost=True, error="GPU is lost")
    assert not benches(lost, 0.0)
    assert not benches(GpuSample("A"), 30.0)
    assert not benches(lost, 31.0)
    assert not benches(lost, 30.0 + slot_board.LOST_GPU_GRACE_S)
    assert benches(lost, 31.0 + slot_board.LOST_GPU_GRACE_S)
    assert not benches(lost, 99.0 + slot_board.LOST_GPU_GRACE_S)
    assert not benches(GpuSample("A"), 100.0 + slot_board.LOST_GPU_GRACE_S)
    assert board.benched() == {"gpu0": "lost: GPU is lost"}
    board.use("gpu0", used=True)
    assert board.benched() == {}


def _reported(text: str, *, fatal: bool = True) -> GpuSample:
    return GpuSample("A", health=GpuHealth(troubles=(GpuTrouble(fatal, text, "reset it"),)))


def test_a_gpu_that_may_compute_wrong_numbers_is_disabled_until_the_user_enables_it() -> None:
    board, benches = _board()
    assert not benches(_reported("PCIe has 8 of 16 lanes", fatal=False), 0.0)
    assert benches(_reported("1 uncorrected ECC error"), 1.0)
    assert not benches(_reported("1 uncorrected ECC error"), 2.0), "reported once"
    assert board.benched() == {"gpu0": "1 uncorrected ECC error; reset it"}
    board.use("gpu0", used=True)
    assert not benches(_reported("1 uncorrected ECC error"), 3.0), "the user enabled it after the first"
    assert board.benched() == {}
    assert benches(_reported("2 uncorrected ECC errors"), 4.0)
