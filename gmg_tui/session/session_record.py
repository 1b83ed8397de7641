"""Session records (`session.json`), the states of sessions, and cleanup after killed engines."""

import errno
import os
import signal
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct, structs

from gmg_tui.machine import processes, procfs
from gmg_tui.machine.files import open_for_reading
from gmg_tui.machine.folders import distrust, write_own
from gmg_tui.machine.marked_processes import find_marked
from gmg_tui.model import Alert, Checkpoint, JobRecord, Queue, Rank, RunSpec, Session, Snapshot, Worker, summable
from gmg_tui.model.errors import GmgError, suggest
from gmg_tui.model.states import Moment, WorkerState
from gmg_tui.model.text import encode_lossy, one_line
from gmg_tui.session import paths
from gmg_tui.session.paths import ENGINE_LOG, LOGS, RECORD, STORE, folders, is_locked

SILENT_S = 120.0
"""Seconds without a write after which an engine on another machine counts as lost; it writes its record every 30 s."""
_SPARE_BYTES = 2048
"""Blanks after a record, so that a longer one can overwrite it on a full disk."""
_MAX_RECORD_BYTES = 64 << 20
"""Maximum size of a record: engines write smaller ones, and reading a larger one could exhaust memory."""
_KILL_TIMEOUT_S = 5.0
"""Timeout for killed processes to exit: a process waiting for a driver may never do so."""
_POLL_S, _END_POLL_S = 0.05, 0.5
_MAX_AHEAD_S = 60.0
"""Maximum seconds that a time in a store may be later than now, as clocks differ."""
_STORE_TIMEOUT_S = 2.0
"""Timeout for reading a store."""
_MAX_COMMAND_CHARS = 200
ENGINE_DIED = "the engine of its session died"
"""Reason of the failed workers of a lost session."""


