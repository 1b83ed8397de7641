"""What the reporter prints for snapshots, and when."""

import re
from typing import Any

from gmg_tui.headless.reporter import Reporter
from gmg_tui.model import Alert, Fps, Gpu, GpuSample, NodeView, Progress, Severity, Slot, Snapshot, Worker, WorkerState
from gmg_tui.results.report_text import render_end
from gmg_tui.session.protocol import Lines
from tests.workers import alerts, session_of, worker_of
from tests.workers import changed as replace

_GPU = Gpu(0, "GPU-0", "H100 80GB")
_SESSION = session_of(Slot("gpu0", _GPU), Slot("gpu10"))


def _snapshot(second: float, *workers: Worker, power_w: float | None = None, **sample: Any) -> Snapshot:
    return Snapshot(second, second, workers, (GpuSample("GPU-0", power_w=power_w, **sample),))


def _running(fps: float, slot: str = "gpu0") -> Worker:
    return worker_of(slot, 0, WorkerState.RUNNING, fps=Fps(fps, fps, fps, 1, settled=fps), attempt=1)


def test_the_status_is_printed_every_five_seconds_when_it_has_changed() -> None:
    reporter = Reporter(_SESSION)
    printed = {
        second: text
        for second in range(200)
        if (text := reporter.status_line(_snapshot(second, _running(100 + min(second, 12), "gpu0"), power_w=50.0)))
    }
    assert list(printed) == [0, 5, 10, 15]
    assert printed[15] == "sim-1  Σ 112 FPS  2.24 FPS/W  1 running  00:00:15"


def test_lines_other_than_progress_are_printed() -> None:
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
    assert list(Reporter(_SESSION).report_output(lines)) == [f"gpu0  │ {line}" for line in others]


def test_the_status_shows_that_metrics_are_late_or_that_the_driver_is_silent() -> None:
    reporter = Reporter(_SESSION)
    worker = _running(100.0)
    printed = [
        reporter.status_line(_snapshot(0, worker, power_w=50.0)),
        reporter.status_line(_snapshot(7, worker, power_w=50.0, age_s=7.0)),
        reporter.status_line(_snapshot(12, worker, power_w=50.0, age_s=12.0)),
        reporter.status_line(_snapshot(17, worker, error="no answer from the driver", age_s=17.0)),
    ]
    assert printed == [
        "sim-1  Σ 100 FPS  2.00 FPS/W  1 running  00:00:00",
        "sim-1  Σ 100 FPS  2.00 FPS/W  1 running  GPU metrics are late  00:00:07",
        None,
        "sim-1  Σ 100 FPS  1 running  no answer from the driver  00:00:17",
    ]


def test_a_reason_is_reported_when_it_changes_except_for_numbers_in_it() -> None:
    reporter = Reporter(_SESSION)
    waiting, restarting, stopping = WorkerState.WAITING, WorkerState.RESTARTING, WorkerState.STOPPING
    steps: list[tuple[WorkerState, dict[str, object], list[str]]] = [
        (waiting, {"reason": "for gpu1 to write the mesh caches"}, ["waiting: for gpu1 to write the mesh caches"]),
        (waiting, {}, ["waiting"]),
        (waiting, {"reason": "for the NVIDIA driver to answer"}, ["waiting: for the NVIDIA driver to answer"]),
        (waiting, {"reason": "for the NVIDIA driver to answer"}, []),
        (restarting, {}, ["restarting, attempt 1"]),
        (restarting, {"reason": "for 20.0 GiB to be released"}, ["restarting, attempt 1: for 20.0 GiB to be released"]),
        (restarting, {"reason": "for 3.5 GiB to be released"}, []),
        (WorkerState.RUNNING, {}, ["running"]),
        (stopping, {"stopping": "SIGINT, SIGTERM in 2 s"}, ["stopping: SIGINT, SIGTERM in 2 s"]),
        (stopping, {"stopping": "SIGINT, SIGTERM in 1 s"}, []),
        (stopping, {"stopping": "SIGTERM, SIGKILL in 9 s"}, ["stopping: SIGTERM, SIGKILL in 9 s"]),
    ]
    for second, (state, fields, expected) in enumerate(steps):
        worker = replace(worker_of("gpu0", 0, state), **fields)
        assert list(reporter.report_changes(_snapshot(second, worker))) == [f"gpu0    {text}" for text in expected]


