"""Session names, folders and locks, and the sockets of their engines."""

import errno
import fcntl
import os
import re
import socket
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from gmg_tui.machine.files import open_regular
from gmg_tui.machine.folders import (
    OpenFolder,
    check_own,
    distrust,
    homes,
    make_own,
    make_private,
    runtime_folder,
    state_folder,
    temporary_folders,
)
from gmg_tui.machine.ownership import user_name
from gmg_tui.machine.processes import is_own, peer_credentials
from gmg_tui.model import RunSpec
from gmg_tui.model.errors import GmgError

RECORD = "session.json"
NODE_MARK = "node-mark"
"""Name of a file with the session's id: an agent that finds it shares the session's folder."""
AGENT_MARK = "gmg-tui-agent "
"""Prefix of the line in which `gmg-tui agent` reports success or an error."""
ENGINE_LOG = "engine.log"
LOGS = "logs"
SUMMARY = "summary.json"
TUNE = "tune.json"
STORE = "store.sqlite"
RANKS = "ranks"
"""Folder of torch's error files, with a subfolder for each attempt of a rank."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_SUFFIX = re.compile(r"\.(?:pyw?|sh|toml|json|ya?ml)$")
_MAX_SOCKET_PATH_BYTES = 107
"""Maximum length of a UNIX socket's path on Linux (sun_path without its terminating zero)."""
_LOCK_TIMEOUT_S = 5.0
"""Timeout for an engine to acquire its lock, which other commands hold briefly to check it."""
_LOG_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC  # O_RDWR also opens a pipe
_BACKLOG = 128
_POLL_S = 0.01
"""Poll interval of the lock: `flock` cannot be awaited."""


def sessions_folder() -> Path:
    """Returns `$XDG_STATE_HOME/gmg-tui/sessions`, which may not exist yet.

    If another user could change it, as after `sudo -E`, falls back to `~/.local/state`, then to that in the home folder
    of the passwd entry. Raises `GmgError` if others could change all of these, or the user has no home folder.
    """
    configured = state_folder()
    if configured is None:
        raise GmgError(f"user {os.getuid()} has no home folder for sessions; set HOME or XDG_STATE_HOME", 1)
    distrust_reason = _claim(configured / "gmg-tui")
    for folder in (configured / "gmg-tui", *(_fallbacks() if distrust_reason is not None else [])):
        if _claim(folder) is None:
            return folder / "sessions"
    raise GmgError(f"no folder for sessions: {distrust_reason}; set XDG_STATE_HOME", 1)


def _fallbacks() -> list[Path]:
    return [home / ".local/state/gmg-tui" for home in homes()]


def _claim(folder: Path) -> str | None:
    """Returns the reason not to trust a folder, if any; creates a missing folder before others could."""
    reason = distrust(folder)
    if reason is not None and not os.path.lexists(folder):
        with suppress(OSError):
            make_private(folder)
            return None
    return reason


def ignored_folders() -> Iterator[str]:
    """Yields a sentence for each configured folder that is ignored because another user could change it."""
    configured = state_folder()
    if configured is not None and (reason := _claim(configured / "gmg-tui")):
        yield f"sessions are in {sessions_folder()}: {reason}"
    if (runtime := os.environ.get("XDG_RUNTIME_DIR")) and (reason := distrust(Path(runtime))):
        yield f"XDG_RUNTIME_DIR is not used: {reason}"


def nodes_folders() -> list[Path]:
    """Returns the folders for files of the nodes' agents, which may not exist yet: that for new ones first.

    Running agents may have theirs in another: other users can change whether the configured one is used.
    """
    fallbacks = [folder for folder in _fallbacks() if distrust(folder) is None]
    return [*dict.fromkeys(folder / "nodes" for folder in (sessions_folder().parent, *fallbacks))]


def check_name(name: str) -> str:
    """Returns `name`. Raises `GmgError` if it could escape the parent folder, or is too long for a socket."""
    if not _NAME.fullmatch(name):
        raise GmgError(f"--name {name!r}: give up to 40 letters, digits, '.', '_' or '-', first a letter or digit")
    return name


