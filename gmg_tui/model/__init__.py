"""The vocabulary of gmg-tui as frozen types: slot, job, worker, attempt, session, snapshot.

Every quantity carries its unit in its name: `_mib` mebibytes, `_w` watts, `_s` seconds, `_pct` per cent, `_c` degrees
Celsius, `_mhz` megahertz, `_j` joules. `None` means "unknown" or "not reported by the GPU", never 0.
"""

# mypy: implicit-reexport
# ruff: noqa: F401
from __future__ import annotations

from gmg_tui.model.attempt import NO_ATTEMPT, Attempt, Fps, Progress, Settings
from gmg_tui.model.gpus import Gpu, GpuHealth, GpuProcess, GpuSample, GpuTrouble, Severity, Slot, Xid
from gmg_tui.model.groups import DdpSpec, RankGroup, together
from gmg_tui.model.jobs import JobRecord, QueueAction, SweepSpec, Value
from gmg_tui.model.run import (
    AgentSpec,
    Allocation,
    LauncherKind,
    NodesSpec,
    NodeView,
    RunSpec,
    Session,
    Versions,
)
from gmg_tui.model.snapshot import (
    TERMINAL_WAYS,
    Details,
    Occurrence,
    OccurrenceKind,
    Queue,
    Series,
    Snapshot,
    Stacks,
    fps_per_watt,
)
from gmg_tui.model.states import Phase, RestartMode, StartMode, WorkerState
from gmg_tui.model.tried import Tried
from gmg_tui.model.tuning import (
    FPS,
    Answer,
    Best,
    Edge,
    MemoryLine,
    Together,
    Trial,
    TrialKind,
    TrialState,
    TuneSpec,
    Tuning,
)
from gmg_tui.model.worker import Rank, Worker, own_rates, total_fps
