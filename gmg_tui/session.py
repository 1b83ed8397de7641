"""Sessions on this machine: their names, folders, records and states."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
import time
from pathlib import Path

import msgspec
import platformdirs
from msgspec import Struct

from gmg_tui import machine, units
from gmg_tui.errors import GmgError
from gmg_tui.files import open_regular, write_atomic
from gmg_tui.machine import Place
from gmg_tui.model import Queue, Rank, Session, Worker
from gmg_tui.text import clean

RECORD = "session.json"
NODE_MARK = "node-mark"
"""A file with the id of the session's engine, by which agents see that they share the session's folder."""
AGENT_MARK = "gmg-tui-agent "
"""What the line begins with by which `gmg-tui agent` says that it is connected, or why it is not."""
ENGINE_LOG = "engine.log"
LOGS = "logs"
SUMMARY = "summary.json"
STORE = "store.sqlite"
JOBS = "jobs"
"""Where the jobs of a sweep have their own folders, unless `out_dir` says otherwise."""
RANKS = "ranks"
"""Where torch writes what the ranks of groups tell: a folder for each rank's attempt, and one for each group's with
what the flight recorder of its ranks has dumped, as `torchfrtrace` reads a folder."""
TRACE = "trace_"
"""The name of such a dump is this and the rank."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_SOCKET_PATH_BYTES = 107
"""The longest path of a UNIX socket on Linux (sun_path, less its terminating zero)."""
_LOCK_TIMEOUT_S = 5.0
"""How long a starting engine waits for its lock: `ls` locks it, shared, to see whether an engine lives.

That takes a moment, and longer where `ls` has to wait for the CPU while it has the lock."""
_RETRY_S = 0.01
_LATEST = 253402300800.0
"""Unix seconds of the year 10000, which no calendar knows any more."""
_MOST_BYTES = 64 << 20
"""A record that is longer is not one."""
SILENT_S = 120.0
"""A running engine writes its record at least every 30 s; after this time its machine may be gone."""


class WorkerBrief(Struct, frozen=True):
    """A worker in `gmg-tui ls --json`."""

    slot: str
    state: str
    stuck: bool
    pid: int | None
    attempt: int
    fps: float | None
    reason: str | None
    group: Rank | msgspec.UnsetType = msgspec.UNSET
    """Of a rank only."""
    fps_of_group: bool | msgspec.UnsetType = msgspec.UNSET
    """True where `fps` is that of the whole group."""
    fps_settled: float | msgspec.UnsetType | None = msgspec.UNSET
    """None where the rate is not settled; left out where none has been printed, and in records from before."""

    @property
    def settled(self) -> float | None:
        """The settled rate; None where there is none. In records from before, the number printed last."""
        return self.fps if self.fps_settled is msgspec.UNSET else self.fps_settled

    @classmethod
    def of(cls, worker: Worker) -> WorkerBrief:
        """The brief form of `worker`."""
        return cls(
            slot=worker.slot,
            state=worker.state.value,
            stuck=worker.stuck is not None,
            pid=worker.pid,
            attempt=worker.attempt,
            fps=worker.fps.last if worker.fps else None,
            reason=worker.reason,
            group=worker.group if worker.group is not None else msgspec.UNSET,
            fps_of_group=worker.fps_of_group or msgspec.UNSET,
            fps_settled=worker.fps.settled if worker.fps else msgspec.UNSET,
        )


class Loss(Struct, frozen=True):
    """What `gmg_tui.recovery` found and cleaned up after an engine was killed."""

    died: float
    """Approximate Unix time of the engine's death, seconds."""
    pids: tuple[int, ...]
    """The processes that were killed after it."""
    given_up: bool = False
    """Whether a person said that its machine is gone, where nothing else could tell."""


class Record(Struct, frozen=True):
    """What `session.json` holds."""

    session: Session
    workers: tuple[WorkerBrief, ...] = ()
    ended: float | None = None
    """Unix time when the engine ended, seconds; None while it runs, and after it was killed until recovery."""
    queue: Queue | None = None
    """The sweep's progress; None in a plain run."""
    loss: Loss | None = None
    """Set once a killed engine has been cleaned up after."""


