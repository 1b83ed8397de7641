"""Checkpoints: the files that a script has saved, and the choice of one to continue from."""

import errno
import math
import os
import re
import socket
import stat
import time
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gmg_tui.machine.files import open_for_reading
from gmg_tui.machine.ownership import (
    OVERFLOW_ID,
    ambiguous_id,
    components,
    is_own_group,
    is_public_folder,
    owners,
    put_by_another,
    unmapped_id,
    user_name,
)
from gmg_tui.model import Attempt, Checkpoint, merge_checkpoints
from gmg_tui.model.curves import is_training_loss

_MAX_SEARCH_S = 5.0
"""Seconds to search for a renamed file, among any number of other users' files."""
_DISK_ERRORS = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH}
_KERNEL_FOLDERS = ("proc",), ("sys",)
"""Folders below the root where no script saves."""
_OCTAL = re.compile(r"\\([0-7]{3})")
_MAX_SKEW_S = 600.0
"""Difference allowed between the clocks of a node and of a disk."""


class Trust(NamedTuple):
    """The users whose files may be loaded, although loading may run code.

    These are this user, root, anyone who could change the workers' code anyway, owners of folders that one of this user's
    groups shares, and members of a group that may write to a file's folder: they can replace the file at any time.

    Attributes:
        runs: Paths that workers run from.
        marks: Names of files that identify a session's folder or a copy of it, whose logs hold output of other nodes.
        node: Name of this machine as a node; empty for the engine's own.
        given: Texts in which the user names paths, such as arguments.
    """

    runs: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    node: str = ""
    given: tuple[str, ...] = ()

    @property
    def owners(self) -> set[int]:
        """The user IDs of those who could change the workers' code."""
        return {owner for _, owner in owners(*self.runs)} - {ambiguous_id()}

    def is_from_another(self, checkpoint: Checkpoint) -> bool:
        """True for a checkpoint that another node has reported, for which there is only its word."""
        return checkpoint.node not in ("", self.node)

    def distrust_reason(self, path: str, status: os.stat_result) -> str | None:
        """Returns the reason to distrust an open file, such as its owner; None if it is trusted. Raises `OSError`."""
        *parents, (target_path, target, _) = components(Path(path))
        is_public = is_public_folder(parents[-1][1])
        if not (_is_own(status, is_public=is_public) or (_is_squashed(status) and not is_public)):
            return f"belongs to {user_name(status.st_uid)}"
        if not os.path.samestat(target, status):
            return "is being replaced"
        # Others may have another link to the file, or have entered its folder before one above was closed.
        is_private = _is_private(target_path.parent.lstat()) and status.st_nlink == 1
        if status.st_mode & stat.S_IWOTH and not is_private:
            return "can be changed by all users"
        shared = [parent for _, parent, _ in parents if _is_shared(parent) and not is_public_folder(parent)]
        shared_with = {parent.st_gid for parent in shared}
        is_trusted_group = is_private or is_own_group(status.st_gid) or status.st_gid in shared_with
        if status.st_mode & stat.S_IWGRP and not is_trusted_group:
            return "can be changed by its group, unlike its folder: use umask 022, or chmod g+w the folder"
        trusted = self.owners | _sharers(parent for _, parent, _ in parents) - {ambiguous_id()}
        unmapped, is_public = unmapped_id(), False
        for folder, parent, _ in parents:
            if folder.parts[1:2] in _KERNEL_FOLDERS:
                return f"is in {folder}, where no script saves"
            is_link = stat.S_ISLNK(parent.st_mode)
            # Inside a public folder, an unmapped owner may be anyone; elsewhere it is root.
            is_root = _is_squashed(parent) or parent.st_uid == unmapped
            is_own = _is_own(parent, is_public=is_public) or (is_root and not is_public)
            if not is_own and (is_link or parent.st_uid not in trusted):
                return f"could be replaced: {folder} belongs to {user_name(parent.st_uid)}"
            is_public = is_public_folder(parent)
            if is_public and not parent.st_mode & stat.S_ISVTX:
                return f"could be replaced: {folder} can be changed by all users"
            # Another user may have moved this user's files into a folder of all users.
            may_be_session = self.marks and is_own and not is_public
            if may_be_session and all(_is_own_entry(folder / mark) for mark in self.marks):
                return f"is in a session's folder, {folder}, where no script saves"
        return None


