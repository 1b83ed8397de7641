"""What the reporter and the list of sessions print for groups of ranks."""

from itertools import pairwise

from gmg_tui.headless.reporter import Reporter
from gmg_tui.model import DdpSpec, Fps, Rank, RankGroup, Snapshot, WorkerState
from gmg_tui.results.report_text import render_end
from tests.workers import alerts, changed, session_of, worker_of

_SLOTS = ("cpu0", "cpu1", "cpu2")
_SESSION = session_of(*_SLOTS, name="ddp-1", ddp=DdpSpec())
_CAUSE = "rank 1: ValueError: nan in the velocities"


def _snapshot(second: float, state: WorkerState, *, lines: int = 0, log: int = 0, **group: object) -> Snapshot:
    reasons = [_CAUSE.removeprefix("rank 1: ") if rank == 1 else f"ended with the group: {_CAUSE}" for rank in range(3)]
    workers = tuple(
        worker_of(
            name,
            rank,
            state,
            attempt=1,
            attempt_started=0.0,
            group=Rank("g0", rank, 3),
            reason=reasons[rank] if state is WorkerState.FAILED else None,
            log_lines=log,
        )
        for rank, name in enumerate(_SLOTS)
    )
    made = changed(RankGroup("g0", _SLOTS, state), **group)
    return Snapshot(second, second, workers, groups=(made,))


def _reported(*snapshots: Snapshot) -> list[str]:
    reporter = Reporter(_SESSION)
    return [line for snapshot in snapshots for line in reporter.report_changes(snapshot)]


def test_a_group_is_reported_once_and_not_its_ranks() -> None:
    assert _reported(
        _snapshot(0, WorkerState.WAITING),
        _snapshot(1, WorkerState.WAITING, waits_for=(1, 2)),
        _snapshot(2, WorkerState.STARTING),
        _snapshot(3, WorkerState.RUNNING),
        _snapshot(5, WorkerState.RUNNING, fps=5100.0),
        _snapshot(6, WorkerState.RUNNING, fps=5100.0, alerts=alerts(stuck="rank 1 never entered ALLREDUCE 3")),
        _snapshot(7, WorkerState.RUNNING, fps=5100.0),
        _snapshot(8, WorkerState.STOPPING, reason=_CAUSE),
        _snapshot(9, WorkerState.RESTARTING, reason=_CAUSE, restart_at=14.0),
        _snapshot(10, WorkerState.RESTARTING, reason=_CAUSE, restarts=1),
        _snapshot(10, WorkerState.STARTING, restarts=1),
        _snapshot(11, WorkerState.FAILED, restarts=1, reason=_CAUSE),
        _snapshot(12, WorkerState.FAILED, restarts=1, reason=_CAUSE),
    ) == [
        "g0     waiting",
        "g0     waiting for ranks 1, 2",
        "g0     starting 3 ranks",
        "g0     running",
        "g0     ⚠ stuck: rank 1 never entered ALLREDUCE 3",
        "g0     alert cleared: stuck",
        "g0     stopping 3 ranks",
        f"g0     restarting in 5 s: {_CAUSE}",
        "g0     starting 3 ranks, attempt 2",
        f"g0     failed: {_CAUSE}",
    ]


def test_the_final_table_shows_group_and_rank_and_the_cause_once() -> None:
    lines = render_end(_SESSION, _snapshot(9, WorkerState.FAILED, reason=_CAUSE, advice="smaller steps"))
    assert lines[0].split()[:4] == ["slot", "state", "group", "rank"]
    assert [line.split()[:4] for line in lines[1:4]] == [
        [name, "failed", "g0", str(i)] for i, name in enumerate(_SLOTS)
    ]
    text = "\n".join(lines)
    assert text.count(_CAUSE) == 1
    assert f"g0 failed: {_CAUSE}\n   smaller steps" in text
    columns = [line.index("failed") for line in lines[1:4]]
    assert all(column == other for column, other in pairwise(columns))


def test_the_final_table_counts_the_power_of_all_ranks_for_a_group_rate() -> None:
    snapshot = _snapshot(9, WorkerState.FINISHED)
    fps = Fps(6000.0, 6000.0, 6000.0, 5, settled=6000.0, env_steps=6e4, seconds=10.0)
    workers = (
        changed(snapshot.workers[0], fps=fps, fps_of_group=True, power_mean_w=100.0),
        *(changed(worker, power_mean_w=100.0) for worker in snapshot.workers[1:]),
    )
    ended = changed(snapshot, workers=workers)
    assert any("total 6,000 FPS  20.0 FPS/W" in line for line in render_end(_SESSION, ended))
