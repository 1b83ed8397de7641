"""The rows of the queue's table: what they say of a job that takes several slots."""

from __future__ import annotations

from gmg_tui.model import Fps, JobRecord, Rank, Worker, WorkerState
from gmg_tui.ui.drawing import themes
from gmg_tui.ui.screens.queue import table
from tests.ui import play, sessions

_LOOK = play.app_of(play.engine_of(sessions.busy_snapshot(1)), theme=themes.NAMES[0]).appearance
SLOTS = tuple(f"gpu{index}" for index in range(12))


def _words(job: JobRecord, worker: Worker | None = None, *, group_fps: float | None = None) -> list[str]:
    layout = table.columns(120, 30, SLOTS, several=True)
    line = table.row(job, worker, layout, _LOOK, chosen=False, group_fps=group_fps)
    return line.strip().text.split()


def _rank(rank: int) -> Worker:
    return Worker(
        SLOTS[rank],
        rank,
        WorkerState.RUNNING,
        job=7,
        attempt=1,
        fps=Fps(100.0, 100.0, 100.0, 3),
        group=Rank("g7", 0, 12),
    )


def test_a_running_group_has_the_rate_of_all_its_ranks_and_all_its_slots() -> None:
    job = JobRecord(7, "wide", state=WorkerState.RUNNING, gpus=12, world_size=12, slot="gpu0", slots=SLOTS)
    assert _words(job, _rank(0), group_fps=1200.0) == ["7", "wide", "●", "running", "gpu0", "+11", "1", "1,200"]
    assert "100" not in _words(job, _rank(0)), "one rank's rate is not the job's"


def test_an_ended_one_has_what_was_recorded() -> None:
    job = JobRecord(7, "wide", state=WorkerState.FINISHED, gpus=2, world_size=2, slot="gpu0", slots=SLOTS[:2])
    assert _words(job, None)[:6] == ["7", "wide", "✓", "finished", "gpu0", "+1"]
