"""An attempt: one process of a worker from its preparation to its end, on this machine or on a node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from msgspec import Struct, structs

from gmg_tui.jobs.argument_placeholders import JOB_NAMES, fill_some
from gmg_tui.model import Checkpoint, JobRecord, Rank, RunSpec, Slot, SweepSpec
from gmg_tui.scripts.checkpoints import before_nan
from gmg_tui.scripts.genesis.output.failures import Failure, is_load_error
from gmg_tui.scripts.torchrun import Rendezvous

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.local_attempt import LocalAttempt
    from gmg_tui.engine.attempts.local_host import LocalHost
    from gmg_tui.engine.nodes.fleet import Fleet
    from gmg_tui.engine.nodes.remote_attempt import RemoteAttempt

    Attempt: TypeAlias = "LocalAttempt | RemoteAttempt"
    """An attempt, on this machine or on a node."""
    Workplace: TypeAlias = "LocalHost | Fleet"
    """Runs a session's attempts: on this machine, or on nodes."""

Report = Callable[[str | None], None]
"""Shows a wait reason, or (None) removes it."""


ReportedFiles: TypeAlias = Mapping[int, Sequence[tuple[int, Checkpoint]]]
"""The checkpoints of all jobs that nodes have reported, by inode and by time of modification, each with its job's origin."""


_MAX_SAME_KEY = 100
"""Maximum reports to compare with one of the same inode or time: a node may invent any number."""


class Life(StrEnum):
    """The phases of an attempt, in order.

    Signals are sent only in `ALIVE` and `LEADER_GONE`, and only to the attempt's own processes.
    """

    PREPARING = "preparing"
    """It is waiting for its turn, or its command line is being built; there is no process."""
    ALIVE = "alive"
    """The first process is running."""
    LEADER_GONE = "leader_gone"
    """The first process has ended; its descendants may be left."""
    CLEARED = "cleared"
    """No process is left that can be ended; the rest of the output is being read, and the outcome determined."""
    ENDED = "ended"


class StopCause(StrEnum):
    """The cause of a stop."""

    COMMAND = "command"
    """A command of the user, the scheduler or the session."""
    GROUP = "group"
    """The failure or stop of another rank of the group."""
    ALERT = "alert"
    """An alert; another attempt follows."""
    TIMEOUT = "timeout"


class Stop(Struct, frozen=True, omit_defaults=True):
    """A request to stop an attempt."""

    cause: StopCause = StopCause.COMMAND
    kill: bool = False
    """True to send SIGKILL at once."""
    reason: str | None = None
    """None if a user or another rank is the cause."""


class Outcome(NamedTuple):
    """The result of an attempt."""

    failure: Failure | None = None
    """None if it finished, or was stopped by a command or with its group."""
    cause: StopCause | None = None
    """The cause of its stop or cancellation; None if it ended on its own."""
    had_progress: bool = False
    running_s: float = 0.0
    unready: str | None = None
    """The reason it could not start or was lost, if the script was not the cause; None otherwise. A job runs again."""
    final: bool = False
    """True if no other attempt can follow: its node is gone."""
    crashed_at_exit: bool = False
    """True if the script had come to its end when it crashed, as simulators do at their shutdown: to repeat it does not help."""
    retry: bool = False
    """True if another attempt follows, not counted as a restart, because the node's agent was replaced."""

    @property
    def by_user(self) -> bool:
        """True if a command stopped it."""
        return self.cause is StopCause.COMMAND

    @property
    def by_group(self) -> bool:
        """True if another rank ended it or kept it from starting."""
        return self.cause is StopCause.GROUP


def outcome_without_process(stop: Stop | None) -> Outcome:
    """Returns the outcome of an attempt that got no process, because `stop` or (None) its group cancelled it."""
    by_user = stop is not None and stop.cause is StopCause.COMMAND
    return Outcome(cause=StopCause.COMMAND if by_user else StopCause.GROUP)


class RankActivity(Struct, frozen=True, omit_defaults=True):
    """A rank's activity, which its group checks. Times are monotonic seconds on one machine."""

    attempt: int = 0
    """Number of its attempt; 0 before the first."""
    has_process: bool = False
    """True if it has a process that is not being ended."""
    leader_runs: bool = False
    phase_started: float = 0.0
    in_running: bool = False
    progress_at: float | None = None
    progress_every_s: float = 0.0
    """Longest recent interval between two reports; 0 before the second."""
    idle_s: float = 0.0
    """Seconds without activity at the last scan."""
    silence_s: float = math.inf
    """Seconds without output at the last scan."""
    stopped: str | None = None
    """The reason that a process is stopped, such as a signal or a debugger; None if none is."""

    def on_clock(self, ahead_s: float) -> RankActivity:
        """Returns the activity with its times converted to a clock that is `ahead_s` ahead."""
        return structs.replace(
            self,
            phase_started=self.phase_started + ahead_s,
            progress_at=self.progress_at + ahead_s if self.progress_at is not None else None,
        )


