"""Sessions whose workers are ranks of groups, at fixed moments."""

from gmg_tui.model import Fps, Phase, Progress, Rank, RankGroup, Snapshot, Worker, WorkerState
from tests.ui import sessions
from tests.ui.sessions import NOW
from tests.workers import alerts, changed

ARGS = ("--num_envs", "4096")


def rank(at: int, number: int, group: str, size: int, **changes: object) -> Worker:
    """The worker on `gpu<at>`, rank `number` of a group, running unless `changes` override the state."""
    return changed(sessions.running(at), args=ARGS, group=Rank(group, number, size), **changes)


def slots_of(first: int, size: int) -> tuple[str, ...]:
    return tuple(f"gpu{first + number}" for number in range(size))


def snapshot_of(workers: tuple[Worker, ...], *groups: RankGroup) -> Snapshot:
    samples = tuple(sessions.sample(i, busy=worker.state.live) for i, worker in enumerate(workers))
    return Snapshot(NOW, 2467.0, workers, samples, clients=1, groups=groups)


def summed() -> Snapshot:
    """One group of four, whose ranks each print their own rate, and one is slower."""
    workers = tuple(rank(i, i, "g0", 4) for i in range(4))
    workers = (*workers[:2], changed(workers[2], fps=Fps(21e6, 21e6, 22e6, 900, settled=21e6)), workers[3])
    fps = sum(worker.rate or 0.0 for worker in workers)
    group = RankGroup("g0", slots_of(0, 4), WorkerState.RUNNING, NOW - 2352.0, restarts=1, fps=fps)
    return snapshot_of(workers, group)


def whole() -> Snapshot:
    """Two groups of four; rank 0 of each reports the group's rate, as rsl_rl does."""
    progress = Progress(312, 1500, "iteration", eta_s=1188.0)
    fps = Fps(192e3, 190e3, 195e3, 312, settled=192e3)
    workers = tuple(
        rank(
            i,
            i % 4,
            f"g{i // 4}",
            4,
            fps=fps if i % 4 == 0 else None,
            fps_of_group=i % 4 == 0,
            fps_in_rank_0=i % 4 != 0,
            progress=progress if i % 4 == 0 else None,
            log_lines=0 if i % 4 else 900,
            last_line="Learning iteration 312/1500" if i % 4 == 0 else "",
        )
        for i in range(8)
    )
    groups = (
        RankGroup(
            f"g{i}",
            slots_of(4 * i, 4),
            WorkerState.RUNNING,
            NOW - 2352.0,
            fps=192e3,
            progress=progress,
            restarts=2 * i,
        )
        for i in range(2)
    )
    return snapshot_of(workers, *groups)


def pairs() -> Snapshot:
    """Four groups of two: one runs, one waits for a rank, one is stuck, and one comes back after a failure."""
    cause = "rank 1: CUDA out of memory: 61.4 GiB more were asked for, 12.1 GiB were free"
    stuck = "rank 1 never entered ALLREDUCE 4711; the others have waited in it for 74 s"
    idle = {"fps": None, "state_since": NOW - 12.0, "phase": Phase.NONE, "last_line": ""}
    workers = (
        *(rank(i, i, "g0", 2) for i in range(2)),
        rank(2, 0, "g1", 2, **idle, state=WorkerState.WAITING, reason="for rank 1 (gpu3)"),
        rank(3, 1, "g1", 2, **idle, state=WorkerState.WAITING, reason="for 12.1 GiB on gpu3 to be released"),
        *(rank(4 + i, i, "g2", 2, alerts=alerts(stuck=stuck)) for i in range(2)),
        rank(
            6,
            0,
            "g3",
            2,
            **idle,
            state=WorkerState.RESTARTING,
            restart_at=NOW + 4.2,
            reason=f"ended with the group: {cause}",
        ),
        rank(
            7,
            1,
            "g3",
            2,
            **idle,
            state=WorkerState.RESTARTING,
            restart_at=NOW + 4.2,
            reason=cause.removeprefix("rank 1: "),
        ),
    )
    first = sum(worker.rate or 0.0 for worker in workers[:2])
    groups = (
        RankGroup("g0", slots_of(0, 2), WorkerState.RUNNING, NOW - 2352.0, fps=first),
        RankGroup("g1", slots_of(2, 2), WorkerState.WAITING, NOW - 12.0, waits_for=(1,)),
        RankGroup("g2", slots_of(4, 2), WorkerState.RUNNING, NOW - 2352.0, alerts=alerts(stuck=stuck)),
        RankGroup(
            "g3", slots_of(6, 2), WorkerState.RESTARTING, NOW - 12.0, restarts=1, restart_at=NOW + 4.2, reason=cause
        ),
    )
    return snapshot_of(workers, *groups)


def ended() -> Snapshot:
    cause = "rank 1: ValueError: nan in the velocities of entity 3"
    workers = tuple(
        rank(
            i,
            i,
            "g0",
            4,
            state=WorkerState.FAILED,
            reason=cause.removeprefix("rank 1: ") if i == 1 else f"ended with the group: {cause}",
            exit_code=1,
        )
        for i in range(4)
    )
    return snapshot_of(
        workers, RankGroup("g0", slots_of(0, 4), WorkerState.FAILED, NOW - 12.0, restarts=3, reason=cause)
    )
