"""GPUs on which every job fails at once are disabled, and the jobs run elsewhere or later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.engine.scheduling import slot_board
from gmg_tui.engine.scheduling.job_queue import JobQueue
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.workers.slot_state import SlotState
from gmg_tui.model import (
    Gpu,
    GpuHealth,
    GpuSample,
    GpuTrouble,
    JobRecord,
    RunSpec,
    Severity,
    Slot,
    WorkerState,
)
from gmg_tui.store import reader
from tests.nvml_sim import Sim

from .harness import program, running, sweep_for

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
    """A board with one GPU, and what takes its samples: whether it is benched by them."""
    board = SlotBoard({"gpu0": SlotState(Slot("gpu0", Gpu(0, "A", "H100")), 0, 1)}, JobQueue([]))
    return board, lambda sample, now: bool(board.take_samples({"A": sample}, None, now))


def test_a_gpu_lost_for_long_is_disabled_until_the_user_enables_it() -> None:
    board, benches = _board()
    lost = GpuSample("A", lost=True, error="GPU is lost")
    assert not benches(lost, 0.0)
    assert not benches(GpuSample("A"), 30.0)
    assert not benches(lost, 31.0)
    assert not benches(lost, 30.0 + slot_board.LOST_S)
    assert benches(lost, 31.0 + slot_board.LOST_S)
    assert not benches(lost, 99.0 + slot_board.LOST_S)
    assert not benches(GpuSample("A"), 100.0 + slot_board.LOST_S)
    assert board.benched() == {"gpu0": "lost: GPU is lost"}
    board.use("gpu0", used=True)
    assert board.benched() == {}


def _reported(text: str, severity: Severity = Severity.FATAL) -> GpuSample:
    return GpuSample("A", health=GpuHealth(troubles=(GpuTrouble(severity, text, "reset it"),)))


def test_a_gpu_that_may_compute_wrong_numbers_is_disabled_until_the_user_enables_it() -> None:
    board, benches = _board()
    assert not benches(_reported("PCIe has 8 of 16 lanes", Severity.DEGRADED), 0.0)
    assert benches(_reported("1 uncorrected ECC error"), 1.0)
    assert not benches(_reported("1 uncorrected ECC error"), 2.0), "reported once"
    assert board.benched() == {"gpu0": "1 uncorrected ECC error; reset it"}
    board.use("gpu0", used=True)
    assert not benches(_reported("1 uncorrected ECC error"), 3.0), "the user enabled it after the first"
    assert board.benched() == {}
    assert benches(_reported("2 uncorrected ECC errors"), 4.0)