@dataclass(frozen=True)
class Task:
    """The work of a worker: arguments, environment, log, checkpoints, and the time limit of one attempt."""

    args: tuple[str, ...]
    """The script's arguments, before placeholders are filled in."""
    env: Mapping[str, str]
    """Extra environment variables, before placeholders are filled in."""
    index: int
    """The worker's number, or the job's, from 0: `{i}`."""
    count: int
    """Number of workers or jobs: `{n}`."""
    log: str = ""
    """Path of the log, relative to the session's folder."""
    visible_slots: tuple[Slot, ...] = ()
    """The slots whose GPUs the worker sees, in CUDA's order; empty for only its own slot."""
    rank: Rank | None = None
    rendezvous: Rendezvous | None = None
    """The rendezvous of a rank whose group another engine manages."""
    timeout_s: float | None = None
    resume_args: tuple[str, ...] = ()
    """Arguments added if an attempt continues from a checkpoint, before placeholders are filled in."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Checkpoints from which the next attempt can continue, oldest first."""
    left_out: str | None = None
    """Why the newest one is not among them; None if it is."""
    first_attempt: int = 1
    """Number of the next attempt; for a rank, of the group's first attempt, to which restarts are added."""
    job: int | None = None
    """The job's number, from 1; None in a plain run."""
    name: str = ""
    values: Mapping[str, object] = field(default_factory=dict)
    """Values of additional placeholders."""

    def attempt_number(self, rendezvous: Rendezvous | None) -> int:
        """Returns the number of the next attempt; for a rank, of the attempt with this rendezvous."""
        return self.first_attempt + (rendezvous.restarts if rendezvous is not None else 0)

    @property
    def own_values(self) -> Mapping[str, object]:
        """The placeholders' values from the sweep file, without the job's number and name."""
        return {name: value for name, value in self.values.items() if name not in JOB_NAMES}

    @cached_property
    def given(self) -> tuple[str, ...]:
        """The arguments with only the job's values filled in: equal for workers that do the same work."""
        return tuple(fill_some(arg, self.own_values) for arg in self.args)

    @cached_property
    def given_env(self) -> dict[str, str]:
        """The environment with only the job's values filled in."""
        return {name: fill_some(value, self.own_values) for name, value in self.env.items()}

    @classmethod
    def of_job(cls, spec: RunSpec, job: JobRecord, count: int, visible_slots: tuple[Slot, ...] = ()) -> Self:
        """Returns the task of a job in a sweep of `count` jobs; its workers see the GPUs of `visible_slots`."""
        return cls(
            spec.args if job.args is None else job.args,
            spec.env if job.args is None else job.env,
            job.number - 1,
            count,
            visible_slots=visible_slots,
            timeout_s=(spec.sweep or SweepSpec()).timeout_s,
            resume_args=spec.resume_args,
            checkpoints=_checkpoints_of(job),
            first_attempt=max(job.last.number, job.reserved) + 1,
            job=job.number,
            name=job.name,
            values={**job.values, "job": job.number, "name": job.name},
        )

    def without_others_files(self, origin: int, nodes: Set[str], find_files: Callable[[], ReportedFiles]) -> Self:
        """Returns the task, to run on `nodes`, without what another node has reported for it but is another job's file.

        `origin` is the job, or the one that it is a copy of.
        """
        reported = [each for each in self.checkpoints if each.node and {each.node} != nodes]
        files = find_files() if reported else {}
        wrong = [
            each
            for each in reported
            for key in keys_of(each)
            if any(job != origin and _is_file_of(other, each) for job, other in files.get(key, ())[:_MAX_SAME_KEY])
        ]
        if not wrong:
            return self
        usable, newest = tuple(each for each in self.checkpoints if each not in wrong), self.checkpoints[-1]
        left_out = f"{newest.path}, reported by {newest.node}, is another job's file: not used"
        return replace(self, checkpoints=usable, left_out=left_out if newest in wrong else None)


def keys_of(checkpoint: Checkpoint) -> set[int]:
    """Returns the keys of a checkpoint in `ReportedFiles`: its inode and its time of modification, if known."""
    return {checkpoint.inode, checkpoint.mtime_ns} - {0}


def _is_file_of(other: Checkpoint, reported: Checkpoint) -> bool:
    """True if what was `reported` is the file of an `other` report, of another job, which came first.

    An inode may be used again later. A report of a time to come is a guess. Two files may have the same time: disks record
    ticks of some milliseconds, or whole seconds.
    """
    if not other.mtime_ns <= 1e9 * other.reported < 1e9 * reported.reported:
        return False
    is_same = other.mtime_ns == reported.mtime_ns and other.size_bytes == reported.size_bytes
    is_same_inode = other.inode == reported.inode != 0 and reported.mtime_ns <= other.mtime_ns
    return is_same_inode or (is_same and other.path == reported.path)


def _checkpoints_of(job: JobRecord) -> tuple[Checkpoint, ...]:
    """Returns the checkpoints that a job may continue from; none of the original's if they do not fit its edited arguments."""
    usable, started = before_nan(job.last), math.inf if job.started is None else job.started
    is_inherited = job.edited_from is not None and all(checkpoint.saved < started for checkpoint in usable)
    return () if is_inherited and is_load_error(job.last.reason or "") else usable