def folders() -> list[Path]:
    """Returns the folders of sessions. Raises `GmgError` if their parent cannot be read."""
    try:
        return [folder for folder in sessions_folder().iterdir() if _NAME.fullmatch(folder.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable_error(sessions_folder(), error) from error


def unreadable_folders() -> list[Path]:
    """Returns the folders of sessions without read permission, such as those made by `sudo gmg-tui`. Raises `GmgError`."""
    return [folder for folder in folders() if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK)]


def unreadable_error(folder: Path, error: OSError) -> GmgError:
    """Returns the error for an unreadable folder; names the folder's owner if that is another user."""
    owner = ""
    for path in (folder, *folder.parents):
        with suppress(OSError):
            uid = path.lstat().st_uid
            if uid != os.geteuid() and isinstance(error, PermissionError):
                owner = f"; {path} belongs to {user_name(uid)}: use gmg-tui as that user, or set XDG_STATE_HOME"
            break
    return GmgError(f"cannot read {folder}: {error.strerror}{owner}", 1)


def restore_rights(folder: Path) -> bool:
    """Restores the user's rights to a session's folder if a script has changed them. Returns True if so. Raises `OSError`."""
    mode = folder.lstat().st_mode
    if not stat.S_ISDIR(mode) or mode & stat.S_IRWXU == stat.S_IRWXU:
        return False
    folder.chmod(stat.S_IRWXU)
    return True


def create(name: str | None, script: str) -> Path:
    """Makes the private folder of a session called `name`, or named after `script` and the first free number.

    Raises `GmgError` if the name is taken, or the state folder cannot be written.
    """
    parent = sessions_folder()
    # Not `Path.stem`: the module torch.distributed.run has no file suffix.
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", _SUFFIX.sub("", Path(script).name)).strip("-._")[:30] or "session"
    try:
        make_private(parent)
        for chosen in (f"{stem}-{number}" for number in count(1)) if name is None else [check_name(name)]:
            folder = parent / chosen
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                (folder / LOGS).mkdir(mode=0o700)
                return folder
    except OSError as error:
        raise GmgError(f"cannot write to the state folder {parent}: {error.strerror}; set XDG_STATE_HOME", 1) from error
    raise GmgError(f"--name {name}: a session of that name exists; choose another, or: gmg-tui rm {name}")


def remove_new(folder: OpenFolder) -> None:
    """Removes the folder of a session that failed to start, unless another engine is running there. Ignores errors."""
    with suppress(OSError, GmgError), os.fdopen(lock(folder.path)):
        folder.remove()


def socket_path(name: str) -> Path:
    """Returns the path of the engine's socket for the session `name`, and makes its private folder.

    The folder is `$XDG_RUNTIME_DIR/gmg-tui`, or one in the temporary folder, or one in the state folder. Raises
    `GmgError` if none can be used.
    """
    troubles, runtime = list[str](), runtime_folder()
    runtime_folders = [runtime / "gmg-tui"] if runtime is not None and os.path.isdir(runtime) else []
    fallback = sessions_folder().parent / "sockets"  # if another user has taken the name in the temporary folder
    shared = [folder / f"gmg-tui-{os.getuid()}" for folder in temporary_folders()]
    for folder in (*runtime_folders, *shared, fallback):
        path = folder / f"{name}.sock"
        if len(os.fsencode(path)) > _MAX_SOCKET_PATH_BYTES:
            troubles.append(f"{path} is too long for a socket")
            continue
        try:
            make_own(folder)
        except OSError as error:
            troubles.append(f"cannot use {folder}: {error.strerror}")
            continue
        return path
    raise GmgError(f"no folder for the engine's socket: {'; '.join(troubles)}; set XDG_RUNTIME_DIR", 1)


def socket_candidates(spec: RunSpec) -> Iterator[Path]:
    """Yields the sockets to try for a session: `NAME.sock`, then one whose name depends on the state folder.

    Raises `GmgError` if no folder can be used for the second one.
    """
    yield Path(spec.socket)
    yield socket_path(f"{spec.name}-{zlib.crc32(os.fsencode(spec.folder)):08x}")


def bind_socket(path: Path) -> socket.socket | None:
    """Listens on a private socket, replacing a killed engine's; returns None if it is in use. Raises `OSError`."""
    remove_stale_socket(path)
    if os.path.lexists(path):
        return None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def remove_stale_socket(path: Path) -> None:
    """Removes a socket if no process listens on it. Raises `OSError`."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return  # its process is stopped or busy


def check_peer(connection: socket.socket) -> None:
    """Raises `OSError` unless the peer of a UNIX socket is a process of this user."""
    if (user := peer_credentials(connection)[1]) != os.getuid():
        raise PermissionError(errno.EACCES, f"a process of user {user} listens there, not your engine")


def lock(folder: Path) -> int:
    """Opens the engine's log for appending, locks it, and returns the descriptor, which holds the lock until closed.

    The lock shows that the engine is alive: unlike a PID file, it is never stale. Raises `GmgError` if another engine
    holds it, or the log or folder was removed.
    """
    removed_text = f"{folder} has been removed"
    try:
        check_own(folder)
        descriptor = open_regular(folder / ENGINE_LOG, _LOG_FLAGS)
    except FileNotFoundError as error:
        raise GmgError(removed_text, 1) from error
    deadline, trouble = time.monotonic() + _LOCK_TIMEOUT_S, ""
    while not trouble and not _flock(descriptor, fcntl.LOCK_EX):
        trouble = f"an engine is already running in {folder}" if time.monotonic() >= deadline else ""
        time.sleep(_POLL_S)
    trouble = trouble or (removed_text if os.fstat(descriptor).st_nlink == 0 else "")
    if trouble:
        os.close(descriptor)
        raise GmgError(trouble, 1)
    return descriptor


def is_locked(folder: Path) -> bool:
    """True if the engine of the session in `folder`, or the watchdog of a killed engine, is running."""
    try:
        descriptor = open_regular(folder / ENGINE_LOG)
    except OSError:  # perhaps removed, or the disk failed: that does not end an engine
        log = os.path.join(os.path.realpath(folder), ENGINE_LOG)  # noqa: PTH118 - a link's text
        return _is_standard_error(lambda link: os.readlink(link).startswith(log))  # noqa: PTH115 - faster
    try:
        return not _flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _flock(descriptor: int, operation: int) -> bool:
    """Tries to lock an engine's log without waiting. Returns True if that succeeds.

    On file systems without locks (Lustre without `-o flock`, some NFS), an engine or watchdog is recognised by having
    the log as its standard error.
    """
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        file = os.fstat(descriptor)
        return not _is_standard_error(lambda link: os.path.samestat(os.stat(link), file))  # noqa: PTH116 - faster
    return True


def _is_standard_error(matches: Callable[[str], bool]) -> bool:
    """True if the link to the standard error of another process of this user `matches`."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - faster
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):  # ended, or another user's
                if matches(f"/proc/{name}/fd/2") and is_own(int(name)):  # others choose the text of their links
                    return True
    return False
