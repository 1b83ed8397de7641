"""A session's record (`session.json`), its state, and what is left of it once its engine was killed."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from gmg_tui.machine.files import reading, write_atomic
from gmg_tui.model import (
    Alert,
    Checkpoint,
    JobRecord,
    Queue,
    Rank,
    RunSpec,
    Session,
    Snapshot,
    Worker,
    WorkerState,
    own_rates,
)
from gmg_tui.model.encoding import encoded
from gmg_tui.model.errors import GmgError, nearest
from gmg_tui.model.states import Moment
from gmg_tui.model.text import one_line
from gmg_tui.session.paths import (
    ENGINE_LOG,
    LOGS,
    RECORD,
    folders,
    is_locked,
    remove_stale_socket,
    unreadable,
    unreadable_ones,
)

if TYPE_CHECKING:
    import psutil

SILENT_S = 120.0
"""A running engine writes its record at least every 30 s; after this time one on another machine counts as lost."""
_ROOM_BYTES = 2048
_MAX_BYTES = 64 << 20
"""A larger record was not written by an engine; to read it could take all memory."""
_GONE_S = 5.0
"""Seconds that the kernel may take to end a killed process; one that waits for a driver may never end."""
_POLL_S, _END_POLL_S = 0.05, 0.5
_MAX_COMMAND = 200
ENGINE_DIED = "the engine of its session died"
"""The reason of failure for the workers of a lost session."""


class WorkerBrief(Struct, frozen=True):
    """A worker in `gmg-tui ls --json`."""

    slot: str
    state: WorkerState
    stuck: bool
    pid: int | None
    attempt: int
    fps: float | None
    """The rate now; None unless it runs, and still reports it, and where another rank reports its group's."""
    reason: str | None
    alerts: tuple[Alert, ...] = ()
    checkpoint: Checkpoint | None = None
    """The newest that its attempts have saved."""
    group: Rank | msgspec.UnsetType = msgspec.UNSET
    """For a rank only."""

    @classmethod
    def of(cls, workers: tuple[Worker, ...]) -> tuple[WorkerBrief, ...]:
        """The brief forms of `workers`, whose rates add up."""
        counted = {worker.slot for worker in own_rates(workers) if not worker.stuck}
        return tuple(
            cls(
                slot=worker.slot,
                state=worker.state,
                stuck=worker.stuck,
                pid=worker.pid,
                attempt=worker.attempt,
                fps=worker.current_fps if worker.slot in counted else None,
                reason=worker.reason,
                alerts=worker.alerts,
                checkpoint=worker.newest.checkpoint,
                group=worker.group if worker.group is not None else msgspec.UNSET,
            )
            for worker in workers
        )


class Record(Struct, frozen=True):
    """The content of `session.json`."""

    session: Session
    workers: tuple[WorkerBrief, ...] = ()
    ended: Moment | None = None
    """Unix time when the engine ended, seconds; approximate if it was killed. None while it runs, and after it was killed
    until recovery."""
    queue: Queue | None = None
    """The sweep's progress; None in a plain run."""
    lost: bool = False
    """True if the engine was killed, and its leftovers were cleaned up (`clear_lost`)."""

    def with_ends(self, snapshot: Snapshot) -> Snapshot:
        """Returns a recorded snapshot of a session that has ended, with the workers' ends that a full disk has kept from it."""
        if self.ended is None or self.lost:
            return snapshot
        ends = {worker.slot: worker for worker in self.workers if worker.state.ended}
        workers = tuple(
            structs.replace(worker, state=end.state, reason=end.reason, alerts=end.alerts, stopping=None)
            if not worker.state.ended and (end := ends.get(worker.slot)) is not None
            else worker
            for worker in snapshot.workers
        )
        late_s = 0.0 if snapshot.ended else max(0.0, self.ended - snapshot.time)
        elapsed_s = snapshot.elapsed_s + late_s
        return structs.replace(snapshot, workers=workers, time=snapshot.time + late_s, elapsed_s=elapsed_s)

    def after_loss(self, died: float) -> Record:
        """Returns the record once the engine has died, at that Unix time: no worker and no job runs."""
        workers = tuple(
            worker
            if worker.state.ended
            else structs.replace(worker, state=WorkerState.FAILED, stuck=False, pid=None, reason=ENGINE_DIED, alerts=())
            for worker in self.workers
        )
        return structs.replace(
            self, workers=workers, queue=self.queue and self.queue.after_loss(), ended=died, lost=True
        )