def before_nan(*ranks: Attempt) -> tuple[Checkpoint, ...]:
    """Returns the checkpoints that any of an attempt's `ranks` saved before a metric became NaN.

    If the attempt itself saved none before that, also drops the one that it continued from, as that one leads to NaN. A
    rank whose losses are finite has sound weights: another metric may be NaN for lack of data.
    """
    saved, origins = merge_checkpoints(*(rank.checkpoints for rank in ranks)), {rank.continued_from for rank in ranks}
    broken = [rank for rank in ranks if not _has_finite_losses(rank)]
    nan = min((alert.since for rank in broken for alert in rank.alerts if alert.kind == "nan"), default=None)
    if nan is None:
        return saved
    later = {checkpoint.path for checkpoint in saved if checkpoint.saved > nan}
    usable = [
        structs.replace(checkpoint, has_moved=checkpoint.has_moved or checkpoint.path in later)
        for checkpoint in saved
        if checkpoint.saved <= nan
    ]
    if not any(checkpoint.saved >= min(rank.started for rank in ranks) for checkpoint in usable):
        usable = [checkpoint for checkpoint in usable if checkpoint.path not in origins]
    return tuple(usable)


def _has_finite_losses(attempt: Attempt) -> bool:
    losses = [value for name, value in attempt.metrics.items() if is_training_loss(name)]
    return bool(losses) and all(value is not None and math.isfinite(value) for value in losses)


def without(checkpoints: Sequence[Checkpoint], path: str) -> tuple[Checkpoint, ...]:
    """Returns the checkpoints without one that could not be loaded; all if no state would be left.

    It may be another file, such as the state of an optimizer. Scripts that begin again overwrite the only state.
    """
    others = tuple(checkpoint for checkpoint in checkpoints if checkpoint.path != path)
    return tuple(checkpoints) if all(checkpoint.is_export for checkpoint in others) else others


def newest_intact(checkpoints: Sequence[Checkpoint], trust: Trust) -> Checkpoint | str:
    """Returns the newest complete and readable checkpoint (an export only as a last resort), or why there is none.

    Finds files that the script has renamed within their folder. May block on a disk.
    """
    reasons, trusted = dict[str, str](), trust.owners
    renamed = cache(lambda: _find_renamed(checkpoints, trusted))

    def paths_of(checkpoint: Checkpoint) -> Iterator[str]:
        theirs = put_by_another(Path(checkpoint.path), trusted)
        is_at_path = theirs is None and _is_at_path(checkpoint)
        if is_at_path:
            yield checkpoint.path
        if theirs is not None:
            reasons[checkpoint.path] = f"could be replaced: {theirs}"
        # Also if it is not trusted there: another user may have made a link to it under its old name.
        yield from renamed().get(checkpoint, ())
        if not (is_at_path or checkpoint in renamed() or checkpoint.has_moved or checkpoint.path in reasons):
            yield checkpoint.path  # of a later file

    newest_first = tuple(reversed(checkpoints))
    for checkpoint in sorted(newest_first, key=lambda checkpoint: checkpoint.is_export):
        for path in paths_of(checkpoint):
            if (reason := _defect(path, checkpoint, trust)) is None:
                return structs.replace(checkpoint, path=path)
            reasons.setdefault(checkpoint.path, reason)
    newest = checkpoints[-1].path
    return f"it started from the beginning: {newest} {reasons.get(newest, 'was replaced')}"


def on_known_disks(checkpoints: Iterable[Checkpoint], trust: Trust) -> tuple[Checkpoint, ...]:
    """Returns the checkpoints without those on a disk that only another node has named. May block on a disk.

    Looking there might mount the disk of any host, perhaps of the node itself: an automounter such as `/net` mounts what is
    named (autofs(5)).
    """
    automounts, given = _automounts(), "\n".join(trust.given)

    def check(component: Path) -> None:
        if component.parent in automounts and not re.search(
            rf"(?<![\w./~-]){re.escape(str(component))}(?![^/\n])", given
        ):
            raise _UnknownDiskError

    def is_known(path: str) -> bool:
        try:
            put_by_another(Path(path), trust.owners, check)
        except _UnknownDiskError:
            return False
        return True

    return tuple(each for each in checkpoints if not trust.is_from_another(each) or is_known(each.path))