class Found(Struct, frozen=True):
    """A session in this user's state folder."""

    name: str
    folder: Path
    state: str
    """`running`, `ended`, or `lost` when its engine died without writing its end.

    Only the engine's own machine knows that it died: elsewhere it is running until its record says otherwise."""
    record: Record
    written: float = 0.0
    """When its record was written last, Unix seconds."""
    place: Place = Place.HERE

    @property
    def host(self) -> str:
        """The name of the machine it was started on, safe to print; empty if not known."""
        return clean(self.record.session.spec.host.encode(errors="replace"))

    @property
    def away(self) -> bool:
        """Whether its engine cannot be reached from here."""
        if self.place is Place.CONTAINER:  # which may share its folders with this one
            return not os.path.exists(self.record.session.spec.socket)  # noqa: PTH110 - raises nothing
        return self.place is Place.ELSEWHERE

    @property
    def silent_s(self) -> float:
        """Seconds since its record was written."""
        return max(0.0, time.time() - self.written)

    def away_text(self, command: str) -> str:
        """Where it runs, if not on this machine, and how to `attach` to it or `stop` it there; else empty."""
        if not self.away or self.state != "running":
            return ""
        import shlex  # only needed here

        there = f"gmg-tui {command} {self.name}"
        if self.place is Place.CONTAINER:
            return f"{self.name} runs in another container of this machine, whose host name is {self.host}: {there}"
        host = shlex.quote(self.host)
        ssh = f"ssh {host} -t {there}" if command == "attach" else f"ssh {host} {there}"
        text = f"{self.name} runs on {self.host} (its files were last written {units.span(self.silent_s)} ago): {ssh}"
        if self.silent_s <= SILENT_S:
            return text
        return f"{text}; if that machine is gone for good: gmg-tui stop --gone {self.name}"

    def loss_text(self) -> str:
        """How a session was lost, in one line."""
        said = "its engine died unexpectedly"
        if (loss := self.record.loss) is not None:
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(loss.died))
            said = f"its engine died at about {moment}; {_killed(len(loss.pids))}"
            if loss.given_up:
                said = f"its machine has not been heard of since {moment}"
        where = f" on {self.host}" if self.host and self.host != machine.name() else ""
        logs = f"its logs are in {self.folder / LOGS}{going_on(self.record.session)}"
        return f"{self.name} was lost{where}: {said}; {logs}"


def going_on(session: Session) -> str:
    """How to go on with a session that was cut off, as the last clause of a line; empty for a plain run."""
    spec = session.spec
    command = "sweep" if spec.tune is None else "tune"
    return f"; continue with: gmg-tui {command} --resume {spec.name}" if spec.sweep is not None else ""


def parting_text(session: Session, reason: str) -> str:
    """What to say of an engine that has left while its workers ran, for that `reason`, in one line."""
    log = Path(session.spec.folder) / ENGINE_LOG
    lost = f"the engine of session {session.spec.name} was lost: {reason}; its watchdog ends its workers; see {log}"
    return lost + going_on(session)


def _killed(processes: int) -> str:
    if not processes:
        return "it left no process"
    return f"{units.count(processes, 'process')} {'was' if processes == 1 else 'were'} killed"


def sessions_folder() -> Path:
    """`$XDG_STATE_HOME/gmg-tui/sessions`, which may not exist yet."""
    return platformdirs.user_state_path("gmg-tui") / "sessions"


def nodes_folder() -> Path:
    """Where the agents of nodes have their files, which may not exist yet."""
    return sessions_folder().parent / "nodes"


def check_name(name: str) -> str:
    """`name`, when it is valid for a session.

    Raises:
        GmgError: It could escape its folder, or is too long for a socket's path.
    """
    if not _NAME.fullmatch(name):
        raise GmgError(
            f"--name {name!r}: give up to 40 letters, digits, '.', '_' and '-', starting with a letter or digit"
        )
    return name


def runtime_folders() -> list[Path]:
    """The folders where sockets may be, the preferred one first; they may not exist."""
    folders = [Path(tempfile.gettempdir()) / f"gmg-tui-{os.getuid()}"]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isdir(runtime):  # noqa: PTH112 - Path.is_dir() raises where it may not look
        folders.insert(0, Path(runtime) / "gmg-tui")
    return folders


def socket_path(name: str) -> Path:
    """Where the engine of the session `name` listens; makes the folder, mode 0700.

    `$XDG_RUNTIME_DIR/gmg-tui/NAME.sock`, else in a folder private to this user under the temporary folder.

    Raises:
        GmgError: The folder belongs to another user, or cannot be made.
    """
    trouble = ""
    for folder in runtime_folders():
        path = folder / f"{name}.sock"
        if len(os.fsencode(path)) > _SOCKET_PATH_BYTES:
            trouble = f"{path} is too long for a socket"
            continue
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            about = folder.lstat()
        except OSError as error:
            trouble = f"cannot make {folder}: {error.strerror}"
            continue
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
            trouble = f"{folder} belongs to another user"
            continue
        if stat.S_IMODE(about.st_mode) != 0o700:
            folder.chmod(0o700)
        return path
    raise GmgError(f"no place for the engine's socket: {trouble}; set XDG_RUNTIME_DIR", 1)