def test_what_a_stopping_worker_waits_for_is_reported_and_so_is_an_unmatched_pattern() -> None:
    reporter = Reporter(_SESSION)

    def lines(second: float, state: WorkerState, **fields: Any) -> list[str]:
        return list(reporter.report_changes(_snapshot(second, worker_of("gpu0", 0, state, attempt=1, **fields))))

    left = "for {} that the script left behind (wandb-service)"
    assert lines(1, WorkerState.STOPPING, reason=left.format("2 processes")) == [
        "gpu0    stopping: waiting for 2 processes that the script left behind (wandb-service)"
    ]
    assert lines(2, WorkerState.STOPPING, reason=left.format("3 processes")) == []
    ignored = Alert("output", Severity.INFO, "no line matches --pattern", 0.0)
    assert lines(3, WorkerState.FINISHED, alerts=(ignored,))[1:] == ["gpu0    no line matches --pattern"]
    assert len(lines(4, WorkerState.FAILED, advice="see its log")) == 1


def test_the_status_shows_the_progress_of_the_slowest_worker() -> None:
    fast = replace(_running(100.0), progress=Progress(90.0, 100.0, "it"))
    slow = replace(_running(100.0, "gpu10"), progress=Progress(12.0, 96.0, "iteration"))
    status = Reporter(_SESSION).status_line(_snapshot(9, fast, slow, _running(100.0)))
    assert status == "sim-1  Σ 300 FPS  3 running  12 % done  00:00:09"


def test_a_state_is_reported_once_with_the_time_since_the_attempt_began() -> None:
    reporter = Reporter(_SESSION)
    starting = worker_of("gpu0", 0, WorkerState.STARTING, state_since=8.0, attempt=1)
    assert list(reporter.report_changes(_snapshot(10, starting))) == ["gpu0    starting"]
    assert list(reporter.report_changes(_snapshot(11, starting))) == []
    compiling = worker_of("gpu0", 0, WorkerState.COMPILING, 19.0, attempt=1, attempt_started=8.0, phase_usual_s=100.0)
    assert list(reporter.report_changes(_snapshot(20, compiling))) == [
        "gpu0    compiling after 11 s; this took 1:40 last time"
    ]
    failed = worker_of(
        "gpu0", 0, WorkerState.FAILED, attempt=1, attempt_started=8.0, attempt_ended=30.0, reason="out of memory"
    )
    assert list(reporter.report_changes(_snapshot(30, failed))) == ["gpu0    failed after 22 s: out of memory"]
    again = worker_of("gpu0", 0, WorkerState.RESTARTING, attempt=1, restart_at=35.0, reason="out of memory")
    assert list(reporter.report_changes(_snapshot(31, again))) == [
        "gpu0    restarting in 4 s, attempt 2: out of memory"
    ]
    assert list(reporter.report_changes(_snapshot(35, replace(starting, attempt=2)))) == ["gpu0    starting, attempt 2"]


def test_stuck_workers_warnings_and_notes_are_reported_when_they_appear() -> None:
    reporter = Reporter(_SESSION)
    worker = _running(100.0)
    stuck = replace(worker, alerts=alerts(stuck="no output for 74 s", cpu="runs on the CPU"))
    first = replace(_snapshot(0, stuck), alerts=alerts(disk="disk full"), nvml_error="driver gone")
    assert list(reporter.report_changes(first)) == [
        "gpu0    running after 0 s",
        "gpu0    ⚠ stuck: no output for 74 s",
        "gpu0    ⚠ cpu: runs on the CPU",
        "sim-1: disk full",
        "sim-1: driver gone",
    ]
    assert list(reporter.report_changes(first)) == []
    assert list(reporter.report_changes(_snapshot(1, worker))) == [
        "gpu0    alert cleared: stuck",
        "gpu0    alert cleared: cpu",
    ]


