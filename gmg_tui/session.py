"""Sessions on this machine: their names, their folders, and how they fare."""

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

from gmg_tui.errors import GmgError
from gmg_tui.files import write_atomic
from gmg_tui.model import Queue, Session, Worker

RECORD = "session.json"
ENGINE_LOG = "engine.log"
LOGS = "logs"
SUMMARY = "summary.json"
STORE = "store.sqlite"
JOBS = "jobs"
"""Where the jobs of a sweep have their own folders, unless the sweep says otherwise."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_SOCKET_PATH_BYTES = 107
"""The longest path of a UNIX socket that Linux takes (sun_path, less its end)."""


class WorkerBrief(Struct, frozen=True):
    """A worker in `gmg-tui ls --json`."""

    slot: str
    state: str
    stuck: bool
    pid: int | None
    attempt: int
    fps: float | None
    reason: str | None

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
        )


class Loss(Struct, frozen=True):
    """What was found of a session whose engine had been killed, and cleared away (`gmg_tui.lost`)."""

    died: float
    """Unix time at about which the engine died, seconds."""
    pids: tuple[int, ...]
    """The processes that were ended after it."""


class Record(Struct, frozen=True):
    """What `session.json` holds."""

    session: Session
    workers: tuple[WorkerBrief, ...] = ()
    ended: float | None = None
    """Unix time when the engine ended, seconds; None while it runs, and after it was killed until that is found out."""
    queue: Queue | None = None
    """How far a sweep was; None in a plain run."""
    loss: Loss | None = None
    """Set when the engine was killed and what it left has been cleared away."""


class Found(Struct, frozen=True):
    """A session in this user's state folder."""

    name: str
    folder: Path
    state: str
    """`running`, `ended`, or `lost` when its engine died without saying so."""
    record: Record

    def epitaph(self) -> str:
        """What became of a lost session, in one line."""
        said = "its engine died without a word"
        if self.record.loss is not None:
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.record.loss.died))
            said = f"its engine died at about {moment}; {_ended_text(len(self.record.loss.pids))}"
        host = self.record.session.spec.host
        where = f" on {host}" if host and host != os.uname().nodename else ""
        return f"{self.name} was lost{where}: {said}; its logs are in {self.folder / LOGS}"


def _ended_text(processes: int) -> str:
    match processes:
        case 0:
            return "it left no process"
        case 1:
            return "1 process was ended"
        case _:
            return f"{processes} processes were ended"


def sessions_folder() -> Path:
    """`$XDG_STATE_HOME/gmg-tui/sessions`, which may not exist yet."""
    return platformdirs.user_state_path("gmg-tui") / "sessions"


def check_name(name: str) -> str:
    """`name`, when it can be a session's.

    Raises:
        GmgError: It could leave its folder, or is too long for a socket's path.
    """
    if not _NAME.fullmatch(name):
        raise GmgError(f"--name {name!r}: up to 40 letters, digits, '.', '_' and '-', the first a letter or digit")
    return name


def create(name: str | None, script: str) -> tuple[str, Path]:
    """Make the folder of a session called `name`, or after `script` and the first number that is free.

    Returns:
        The session's name, and its folder, with the folder for logs in it; both of this user alone (mode 0700).

    Raises:
        GmgError: The name is taken, or the state folder cannot be written.
    """
    parent = sessions_folder()
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if name is not None:
            folder = parent / check_name(name)
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                raise GmgError(f"--name {name}: there is a session of that name ({folder}); take another") from None
        else:
            folder = _numbered(parent, script)
        (folder / LOGS).mkdir(mode=0o700)
    except OSError as error:
        raise GmgError(f"cannot write the state folder {parent}: {error.strerror}; set XDG_STATE_HOME", 1) from error
    return folder.name, folder


def _numbered(parent: Path, script: str) -> Path:
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(script).stem).strip("-._")[:30] or "session"
    taken = {entry.name for entry in parent.iterdir()}
    number = 1
    while True:
        folder = parent / f"{stem}-{number}"
        if folder.name not in taken:
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                pass  # another gmg-tui took it this moment
            else:
                return folder
        number += 1


def runtime_folders() -> list[Path]:
    """The folders where sockets may be, the better one first; they may not exist."""
    folders = [Path(tempfile.gettempdir()) / f"gmg-tui-{os.getuid()}"]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        folders.insert(0, Path(runtime) / "gmg-tui")
    return folders


def socket_path(name: str) -> Path:
    """Where the engine of the session `name` listens; makes the folder, mode 0700.

    `$XDG_RUNTIME_DIR/gmg-tui/NAME.sock`, else in a folder of this user's alone under the temporary folder.

    Raises:
        GmgError: The folder belongs to somebody else, or cannot be made.
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
            trouble = f"{folder} belongs to somebody else"
            continue
        if stat.S_IMODE(about.st_mode) != 0o700:
            folder.chmod(0o700)
        return path
    raise GmgError(f"no place for the engine's socket: {trouble}; set XDG_RUNTIME_DIR", 1)


def write_record(record: Record) -> None:
    """Write `session.json`. Raises `OSError`."""
    folder = Path(record.session.spec.folder)
    write_atomic(folder / RECORD, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def hold(folder: Path) -> int:
    """Open the engine's log for appending and lock it for the life of this process.

    The lock tells everybody that the engine lives: it cannot be left behind, and no PID can be taken for it.

    Returns:
        The file's descriptor.

    Raises:
        GmgError: Another engine holds it.
    """
    descriptor = os.open(folder / ENGINE_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise GmgError(f"an engine runs in {folder} already", 1) from None
    return descriptor


def _held(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / ENGINE_LOG, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def look(folder: Path) -> Found | None:
    """The session in `folder`; None where there is none that can be read."""
    record = _read(folder)
    if record is None:
        return None
    if _held(folder):
        return Found(folder.name, folder, "running", record)
    # The engine that wrote the record has gone; what it wrote last may have come after the first reading.
    record = _read(folder) or record
    lost = record.ended is None or record.loss is not None
    return Found(folder.name, folder, "lost" if lost else "ended", record)


def _read(folder: Path) -> Record | None:
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None


def listing() -> list[Found]:
    """This user's sessions, the newest first."""
    try:
        folders = list(sessions_folder().iterdir())
    except OSError:
        return []
    found = [one for folder in folders if (one := look(folder)) is not None]
    return sorted(found, key=lambda one: one.record.session.started, reverse=True)


def find(name: str | None, *, running: bool) -> Found:
    """The session called `name`, or the newest one.

    Args:
        name: A session's name, or None for the newest.
        running: Whether only a session whose engine lives will do.

    Raises:
        GmgError: There is none; the text names those that there are.
    """
    sessions = listing()
    fitting = [one for one in sessions if one.state == "running"] if running else sessions
    if name is None:
        if not fitting:
            if sessions and sessions[0].state == "lost":
                raise GmgError(sessions[0].epitaph(), 1)
            raise GmgError(f"no {'running ' if running else ''}session; start one with `gmg-tui SCRIPT`", 1)
        return fitting[0]
    for one in fitting:
        if one.name == name:
            return one
    for one in sessions:
        if one.name == name:
            ended = f"the session {name} has ended; its logs: `gmg-tui logs {name} SLOT`"
            raise GmgError(one.epitaph() if one.state == "lost" else ended, 1)
    names = ", ".join(one.name for one in fitting[:8]) or "none"
    raise GmgError(f"no session {name}; there are: {names}", 1)
