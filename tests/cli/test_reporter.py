"""What the reporter says of snapshots, and when."""

from __future__ import annotations

from msgspec.structs import replace

from gmg_tui.headless.reporter import Reporter
from gmg_tui.headless.table import final
from gmg_tui.model import Fps, Gpu, GpuReading, RunSpec, Session, Slot, SlotKind, Snapshot, Worker, WorkerState

_GPU = Gpu(0, "GPU-0", "H100 80GB")
_SPEC = RunSpec("sim-1", "/state/sim-1", "/run/sim-1.sock", "sim.py", (), "/", "python")
_SESSION = Session(_SPEC, (Slot("gpu0", SlotKind.GPU, _GPU), Slot("gpu10", SlotKind.GPU)), 1, 0.0, "0")


def _snapshot(second: float, *workers: Worker, power_w: float | None = None) -> Snapshot:
    return Snapshot(second, second, workers, (GpuReading("GPU-0", power_w=power_w),))


def _running(fps: float, slot: str = "gpu0") -> Worker:
    return Worker(slot, 0, WorkerState.RUNNING, fps=Fps(fps, fps, fps, 1), attempt=1)


def test_the_status_comes_every_five_seconds_when_it_says_something_else_and_each_minute() -> None:
    reporter = Reporter(_SESSION)
    said = {
        second: text
        for second in range(200)
        if (text := reporter.status(_snapshot(second, _running(100 + min(second, 12), "gpu0"), power_w=50.0)))
    }
    assert list(said) == [0, 5, 10, 15, 75, 135, 195]
    assert said[15] == "sim-1  Σ 112 FPS  2.24 FPS/W  1 running  00:00:15"


def test_a_state_is_told_once_with_the_time_since_the_attempt_began() -> None:
    reporter = Reporter(_SESSION)
    starting = Worker("gpu0", 0, WorkerState.STARTING, state_s=2.0, attempt=1)
    assert list(reporter.events(_snapshot(10, starting))) == ["gpu0    starting"]
    assert list(reporter.events(_snapshot(11, replace(starting, state_s=3.0)))) == []
    compiling = Worker("gpu0", 0, WorkerState.COMPILING, state_s=1.0, attempt=1, attempt_s=12.0, phase_usual_s=100.0)
    assert list(reporter.events(_snapshot(20, compiling))) == [
        "gpu0    compiling after 11 s; this took 1:40 the last time"
    ]
    failed = Worker("gpu0", 0, WorkerState.FAILED, state_s=0.4, attempt=1, attempt_s=22.0, reason="out of memory")
    assert list(reporter.events(_snapshot(30, failed))) == ["gpu0    failed after 22 s: out of memory"]
    again = Worker("gpu0", 0, WorkerState.RESTARTING, attempt=1, restart_in_s=4.0, reason="out of memory")
    assert list(reporter.events(_snapshot(31, again))) == ["gpu0    restarting in 4 s, attempt 2: out of memory"]
    assert list(reporter.events(_snapshot(35, replace(starting, state_s=0.0, attempt=2)))) == [
        "gpu0    starting, attempt 2"
    ]


def test_a_countdown_is_no_news_but_another_signal_is() -> None:
    reporter = Reporter(_SESSION)
    stopping = Worker("gpu0", 0, WorkerState.STOPPING, attempt=1)
    told = [
        line
        for second, text in enumerate(["SIGINT, SIGTERM in 2 s", "SIGINT, SIGTERM in 1 s", "SIGTERM, SIGKILL in 9 s"])
        for line in reporter.events(_snapshot(second, replace(stopping, stopping=text)))
    ]
    assert told == ["gpu0    stopping: SIGINT, SIGTERM in 2 s", "gpu0    stopping: SIGTERM, SIGKILL in 9 s"]


def test_being_stuck_warnings_and_notes_are_told_when_they_come() -> None:
    reporter = Reporter(_SESSION)
    worker = _running(100.0)
    stuck = replace(worker, stuck="no output for 74 s", warnings=("runs on the CPU",))
    first = replace(_snapshot(0, stuck), notes=("disk full",), nvml_error="driver gone")
    assert list(reporter.events(first)) == [
        "gpu0    running",
        "gpu0    ⚠ stuck: no output for 74 s",
        "gpu0    warning: runs on the CPU",
        "sim-1: disk full",
        "sim-1: driver gone",
    ]
    assert list(reporter.events(first)) == []
    assert list(reporter.events(_snapshot(1, worker))) == ["gpu0    no longer stuck"]


def test_the_table_sums_what_is_known_and_invents_nothing() -> None:
    known = replace(
        _running(2000.0),
        state=WorkerState.FINISHED,
        gpu_util_mean_pct=97.1,
        memory_peak_mib=30211,
        power_mean_w=500.0,
        energy_j=263000.0,
    )
    unknown = Worker("gpu10", 1, WorkerState.FAILED)
    lines = final(_SESSION, _snapshot(3661, known, unknown))
    cells = [line.split("  ") for line in lines]
    rows = [[cell.strip() for cell in row if cell] for row in cells]
    assert rows[0] == [
        "slot",
        "state",
        "FPS last",
        "mean",
        "max",
        "envs",
        "GPU",
        "GPU %",
        "VRAM peak",
        "W mean",
        "energy",
    ]
    assert rows[1] == [
        *("gpu0", "finished", "2,000", "2,000", "2,000", "–", "H100 80GB", "97", "29.5 GiB", "500", "73 Wh")
    ]
    assert rows[2] == ["gpu10", "failed", *"––––", "–", *["n/a"] * 4]
    assert lines[3] == "total 2,000 FPS  4.00 FPS/W  01:01:01"
    assert lines[4] == "gpu10 failed: no reason is known"
