"""Measurements of a worker that prints nothing."""

from __future__ import annotations

from gmg_tui.engine.processes.activity import Activity
from gmg_tui.engine.processes.process_tree import Proc


def _proc(cpu_s: float, state: str = "S") -> Proc:
    return Proc(77, 1, 77, 77, state, cpu_s, 10.0, 5)


def test_cpu_time_is_measured_over_the_silent_period() -> None:
    ours = Activity()
    for cpu_s, output, now in ((0.0, 100, 0.0), (4.0, 200, 4.0), (34.0, 200, 34.0), (34.0, 200, 74.0)):
        ours.update([_proc(cpu_s)], output, now)
    assert ours.idleness(78.0) == "no output for 74 s, 30.0 s CPU"
    assert ours.idle_for_s(78.0) == 44.0


def test_a_process_stopped_by_a_signal_is_reported_with_the_signal_that_resumes_it() -> None:
    ours = Activity()
    ours.update([_proc(0.0)], 100, 0.0)
    ours.update([_proc(0.0, "T")], 100, 80.0)
    assert ours.idleness(80.0) == "stopped by a signal; kill -CONT 77"
    ours.update([_proc(0.0, "t")], 100, 90.0)
    assert ours.idleness(90.0) == "process 77 is stopped by a debugger"
    ours.update([_proc(0.0)], 100, 100.0)
    assert ours.idleness(100.0) == "no output for 100 s, 0.0 s CPU"