class WorkerBrief(Struct, frozen=True):
    """A worker in `gmg-tui ls --json`."""

    slot: str
    state: WorkerState
    stuck: bool
    pid: int | None
    attempt: int
    fps: float | None
    """The current rate; None if unknown, if the worker is stuck, or if it counts towards another rank's."""
    reason: str | None
    alerts: tuple[Alert, ...] = ()
    checkpoint: Checkpoint | None = None
    group: Rank | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def from_workers(cls, workers: tuple[Worker, ...]) -> tuple[Self, ...]:
        """Returns the briefs of `workers`, without rates that must not be summed."""
        summable_slots = {worker.slot for worker in summable(workers) if not worker.stuck}
        copied_fields = ("slot", "state", "stuck", "pid", "attempt", "reason", "alerts")
        return tuple(
            cls(
                **{name: getattr(worker, name) for name in copied_fields},
                fps=worker.current_fps if worker.slot in summable_slots else None,
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
    """Time of the engine's end, approximate if it was killed; None while it is running, and until `clear_lost`."""
    queue: Queue | None = None
    """The sweep's progress; None in a plain run."""
    lost: bool = False
    """True if the engine was killed, and its leftovers have been ended."""

    def last_state(self, snapshot: Snapshot) -> Snapshot:
        """Returns the last snapshot, with workers' ends that it lacks because of a full disk or the engine's death."""
        if self.ended is None or self.lost:
            return snapshot.after_loss(ENGINE_DIED)
        ends = {worker.slot: worker for worker in self.workers if worker.state.ended}
        workers = tuple(
            structs.replace(worker, state=end.state, reason=end.reason, alerts=end.alerts, stopping=None)
            if not worker.state.ended and (end := ends.get(worker.slot)) is not None
            else worker
            for worker in snapshot.workers
        )
        late_s = 0.0 if snapshot.work_ended else max(0.0, self.ended - snapshot.time)
        elapsed_s = snapshot.elapsed_s + late_s
        return structs.replace(snapshot, workers=workers, time=snapshot.time + late_s, elapsed_s=elapsed_s, saved=True)

    def after_loss(self, died_at: float) -> Self:
        """Returns the record after the death of the engine at a Unix time: no worker or job is running."""
        lost = {"state": WorkerState.FAILED, "stuck": False, "pid": None, "reason": ENGINE_DIED, "alerts": ()}
        workers = tuple(brief if brief.state.ended else structs.replace(brief, **lost) for brief in self.workers)
        queue = self.queue and self.queue.after_loss()
        return structs.replace(self, workers=workers, queue=queue, ended=died_at, lost=True)


class SessionEntry(Struct, frozen=True):
    """A session in this user's state folder."""

    name: str
    folder: Path
    state: str
    """`running`, `ended`, or `lost` if its engine died (or, on another machine, has been silent for `SILENT_S`)."""
    record: Record
    written: float = 0.0
    """Unix time of the last write to the record."""
    is_local: bool = True
    """True if the session was started on this machine."""

    @property
    def host(self) -> str:
        """Name of the machine that the session was started on, safe to print; empty if unknown."""
        return one_line(self.record.session.spec.host)

    @property
    def runs_elsewhere(self) -> bool:
        """True if the engine is running on another machine, or in another container."""
        return not self.is_local and self.state == "running"

    @property
    def runs_here(self) -> bool:
        """True if the engine is running on this machine."""
        return self.is_local and self.state == "running"

    @property
    def remark(self) -> str:
        """One line about the loss of the session, or about the other machine where it is running; else empty."""
        if self.runs_elsewhere:
            return f"{self.name} is running on {self.host}: use gmg-tui there"
        if self.state != "lost":
            return ""
        died_at = self.record.ended
        moment = time.strftime(" at about %Y-%m-%d %H:%M:%S", time.localtime(died_at)) if died_at else " unexpectedly"
        where = "" if self.is_local else f" on {self.host}"
        lost = f"{self.name} was lost{where}: its engine died{moment}; its logs are in {self.folder / LOGS}"
        return "; ".join(filter(None, (lost, resume_hint(self.record.session.spec))))


def job_log(job: JobRecord) -> str:
    """Returns the path of a job's log (of a group, rank 0's), relative to the session's folder."""
    return job.log or f"{LOGS}/{job.number:04}-{job.name}.log"


def worker_log(worker: Worker) -> str:
    """Returns the path of a worker's log (in a sweep, of its job), relative to the session's folder."""
    if worker.job is None:
        return f"{LOGS}/{worker.slot}.log"
    rank = f".rank{worker.group.rank}" if worker.group is not None and worker.group.rank else ""
    return f"{LOGS}/{worker.job:04}-{worker.job_name}{rank}.log"


def resume_hint(spec: RunSpec) -> str:
    """Returns a clause with the command that continues a sweep or tuning; empty for a plain run."""
    return f"continue with: gmg-tui {spec.command} --resume {spec.name}" if spec.sweep is not None else ""


def engine_lost_text(session: Session, reason: str) -> str:
    """Returns the message about an engine that died while its workers were running."""
    spec = session.spec
    log = Path(spec.folder) / ENGINE_LOG
    lost = f"the engine of session {spec.name} was lost: {reason}; its watchdog is ending its workers; see {log}"
    return "; ".join(filter(None, (lost, resume_hint(spec))))


def write_record(record: Record) -> None:
    """Writes `session.json`. Raises `OSError`.

    On a full disk, the record of an ended session overwrites the previous one and its trailing blanks in place.
    """
    path = Path(record.session.spec.folder) / RECORD
    data = encode_lossy(msgspec.json.encode, record)
    try:
        write_own(path, msgspec.json.format(data, indent=2) + b"\n" + b" " * _SPARE_BYTES)
    except OSError as error:
        size = 0 if isinstance(error, PermissionError) else path.stat().st_size
        if record.ended is None or size < len(data):
            raise
        with path.open("r+b") as file:
            file.write(data.ljust(size))


def read_record(folder: Path) -> tuple[Record, float] | None:
    """Returns the content of `session.json`, and the Unix time of its last write; None if it cannot be read.

    The session gets the name and path of `folder`, which may differ from those in the file after a move or copy.
    """
    if (record_and_time := _read_file(folder)) is None:
        return None
    record, written = record_and_time
    spec = structs.replace(record.session.spec, name=folder.name, folder=str(folder))
    return structs.replace(record, session=structs.replace(record.session, spec=spec)), written


def _read_file(folder: Path) -> tuple[Record, float] | None:
    try:
        with open_for_reading(folder / RECORD) as file:
            status = os.fstat(file.fileno())
            if status.st_size > _MAX_RECORD_BYTES:
                return None
            return msgspec.json.decode(file.read(_MAX_RECORD_BYTES), type=Record), status.st_mtime
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def inspect(folder: Path) -> SessionEntry | None:
    """Returns the session in `folder`; None without a readable record."""
    if (first_read := read_record(folder)) is None:
        return None
    running = is_locked(folder)
    may_have_ended = not running and first_read[0].ended is None  # after the first read
    record, written = (read_record(folder) if may_have_ended else None) or first_read
    # Several machines may share the state folder (a home on NFS).
    is_local = record.session.spec.host in {"", os.uname().nodename}
    if not running and not is_local and record.ended is None:
        running = abs(_disk_time(folder.parent) - written) <= SILENT_S  # the disk's clock may have gone back
        record = record if running else record.after_loss(written)
    # A forged record without an ID could name the socket of another session, whose engine would obey.
    running = running and record.session.id != ""
    state = "running" if running else "lost" if record.ended is None or record.lost else "ended"
    return SessionEntry(folder.name, folder, state, record, written, is_local)


def _disk_time(folder: Path) -> float:
    """Returns the Unix time on the clock of a folder's disk: a file server's may be minutes off."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def list_sessions() -> list[SessionEntry]:
    """Returns this user's sessions, newest first."""
    entries = [entry for folder in folders() if (entry := inspect(folder)) is not None]
    # One from another user or a wrong clock may be of the future.
    return sorted(entries, key=lambda entry: min(entry.record.session.started, entry.written), reverse=True)


def find(name: str | None, *, running: bool) -> SessionEntry:
    """Returns the session called `name`, or the newest; with `running`, only one that is running on this machine.

    Raises `GmgError` if there is none.
    """
    entries = list_sessions()
    candidates = [entry for entry in entries if entry.runs_here] if running else entries
    if name is None:
        if candidates:
            return candidates[0]
        if entries and entries[0].state == "lost":
            raise GmgError(entries[0].remark, 1)
        elsewhere = next((entry.remark for entry in entries if entry.runs_elsewhere), "")
        nothing = f"no {'running ' if running else ''}session; start one with: gmg-tui SCRIPT"
        nothing += "; gmg-tui ls lists those that have ended" if entries else ""
        raise GmgError(elsewhere or nothing, 1)
    found = next((entry for entry in entries if entry.name == name), None)
    if found is None:
        if (folder := next((path for path in paths.unreadable_folders() if path.name == name), None)) is not None:
            raise paths.unreadable_error(folder, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        hint = suggest(name, [entry.name for entry in entries]) or "; gmg-tui ls lists them"
        raise GmgError(f"there is no session {name}{hint}", 1)
    if found in candidates:
        return found
    raise GmgError(found.remark or f"session {name} has ended; for its logs: gmg-tui logs {name}", 1)


def split_words(words: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Returns the session's name and the slot or job in the words `NAME`, `NAME SLOT` or `SLOT`; None for a missing one."""
    has_name = len(words) == 2 or any(folder.name == words[0] for folder in folders()) if words else False
    return words[0] if has_name else None, words[-1] if words[has_name:] else None


def await_watchdog(name: str | None, report: Callable[[str], None]) -> SessionEntry:
    """Waits while the watchdog of a killed engine ends the workers. Does not wait for a running engine.

    If the engine was on another machine, waits until it writes again or is silent for `SILENT_S`. Calls `report` with a
    line before waiting. Returns the session called `name`, or the newest. Raises `GmgError` if there is none.
    """
    first = entry = find(name, running=False)
    while entry.state == "running" and entry.written == first.written:
        if entry.is_local and procfs.is_alive(entry.record.session.engine_pid):
            break
        if entry is first:
            report(f"waiting for the end of {entry.name}" + (f" on {entry.host}" if entry.runs_elsewhere else ""))
        time.sleep(_END_POLL_S)
        entry = inspect(entry.folder) or entry
    return entry


def clear_lost(report: Callable[[str], None]) -> None:
    """Kills leftover processes of this user's lost sessions on this machine, and updates the sessions' records.

    A killed engine's watchdog holds the lock while it ends the workers: some survive only if the watchdog died too.
    Calls `report` with a line for each killed process and each error.
    """
    if procfs.defect() is not None:
        return
    entries = list_sessions()
    running_ids = {entry.record.session.id for entry in entries if entry.state == "running"}
    for entry in entries:
        if entry.state != "lost" or entry.record.lost:
            continue
        session = entry.record.session
        if session.id in running_ids or _is_copy(entry) or distrust(entry.folder) is not None:
            continue  # the original may be running, or it is another user's
        if stuck := _kill_leftovers(session, report):
            # Leave the record unchanged, so that the next command tries again.
            report(f"{entry.name}: still running after SIGKILL: process {', '.join(map(str, stuck))}")
            continue
        if inspect(entry.folder) != entry:
            continue  # another command has resumed it or cleaned up
        with suppress(OSError):
            paths.remove_stale_socket(Path(session.spec.socket))
        try:
            write_record(entry.record.after_loss(_last_write_time(entry)))
        except OSError as error:
            report(f"{entry.name}: cannot write {entry.folder / RECORD}: {error.strerror}")


def _last_write_time(entry: SessionEntry) -> float:
    """Returns the Unix time of a dead engine's last write: to its record every 30 s, to its store each second."""
    from gmg_tui.session.store.database import StoreError  # other commands need no SQLite
    from gmg_tui.session.store.reader import open_store

    try:
        with open_store(entry.folder / STORE, _STORE_TIMEOUT_S) as stored:
            snapshot, rows = stored.last_snapshot, stored.last_metrics().values()
    except StoreError:
        return entry.written
    times = [snapshot.time if snapshot is not None else 0.0, *(row.time for row in rows)]
    latest = time.time() + _MAX_AHEAD_S
    return max([entry.written, *(at for at in times if at <= latest)])


def _is_copy(entry: SessionEntry) -> bool:
    """True if the session's record names another existing folder, or one that cannot be checked."""
    record_and_time = _read_file(entry.folder)
    try:
        return record_and_time is not None and not Path(record_and_time[0].session.spec.folder).samefile(entry.folder)
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _kill_leftovers(session: Session, report: Callable[[str], None]) -> list[int]:
    """Kills the leftover processes of `session`. Returns the PIDs that survive SIGKILL."""
    reported = set[int]()
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    leftovers = list[processes.Proc]()
    while (leftovers := processes_of(session, leftovers)) and time.monotonic() < deadline:
        for process in leftovers:
            with suppress(OSError):  # it has ended
                if process.pid not in reported:
                    command = one_line(processes.command_line(process.pid)[:_MAX_COMMAND_CHARS]).strip()
                    report(f"{session.spec.name}: killing process {process.pid} ({command})")
                    reported.add(process.pid)
                processes.send_signal(process, signal.SIGKILL)
        time.sleep(_POLL_S)
    return [process.pid for process in leftovers]


def processes_of(session: Session, known: Collection[processes.Proc] = ()) -> list[processes.Proc]:
    """Returns this user's processes with the id of `session` in their environment, and its `known` processes that are alive.

    Leaves out this process and its ancestors, and unknown processes whose environment cannot be read in time.
    """
    return find_marked("GMG_SESSION_ID", session.id, known) if session.id else []
