"""The vocabulary of gmg-tui as frozen types: slot, job, worker, attempt, session, snapshot.

Every quantity carries its unit in its name: `_mib` mebibytes, `_w` watts, `_s` seconds, `_pct` per cent, `_c` degrees
Celsius, `_mhz` megahertz, `_j` joules. `None` means "unknown" or "not reported by the GPU", never 0.
"""

# mypy: implicit-reexport
# ruff: noqa: F401
from __future__ import annotations

from gmg_tui.model.attempt_report import AttemptReport
from gmg_tui.model.gpu_health import GpuActivity, GpuHealth, GpuTrouble, Severity, Xid
from gmg_tui.model.gpus import Gpu, GpuProcess, GpuSample, Slot
from gmg_tui.model.groups import DdpSpec, RankGroup, RateOf, added_up
from gmg_tui.model.jobs import Batch, Job, JobRecord, Lane, QueueAction, QueueView, SweepSpec, Value
from gmg_tui.model.nodes import AgentSpec, LauncherKind, NodesSpec, NodeView
from gmg_tui.model.occurrences import TERMINAL_WAYS, Occurrence, OccurrenceKind
from gmg_tui.model.run import Allocation, RunSpec, Session, Versions
from gmg_tui.model.snapshot import Details, Queue, Series, Snapshot, fps_per_watt
from gmg_tui.model.stacks import Stacks
from gmg_tui.model.states import Phase, RestartMode, SlotKind, StartMode, Visible, WorkerState
from gmg_tui.model.tried import Tried, TriedView
from gmg_tui.model.tuning import (
    FPS,
    Answer,
    Best,
    Edge,
    Goal,
    MemoryLine,
    Together,
    Trial,
    TrialKind,
    TrialState,
    Tunable,
    TuneSpec,
    Tuning,
)
from gmg_tui.model.worker import Attempt, AttemptMetrics, Fps, Progress, Rank, Settings, Worker, own_rates, total_fps