def test_the_table_sums_known_values_only() -> None:
    fps = Fps(2000.0, 2000.0, 2000.0, 9, env_steps=6e6, seconds=3000.0, energy_j=1.5e6)
    reached = {"gpu_util_mean_pct": 97.1, "memory_peak_mib": 30211, "power_mean_w": 480.0, "energy_j": 263000.0}
    times = {"attempt_started": 1.0, "attempt_ended": 3662.0}
    finished = replace(_running(2000.0), state=WorkerState.FINISHED, fps=fps, **reached, **times)
    lines = render_end(_SESSION, _snapshot(3662, finished, worker_of("gpu10", 1, WorkerState.FAILED)))
    rows = [re.split("  +", line.strip()) for line in lines]
    assert rows[0] == ["slot", "state", "start", "time", "FPS", "VRAM GiB", "GPU %", "W", "energy", "FPS/W"]
    assert [*rows[1][:2], *rows[1][3:]] == ["gpu0", "finished", "1h 01m", "2,000", "29.5", "97", "480", "73 Wh", "4.00"]
    assert rows[2] == ["gpu10", "failed", *["–"] * 8]
    assert rows[3][:4] == [
        "1 finished, 1 failed",
        "total 2,000 FPS without 1 failed worker",
        "4.00 FPS/W",
        "time 01:01:02",
    ]
    assert lines[4] == "gpu10 failed: unknown reason"


def test_gpu_health_problems_are_reported_once_with_advice() -> None:
    reporter, worker = Reporter(_SESSION), _running(1.0)
    errors = ("2 ECC errors, uncorrected", "3 ECC errors, uncorrected", "3 ECC errors, uncorrected; PCIe has 8 lanes")
    first, second, third = (
        list(reporter.report_changes(_snapshot(n, replace(worker, alerts=alerts(gpu=text)))))
        for n, text in enumerate(errors)
    )
    assert first[1:] == ["gpu0    ⚠ gpu: 2 ECC errors, uncorrected"]
    assert second == []
    assert third == ["gpu0    ⚠ gpu: 3 ECC errors, uncorrected; PCIe has 8 lanes"]


def test_each_loss_of_a_node_is_printed_once() -> None:
    reporter = Reporter(replace(_SESSION, slots=(Slot("b/cpu0", node="b"),)))
    running = _running(100, "b/cpu0")
    assert len(list(reporter.report_changes(Snapshot(0, 0, (running,), nodes=(NodeView("b"),))))) == 1

    def lost(since: float, trouble: str) -> list[str]:
        waits = replace(running, state=WorkerState.RESTARTING, reason="b is lost", lost_since=since)
        notes = (f"b: lost since 12:00:0{since:.0f}: {trouble}",)
        nodes = (NodeView("b", lost_since=since),)
        return list(
            reporter.report_changes(
                Snapshot(
                    since,
                    since,
                    (waits,),
                    nodes=nodes,
                    alerts=tuple(each for text in notes for each in alerts(node=text)),
                )
            )
        )

    assert lost(1.0, "the connection was lost") == ["sim-1: b: lost since 12:00:01: the connection was lost"]
    assert lost(1.0, "No route to host") == []
    back = Snapshot(
        5.0, 5.0, (replace(running, attempt=2),), alerts=alerts(node="b: lost since 12:00:01: No route to host")
    )
    assert list(reporter.report_changes(back)) == ["b/cpu0   running after 0 s"], (
        "notes may be older than what stands beside them"
    )
    assert lost(9.0, "No route to host") == ["sim-1: b: lost since 12:00:09: No route to host"]


def test_few_notes_are_remembered_however_many_a_node_reports() -> None:
    reporter = Reporter(_SESSION)
    for number in range(3000):
        note = Alert("output", Severity.INFO, f"note {'x' * number}", 0.0)
        for shown in ((note,), ()):
            list(reporter.report_changes(_snapshot(number, replace(_running(100.0), alerts=shown))))
    assert len(reporter._reported) == 1000