class SessionEntry(Struct, frozen=True):
    """A session in this user's state folder."""

    name: str
    folder: Path
    state: str
    """`running`, `ended`, or `lost` when its engine died without writing its end.

    Only the engine's machine can detect its death: elsewhere it is lost once it has written nothing for `SILENT_S`."""
    record: Record
    written: float = 0.0
    """When its record was written last, Unix seconds."""
    here: bool = True
    """True if it is this machine's."""

    @property
    def host(self) -> str:
        """The name of the machine it was started on, safe to print; empty if unknown."""
        return one_line(self.record.session.spec.host)

    @property
    def away(self) -> bool:
        """True if its engine runs on another machine, or in another container."""
        return not self.here and self.state == "running"

    @property
    def remark(self) -> str:
        """One line on how it was lost, or on the other machine that it runs on; else empty."""
        if self.away:
            return f"{self.name} runs on {self.host}: use gmg-tui there"
        if self.state != "lost":
            return ""
        died = self.record.ended
        moment = time.strftime(" at about %Y-%m-%d %H:%M:%S", time.localtime(died)) if died else " unexpectedly"
        where = "" if self.here else f" on {self.host}"
        lost = f"{self.name} was lost{where}: its engine died{moment}; its logs are in {self.folder / LOGS}"
        return "; ".join(filter(None, (lost, resume_hint(self.record.session.spec))))


def job_log(job: JobRecord) -> str:
    """Returns the path of a job's log in its session's folder, whether or not it has run; of a group, rank 0's."""
    return job.log or f"{LOGS}/{job.number:04}-{job.name}.log"


def worker_log(worker: Worker) -> str:
    """Returns the path of a worker's log in its session's folder; in a sweep, its job's log."""
    if worker.job is None:
        return f"{LOGS}/{worker.slot}.log"
    rank = f".rank{worker.group.rank}" if worker.group is not None and worker.group.rank else ""
    return f"{LOGS}/{worker.job:04}-{worker.job_name}{rank}.log"


def resume_hint(spec: RunSpec) -> str:
    """Returns the hint on how to continue a sweep or tuning that was cut off; empty for a plain run."""
    command = "sweep" if spec.tune is None else "tune"
    return f"continue with: gmg-tui {command} --resume {spec.name}" if spec.sweep is not None else ""


def parting_text(session: Session, reason: str) -> str:
    """Returns the message on an engine that ended, for that `reason`, while its workers ran."""
    log = Path(session.spec.folder) / ENGINE_LOG
    lost = f"the engine of session {session.spec.name} was lost: {reason}; its watchdog ends its workers; see {log}"
    return "; ".join(filter(None, (lost, resume_hint(session.spec))))


def write_record(record: Record) -> None:
    """Writes `session.json`. Raises `OSError`.

    Where the disk has no room for another file, an end is written over the record before, whose blanks leave room for it.
    """
    path = Path(record.session.spec.folder) / RECORD
    data = encoded(msgspec.json.encode, record)
    try:
        write_atomic(path, msgspec.json.format(data, indent=2) + b"\n" + b" " * _ROOM_BYTES)
    except OSError:
        size = path.stat().st_size
        if record.ended is None or size < len(data):
            raise
        with path.open("r+b") as file:
            file.write(data.ljust(size))


def read_record(folder: Path) -> tuple[Record, float] | None:
    """Returns the content of `session.json`, and the Unix time of its last write; None if it cannot be read."""
    try:
        with reading(folder / RECORD) as file:
            about = os.fstat(file.fileno())
            written = about.st_mtime
            if about.st_size > _MAX_BYTES:
                return None
            record = msgspec.json.decode(file.read(_MAX_BYTES), type=Record)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return record, written


def inspect(folder: Path) -> SessionEntry | None:
    """Returns the session in `folder`; None without a readable record."""
    read = read_record(folder)
    if read is None:
        return None
    running = is_locked(folder)
    # Where the engine is gone, its last write may have come after the first read.
    record, written = read if running else read_record(folder) or read
    # Several machines may share the state folder (a home on NFS).
    here = record.session.spec.host in {"", os.uname().nodename}
    if not running and not here and record.ended is None:
        running = abs(_disk_time(folder.parent) - written) <= SILENT_S  # the disk's clock may have been set back
        record = record if running else record.after_loss(written)
    state = "running" if running else "lost" if record.ended is None or record.lost else "ended"
    return SessionEntry(folder.name, folder, state, record, written, here)


def _disk_time(folder: Path) -> float:
    """The time of the clock that a folder's disk dates files by, Unix seconds; another machine's may be minutes off ours."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def listing() -> list[SessionEntry]:
    """This user's sessions, the newest first."""
    sessions = [session for folder in folders() if (session := inspect(folder)) is not None]
    return sorted(sessions, key=lambda session: session.record.session.started, reverse=True)