class _UnknownDiskError(Exception):
    pass


def _automounts() -> set[Path]:
    """Returns the folders in which an automounter mounts what is named; AFS mounts cells that DNS names.

    Source: proc_pid_mountinfo(5); in Linux' fs/autofs, a mount of the type `direct` or `offset` mounts a given disk.
    """
    folders = set[Path]()
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        mount, _, details = line.partition(" - ")
        kind, _, options = details.split(" ", 2)
        if kind == "afs" or (kind == "autofs" and {"direct", "offset"}.isdisjoint(options.split(","))):
            folders.add(Path(_OCTAL.sub(lambda code: chr(int(code[1], 8)), mount.split(" ")[4])))
    return folders


def absence(checkpoints: Iterable[Checkpoint]) -> OSError | None:
    """Returns why no checkpoint can be read, as while a disk is away; None if one can, or if a script removed its file.

    Prefers an error of a disk (see `is_disk_error`). Does not count what another user has put in a folder's place.
    """
    errors = list[OSError]()
    for path in (Path(checkpoint.path) for checkpoint in checkpoints):
        if path.parts[1:2] in _KERNEL_FOLDERS or put_by_another(path) is not None:
            continue
        try:
            path.parent.stat()
            with open_for_reading(path) as file:
                file.read(1)
        except OSError as error:
            errors.append(error)
            if not isinstance(error, FileNotFoundError) or error.filename != str(path):
                continue
        return None
    return next(filter(is_disk_error, errors), next(iter(errors), None))


def is_disk_error(error: OSError) -> bool:
    """True if a disk does not work; a script, or a node that claims a checkpoint, can bring about the other errors."""
    return error.errno in _DISK_ERRORS


def relocate(checkpoints: Iterable[Checkpoint], found: Checkpoint) -> tuple[Checkpoint, ...]:
    """Returns the checkpoints with `found`, from `newest_intact`, under its current path."""
    return merge_checkpoints(found if structs.replace(old, path=found.path) == found else old for old in checkpoints)


def _is_at_path(checkpoint: Checkpoint) -> bool:
    """True if the file still has the path under which it was saved."""
    with suppress(OSError):
        status = Path(checkpoint.path).stat()
        is_later = checkpoint.has_moved and not _is_unchanged(status, checkpoint)
        return status.st_ino == checkpoint.inode and not is_later
    return False


def _find_renamed(checkpoints: Iterable[Checkpoint], trusted: Collection[int]) -> dict[Checkpoint, list[str]]:
    """Returns the new paths of files that were renamed, or whose folder was: scripts save under a temporary name first."""
    by_folder = defaultdict[Path, dict[int, Checkpoint]](dict)
    for checkpoint in checkpoints:
        by_folder[Path(checkpoint.path).parent][checkpoint.inode] = checkpoint
    paths, until = defaultdict[Checkpoint, list[str]](list), time.monotonic() + _MAX_SEARCH_S
    for folder, by_inode in by_folder.items():
        names = {Path(checkpoint.path).name for checkpoint in by_inode.values()}
        for path, inode in takewhile(lambda _: time.monotonic() < until, _files_near(folder, names, trusted)):
            saved = by_inode.get(inode)
            with suppress(OSError):
                if saved is not None and _is_unchanged(os.lstat(path), saved):
                    paths[saved].append(path)
    return dict(paths)


def _files_near(folder: Path, names: Iterable[str], trusted: Collection[int]) -> Iterator[tuple[str, int]]:
    """Yields paths and inodes of files in a folder and in its parent, and of those called `names` in folders beside it."""
    automounts = _automounts()
    for near in (folder, folder.parent):
        if put_by_another(near, trusted) is not None:
            continue
        with suppress(OSError), os.scandir(near) as entries:
            for entry in entries:
                yield entry.path, entry.inode()
                if near == folder or not _is_own_folder(entry) or Path(entry.path) in automounts:
                    continue
                for path in (f"{entry.path}/{name}" for name in names):
                    with suppress(OSError):
                        yield path, os.lstat(path).st_ino


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    """False for a link, which may be slow to follow, and for another user's folder."""
    try:
        status = entry.stat(follow_symlinks=False) if entry.is_dir(follow_symlinks=False) else None
    except OSError:
        return False
    return status is not None and (_is_own(status) or _is_squashed(status))


