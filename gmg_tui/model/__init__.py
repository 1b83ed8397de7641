"""The words of gmg-tui as frozen types: slot, job, worker, attempt, session, snapshot.

Every quantity carries its unit in its name: `_mib` mebibytes, `_w` watts, `_s` seconds, `_pct` per cent, `_c` degrees
Celsius, `_mhz` megahertz, `_j` joules. `None` means "not known" or "the card does not say", never 0.
"""

from __future__ import annotations

from gmg_tui.model.cards import Gpu, GpuProcess, GpuReading, Slot
from gmg_tui.model.jobs import Group, Job, JobRecord, Lane, QueueAction, QueueView, SweepSpec, Value
from gmg_tui.model.run import RunSpec, Session
from gmg_tui.model.snapshot import Details, Queue, Series, Snapshot
from gmg_tui.model.states import Phase, RestartWhen, SlotKind, StartWay, WorkerState
from gmg_tui.model.worker import Attempt, Figures, Fps, Progress, Worker, fps_per_watt, total_fps

__all__ = [
    "Attempt",
    "Details",
    "Figures",
    "Fps",
    "Gpu",
    "GpuProcess",
    "GpuReading",
    "Group",
    "Job",
    "JobRecord",
    "Lane",
    "Phase",
    "Progress",
    "Queue",
    "QueueAction",
    "QueueView",
    "RestartWhen",
    "RunSpec",
    "Series",
    "Session",
    "Slot",
    "SlotKind",
    "Snapshot",
    "StartWay",
    "SweepSpec",
    "Value",
    "Worker",
    "WorkerState",
    "fps_per_watt",
    "total_fps",
]