def find(name: str | None, *, running: bool) -> SessionEntry:
    """Returns the session called `name`, or the newest one; with `running`, one whose engine is alive on this machine.

    Raises `GmgError` where there is none.
    """
    sessions = listing()
    fitting = [session for session in sessions if session.state == "running" and not session.away]
    fitting = fitting if running else sessions
    if name is None:
        if fitting:
            return fitting[0]
        if sessions and sessions[0].state == "lost":
            raise GmgError(sessions[0].remark, 1)
        elsewhere = next((session.remark for session in sessions if session.away), "")
        nothing = f"no {'running ' if running else ''}session; start one with: gmg-tui SCRIPT"
        nothing += "; gmg-tui ls lists those that have ended" if sessions else ""
        raise GmgError(elsewhere or nothing, 1)
    named = next((session for session in sessions if session.name == name), None)
    if named is None:
        _check_readable(name)
        hint = nearest(name, [session.name for session in sessions]) or "; gmg-tui ls lists them"
        raise GmgError(f"there is no session {name}{hint}", 1)
    if named in fitting:
        return named
    ended = f"session {name} has ended; for its logs: gmg-tui logs {name}"
    raise GmgError(named.remark or ended, 1)


def await_end(name: str | None, report: Callable[[str], None]) -> SessionEntry:
    """Returns the session called `name`, or the newest one, once an engine of it that was killed counts as gone.

    Here its watchdog ends its workers within seconds; on another machine it may be killed unless it writes. `report`
    gets a line before it waits. Raises `GmgError` if there is none.
    """
    first = entry = find(name, running=False)
    while entry.state == "running" and entry.written == first.written:
        if entry.here and Path(f"/proc/{entry.record.session.engine_pid}").exists():
            break
        if entry is first:
            report(f"waiting for the end of {entry.name}" + (f" on {entry.host}" if entry.away else ""))
        time.sleep(_END_POLL_S)
        entry = inspect(entry.folder) or entry
    return entry


def _check_readable(name: str) -> None:
    """Raises `GmgError` if there is a session of that name whose folder is another user's."""
    for folder in unreadable_ones():
        if folder.name == name:
            raise unreadable(folder, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def clear_lost(report: Callable[[str], None]) -> None:
    """Kills the leftovers of lost sessions of this user on this machine, and updates their records.

    The watchdog of a killed engine ends its workers and keeps its lock until it has, which takes seconds: until then the
    session counts as running. What is left comes from both dying together: workers, a socket, and the record.

    Args:
        report: Takes a line for the user before a process is killed, and about anything that could not be done.
    """
    for entry in listing():
        if entry.state != "lost" or entry.record.lost:
            continue
        session = entry.record.session
        own = Path(session.spec.folder)
        if own.exists() and not own.samefile(entry.folder):
            continue  # a copy of a session, which may be running
        if stuck := _kill(session, report):
            # The record stays unchanged, so that the next command tries again.
            report(f"{entry.name}: the kernel does not end process {', '.join(map(str, stuck))}")
            continue
        if inspect(entry.folder) != entry:
            continue  # another command has continued it, or cleaned up after it
        with suppress(OSError):
            remove_stale_socket(Path(session.spec.socket))
        try:
            write_record(entry.record.after_loss(entry.written))
        except OSError as error:
            report(f"{entry.name}: cannot write {entry.folder / RECORD}: {error.strerror}")


def _kill(session: Session, report: Callable[[str], None]) -> list[int]:
    """Kills (SIGKILL) the leftovers of `session`. Returns the PIDs that the kernel does not end."""
    import psutil

    reported = set[int]()
    deadline = time.monotonic() + _GONE_S
    while (left := processes_of(session)) and time.monotonic() < deadline:
        for process in left:
            with suppress(psutil.Error):  # it has ended
                if process.pid not in reported:
                    command = one_line(" ".join(process.cmdline())[:_MAX_COMMAND]).strip()
                    report(f"{session.spec.name}: ending process {process.pid} ({command})")
                    reported.add(process.pid)
                process.kill()  # no other process, should its PID have been reused
        time.sleep(_POLL_S)
    return [process.pid for process in left]


def processes_of(session: Session) -> list[psutil.Process]:
    """Returns the processes whose environment has the id of `session`; not this one, its ancestors, or zombies."""
    import psutil

    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [
        process
        for process in psutil.process_iter(["environ"])  # None of a zombie, and of another user's process
        if session.id and (process.info["environ"] or {}).get("GMG_SESSION_ID") == session.id
        if process.pid not in spared
    ]