def _is_unchanged(status: os.stat_result, checkpoint: Checkpoint) -> bool:
    """False for another file that got a removed one's inode number, which some file systems reuse at once."""
    is_known = checkpoint.size_bytes is not None and checkpoint.mtime_ns
    return not is_known or (status.st_size, status.st_mtime_ns) == (checkpoint.size_bytes, checkpoint.mtime_ns)


def _is_as_reported(status: os.stat_result, checkpoint: Checkpoint) -> bool:
    """True for the file that was reported, or the same one changed later.

    Some network disks have other inodes on each machine. A node that guesses one gains little: a file that another job has
    saved does not count (`Task.without_others_files`).
    """
    is_complete = checkpoint.size_bytes is not None and checkpoint.mtime_ns > 0
    is_same_file = 0 != checkpoint.inode == status.st_ino and status.st_mtime_ns >= checkpoint.mtime_ns
    return is_same_file or (is_complete and _is_unchanged(status, checkpoint))


def _defect(path: str, checkpoint: Checkpoint, trust: Trust) -> str | None:
    """Returns the reason why a file cannot be loaded; None if it can.

    It must be the saved file, or written later: otherwise a node could name any file on the machine that continues.
    """
    try:
        with open_for_reading(Path(path)) as file:
            status = os.fstat(file.fileno())
            is_from_another = trust.is_from_another(checkpoint)
            is_saved_file = status.st_ino == checkpoint.inode and _is_unchanged(status, checkpoint)
            if (is_from_another or not is_saved_file) and status.st_mtime < checkpoint.saved - _MAX_SKEW_S:
                return "is another file, written earlier"
            if is_from_another and not _is_as_reported(status, checkpoint):
                return f"is another file than {checkpoint.node} has reported"
            # Only then read it: another user's link may lead to a file in `/proc`, and reading that may hang.
            if (reason := trust.distrust_reason(path, status)) is not None:
                return reason
            is_zip = file.read(2) == b"PK"  # `torch.save` and Stable-Baselines3; the ZIP directory is at the end
            is_right_size = status.st_size and status.st_size == (checkpoint.size_bytes or status.st_size)
            is_later_zip = is_zip and status.st_mtime_ns > checkpoint.mtime_ns > 0  # its size is unknown
            is_complete = (is_right_size or is_later_zip) and not (is_zip and not zipfile.is_zipfile(file))
            return None if is_complete else "is incomplete"
    except zipfile.BadZipFile:
        return "is incomplete"
    except FileNotFoundError:
        return f"is not on {socket.gethostname()}"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _is_own_entry(path: Path) -> bool:
    """True for a file or link of this user or root: in a shared folder, any other user could create one."""
    with suppress(OSError):
        return _is_own(path.lstat())
    return False


def _is_own(status: os.stat_result, *, is_public: bool = False) -> bool:
    """True for a file of this user or root; in a public folder, not if any user outside this namespace may own it."""
    return status.st_uid in (os.geteuid(), 0) and not (is_public and status.st_uid == ambiguous_id())


def _is_squashed(status: os.stat_result) -> bool:
    """True for nobody's file if this user is root, whose own may belong to nobody on a network disk (exports(5))."""
    return os.geteuid() == 0 and status.st_uid == OVERFLOW_ID and ambiguous_id() is None


def _sharers(folders: Iterable[os.stat_result]) -> set[int]:
    """Returns the owners of the folders on a path that are shared with one of this user's groups.

    Inside another user's folder in `/tmp`, any member of a group could have made one.
    """
    groups, sharers, is_public = {os.getegid(), *os.getgroups()}, set[int](), False
    for status in folders:
        if is_public and not _is_own(status):
            break
        if _is_shared(status) and status.st_gid in groups:
            sharers.add(status.st_uid)
        is_public = is_public_folder(status)
    return sharers


def _is_private(status: os.stat_result) -> bool:
    """True for this user's folder that nobody else can enter."""
    is_of_group = status.st_mode & stat.S_IXGRP and not is_own_group(status.st_gid)
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not (status.st_mode & stat.S_IXOTH or is_of_group)
    )


def _is_shared(status: os.stat_result) -> bool:
    """True for a folder that its group may change, but other users may not."""
    return stat.S_ISDIR(status.st_mode) and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) == stat.S_IWGRP
