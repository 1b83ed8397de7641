"""What the reporter says of snapshots, and when."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gmg_tui.gpu.health import judged
from gmg_tui.headless.reporter import Reporter
from gmg_tui.headless.table import final
from gmg_tui.model import (
    Fps,
    Gpu,
    GpuHealth,
    GpuSample,
    NodeView,
    Progress,
    RunSpec,
    Session,
    Slot,
    SlotKind,
    Snapshot,
    Worker,
    WorkerState,
)
from gmg_tui.protocol import Lines

_GPU = Gpu(0, "GPU-0", "H100 80GB")
_SPEC = RunSpec("sim-1", "/state/sim-1", "/run/sim-1.sock", "sim.py", (), "/", "python")
_SESSION = Session(_SPEC, (Slot("gpu0", SlotKind.GPU, _GPU), Slot("gpu10", SlotKind.GPU)), 1, 0.0, "0")


def _snapshot(second: float, *workers: Worker, power_w: float | None = None, **sample: Any) -> Snapshot:
    return Snapshot(second, second, workers, (GpuSample("GPU-0", power_w=power_w, **sample),))


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


def test_lines_that_are_more_than_progress_are_printed() -> None:
    mere = (
        "[Genesis] [07:00:23] [INFO] Running at 24,013,029.12 FPS (5,862.56 FPS per env, 4096 envs).",
        "[Genesis] [26-11-22 07:00:23.120] [INFO] Running at 59.03 FPS.",
        "[Genesis 07:00:23] Running at 59.03 FPS (14.76 FPS per env, 4 envs).",
        "INFO:genesis:Running at ~<1,989.47>~ FPS (~<124.34>~ FPS per env, ~<16>~ envs).",
        " 43%|████▎     | 43/100 [00:04<00:05, 10.20it/s]",
        "Epoch 3:  43%|████▎     | 43/100 [00:04<00:05, 10.20it/s, loss=0.3]",
    )
    others = (
        "",
        "eval: Running at 59.03 FPS. reward 3.4",
        "[Genesis] [07:00:23] [WARNING] Running at the limit of what is stable",
        "100%|██████████| 100/100 [00:09<00:00, 10.20it/s]",
        "coverage 43%| of the table |",
        "Learning iteration 5/100",
        "Computation: 1234 steps/s (collection: 1.0s, learning 0.2s)",
        "Mean reward: 12.3",
    )
    lines = Lines("gpu0", 0, (*mere, *others))
    assert list(Reporter(_SESSION).output(lines)) == [f"gpu0  │ {line}" for line in others]
    assert list(Reporter(_SESSION, verbose=True).output(lines)) == [f"gpu0  │ {line}" for line in (*mere, *others)]


def test_lines_that_were_left_out_are_counted_unless_they_are_mere_progress() -> None:
    reporter = Reporter(_SESSION)
    assert list(reporter.output(Lines("gpu0", 0, ("a",)))) == ["gpu0  │ a"]
    assert list(reporter.output(Lines("gpu0", 9000, ("b",), after_progress=True))) == ["gpu0  │ b"]
    assert "… 3 lines left out" in next(reporter.output(Lines("gpu0", 9004, ("c",))))
    assert "left out" in next(Reporter(_SESSION, verbose=True).output(Lines("gpu0", 9, ("a",), after_progress=True)))


def test_the_status_says_how_far_the_slowest_worker_is() -> None:
    fast = replace(_running(100.0), progress=Progress(90.0, 100.0, "it"))
    slow = replace(_running(100.0, "gpu10"), progress=Progress(12.0, 96.0, "iteration"))
    said = Reporter(_SESSION).status(_snapshot(9, fast, slow, _running(100.0)))
    assert said == "sim-1  Σ 300 FPS  3 running  12 % done  00:00:09"


def test_the_status_does_not_count_a_worker_as_compiling_that_may_be_running_silently() -> None:
    silent = replace(_running(100.0), fps=None, state=WorkerState.COMPILING, silent_s=18.0)
    assert Reporter(_SESSION).status(_snapshot(9, silent)) == "sim-1  Σ – FPS  1 busy  00:00:09"


def test_the_status_has_the_age_of_metrics_that_are_late_and_na_are_in_no_sum() -> None:
    reporter = Reporter(_SESSION)
    worker = _running(100.0)
    said = [
        reporter.status(_snapshot(0, worker, power_w=50.0)),
        reporter.status(_snapshot(7, worker, power_w=50.0, age_s=7.0)),
        reporter.status(_snapshot(12, worker, power_w=50.0, age_s=12.0)),
        reporter.status(_snapshot(17, worker, error="no answer from the driver", age_s=17.0)),
        reporter.status(_snapshot(76, worker, error="no answer from the driver", age_s=76.0)),
        reporter.status(_snapshot(77, worker, error="no answer from the driver", age_s=77.0)),
    ]
    assert said == [
        "sim-1  Σ 100 FPS  2.00 FPS/W  1 running  00:00:00",
        "sim-1  Σ 100 FPS  2.00 FPS/W  1 running  00:00:07  GPU metrics are 7 s old",
        None,
        "sim-1  Σ 100 FPS  1 running  00:00:17  no answer from the driver for 17 s",
        None,
        "sim-1  Σ 100 FPS  1 running  00:01:17  no answer from the driver for 1:17",
    ]


def test_what_a_worker_waits_for_is_told_when_it_changes_but_not_each_amount_of_it() -> None:
    reporter = Reporter(_SESSION)
    told: list[str] = []
    for second, (state, reason) in enumerate(
        [
            (WorkerState.WAITING, "for gpu1 to write the mesh caches"),
            (WorkerState.WAITING, None),
            (WorkerState.WAITING, "for the NVIDIA driver to answer"),
            (WorkerState.WAITING, "for the NVIDIA driver to answer"),
            (WorkerState.RESTARTING, None),
            (WorkerState.RESTARTING, "for 20.0 GiB on gpu0 to be released"),
            (WorkerState.RESTARTING, "for 3.5 GiB on gpu0 to be released"),
            (WorkerState.RUNNING, None),
        ]
    ):
        told += reporter.events(_snapshot(second, Worker("gpu0", 0, state, reason=reason)))
    assert told == [
        "gpu0    waiting: for gpu1 to write the mesh caches",
        "gpu0    waiting: for the NVIDIA driver to answer",
        "gpu0    restarting, attempt 1",
        "gpu0    restarting, attempt 1: for 20.0 GiB on gpu0 to be released",
        "gpu0    running",
    ]


def test_a_state_is_told_once_with_the_time_since_the_attempt_began() -> None:
    reporter = Reporter(_SESSION)
    starting = Worker("gpu0", 0, WorkerState.STARTING, state_s=2.0, attempt=1)
    assert list(reporter.events(_snapshot(10, starting))) == ["gpu0    starting"]
    assert list(reporter.events(_snapshot(11, replace(starting, state_s=3.0)))) == []
    compiling = Worker("gpu0", 0, WorkerState.COMPILING, state_s=1.0, attempt=1, attempt_s=12.0, phase_usual_s=100.0)
    assert list(reporter.events(_snapshot(20, compiling))) == ["gpu0    compiling after 11 s; this took 1:40 last time"]
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
        "FPS",
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
        *("gpu0", "finished", "2,000", "2,000", "2,000", "2,000", "–", "H100 80GB", "97", "29.5 GiB", "500", "73 Wh")
    ]
    assert rows[2] == ["gpu10", "failed", *"–––––", "–", *["n/a"] * 4]
    assert lines[3] == "total 2,000 FPS  4.00 FPS/W  01:01:01"
    assert lines[4] == "gpu10 failed: no reason known"


def test_the_lines_that_explain_a_failure_come_before_it() -> None:
    reporter = Reporter(_SESSION)
    failed = Worker("gpu0", 0, WorkerState.FAILED, reason="KeyError: 'joint'", attempt=1, attempt_s=3.0, log_lines=2)
    assert list(reporter.events(_snapshot(1, replace(failed, state=WorkerState.RUNNING, reason=None)))) != []
    assert list(reporter.events(_snapshot(2, failed))) == []
    told = [
        *reporter.output(Lines("gpu0", 0, ("Traceback …", "KeyError: 'joint'"))),
        *reporter.events(_snapshot(2, failed)),
    ]
    assert told == ["gpu0  │ Traceback …", "gpu0  │ KeyError: 'joint'", "gpu0    failed after 3 s: KeyError: 'joint'"]
    assert list(reporter.events(_snapshot(3, failed))) == []


def test_a_failure_does_not_wait_for_ever_for_its_lines() -> None:
    reporter = Reporter(_SESSION)
    failed = Worker("gpu0", 0, WorkerState.FAILED, reason="KeyError: 'joint'", attempt=1, attempt_s=3.0, log_lines=2)
    assert list(reporter.events(_snapshot(2, failed))) == []
    assert any("failed" in line for line in reporter.events(_snapshot(3, failed)))


def test_the_end_names_a_gpu_that_is_slower_than_the_others() -> None:
    slow = replace(_running(2000.0), state=WorkerState.FINISHED, below_median_pct=-8.04)
    assert "gpu0: −8 % of the median" in final(_SESSION, _snapshot(3661, slow))


def test_what_is_wrong_with_a_gpu_is_said_once_with_what_to_do() -> None:
    reporter = Reporter(_SESSION)
    worker = _running(1.0)
    list(reporter.events(_snapshot(0, worker, health=GpuHealth(ecc_uncorrected=0))))
    first, second = (
        list(reporter.events(_snapshot(1 + errors, worker, health=judged(GpuHealth(ecc_uncorrected=errors)))))
        for errors in (2, 3)
    )
    assert [line[:46] for line in first] == ["gpu0    warning: 2 ECC errors, uncorrected; wh"]
    assert "nvidia-smi --gpu-reset" in first[0]
    assert second == []


def test_a_node_that_is_lost_is_said_once_each_time() -> None:
    reporter = Reporter(replace(_SESSION, slots=(Slot("b/cpu0", SlotKind.CPU, node="b"),)))
    running = _running(100, "b/cpu0")
    assert len(list(reporter.events(Snapshot(0, 0, (running,), nodes=(NodeView("b"),))))) == 1

    def lost(since: float, trouble: str) -> list[str]:
        waits = replace(running, state=WorkerState.RESTARTING, reason="b is lost", lost_since=since)
        notes = (f"b: lost since 12:00:0{since:.0f}: {trouble}",)
        nodes = (NodeView("b", lost_since=since),)
        return list(reporter.events(Snapshot(since, since, (waits,), nodes=nodes, notes=notes)))

    assert lost(1.0, "the connection was lost") == ["sim-1: b: lost since 12:00:01: the connection was lost"]
    assert lost(1.0, "No route to host") == []
    back = Snapshot(5.0, 5.0, (replace(running, attempt=2),), notes=("b: lost since 12:00:01: No route to host",))
    assert list(reporter.events(back)) == ["b/cpu0   running"], "notes may be older than what stands beside them"
    assert lost(9.0, "No route to host") == ["sim-1: b: lost since 12:00:09: No route to host"]