def write_record(record: Record) -> None:
    """Write `session.json`. Raises `OSError`."""
    folder = Path(record.session.spec.folder)
    write_atomic(folder / RECORD, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def lock(folder: Path) -> int:
    """Open the engine's log for appending and lock it for the lifetime of this process.

    The lock shows that the engine is alive: unlike a PID file it cannot be left behind or name another process.

    Returns:
        The file's descriptor.

    Raises:
        GmgError: Another engine has locked it, or it was removed.
    """
    removed = f"{folder} was removed meanwhile"
    try:
        descriptor = os.open(folder / ENGINE_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except FileNotFoundError as error:
        raise GmgError(removed, 1) from error
    trouble = "" if take(descriptor) else f"an engine is already running in {folder}"
    if not trouble and os.fstat(descriptor).st_nlink == 0:
        trouble = removed
    if trouble:
        os.close(descriptor)
        raise GmgError(trouble, 1)
    return descriptor


def take(descriptor: int) -> bool:
    """Take the lock of an open engine's log; False when another process holds it, and not just for a moment."""
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_RETRY_S)  # nothing tells when another process lets go of a lock
        else:
            return True


def is_locked(folder: Path) -> bool:
    """Whether an engine holds the lock of the session in `folder`, or one has left its watchdog there."""
    try:
        # Without waiting for a writer, should it be a pipe.
        descriptor = os.open(folder / ENGINE_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def inspect(folder: Path) -> Found | None:
    """The session in `folder`; None where there is no readable record."""
    read = read_record(folder)
    if read is None:
        return None
    running = is_locked(folder)
    # Where the engine is gone, its last write may have come after the first read.
    record, written = read if running else read_record(folder) or read
    place = machine.place_of(record.session, written)
    if running or (record.ended is None and not place.lock_tells):
        state = "running"
    else:
        state = "lost" if record.ended is None or record.loss is not None else "ended"
    return Found(folder.name, folder, state, record, written, place)


def read_record(folder: Path) -> tuple[Record, float] | None:
    """What `session.json` holds, and when it was written, Unix seconds; None where it cannot be read."""
    try:
        with open(open_regular(folder / RECORD), "rb") as file:  # noqa: PTH123 - a descriptor
            written = os.fstat(file.fileno()).st_mtime
            record = msgspec.json.decode(file.read(_MOST_BYTES), type=Record)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    moments = record.session.started, record.ended or 0.0, record.loss.died if record.loss else 0.0
    return (record, written) if all(0 <= moment < _LATEST for moment in moments) else None


def folders() -> list[Path]:
    """The folders in the sessions' folder that have a session's name."""
    try:
        return [folder for folder in sessions_folder().iterdir() if _NAME.fullmatch(folder.name)]
    except OSError:
        return []


def listing() -> list[Found]:
    """This user's sessions, the newest first."""
    found = [one for folder in folders() if (one := inspect(folder)) is not None]
    return sorted(found, key=lambda one: one.record.session.started, reverse=True)


def find(name: str | None, *, running: bool, command: str = "attach") -> Found:
    """The session called `name`, or the newest one.

    Args:
        name: A session's name, or None for the newest.
        running: Whether its engine must be alive, on this machine.
        command: What is to be done with a running one, `attach` or `stop`, where it must be done on another machine.

    Raises:
        GmgError: There is none; the text lists those that exist.
    """
    sessions = listing()
    fitting = [one for one in sessions if one.state == "running" and not one.away] if running else sessions
    if name is None:
        if fitting:
            return fitting[0]
        elsewhere = next((text for one in sessions if (text := one.away_text(command))), "")
        if sessions and sessions[0].state == "lost":
            raise GmgError(sessions[0].loss_text(), 1)
        nothing = f"no {'running ' if running else ''}session; start one with `gmg-tui SCRIPT`"
        raise GmgError(elsewhere or nothing, 1)
    named = next((one for one in sessions if one.name == name), None)
    if named is not None and named in fitting:
        return named
    if named is not None:
        ended = f"the session {name} has ended; its logs: `gmg-tui logs {name} SLOT`"
        raise GmgError(named.loss_text() if named.state == "lost" else named.away_text(command) or ended, 1)
    names = ", ".join(one.name for one in fitting[:8]) or "none"
    raise GmgError(f"no session {name}; there are: {names}", 1)
