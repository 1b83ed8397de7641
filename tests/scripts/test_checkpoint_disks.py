"""Whether a job's checkpoints are on disks that are in use and work."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gmg_tui.model import Checkpoint
from gmg_tui.scripts.checkpoints import Trust, absence, is_disk_error, newest_intact, on_known_disks


def test_no_hosts_disk_is_mounted_because_a_node_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoint would be the node's own code."""
    folder = str(tmp_path).replace(" ", r"\040")
    lines = (
        "22 1 0:20 / / rw - ext4 /dev/sda1 rw",
        rf"30 22 0:30 / {folder}/the\040net rw shared:1 - autofs -hosts rw,fd=7,indirect",
        f"34 22 0:34 / {folder}/disk rw - autofs systemd-1 rw,fd=9,direct",
        f"35 22 0:35 / {folder}/afs rw - afs AFS rw",
    )
    (tmp_path / "link").symlink_to(tmp_path / "the net" / "evil")
    (tmp_path / "the net").mkdir()
    (tmp_path / "afs").mkdir()
    read_text = Path.read_text
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda path, *more, **named: "\n".join(lines) if path.name == "mountinfo" else read_text(path, *more, **named),
    )
    theirs = f"/home/us{tmp_path}/the net/policy/train.py"
    trust = Trust(node="n2", given=(f"{tmp_path}/the net/ours", f"--out={tmp_path}/the net/given/x", theirs))
    for path, is_kept in (
        *(("the net/evil/model.pt", False), ("link/model.pt", False), ("the net/evil", False)),
        *(("the net/policy/model.pt", False), ("/the net/evil/model.pt", False)),
        *(("the net/ours/model.pt", True), ("the net/given/model.pt", True), ("the net/give/model.pt", False)),
        *(("disk/us/model.pt", True), ("home/us/model.pt", True), ("afs/evil.org/model.pt", False)),
    ):
        saved = Checkpoint(f"/{tmp_path}/{path}", 1.0, node="n1")  # two slashes may differ from one (POSIX)
        assert bool(on_known_disks([saved], trust)) is is_kept, path
        for node in ("", "n2"):
            assert on_known_disks([structs.replace(saved, node=node)], trust)


def test_checkpoints_absence_unless_their_folder_shows_that_they_were_removed(tmp_path: Path) -> None:
    kept, removed = tmp_path / "kept.pt", tmp_path / "removed.pt"
    unmounted, loop = tmp_path / "disk" / "x.pt", tmp_path / "loop.pt"
    kept.write_text("x")
    loop.symlink_to(loop)
    for path, number in (
        *((kept, None), (removed, None), (unmounted, errno.ENOENT)),
        (loop, errno.ELOOP),
    ):
        error = absence([Checkpoint(str(path), 1.0)])
        assert (error and error.errno) == number
    assert absence([Checkpoint(str(path), 1.0) for path in (unmounted, removed)]) is None
    assert absence(()) is None


def test_only_a_disk_that_does_not_work_keeps_a_job_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script or a node's agent can bring about all other errors, which benched the slots of other jobs."""
    (tmp_path / "file").touch()
    (broken := tmp_path / "broken.pt").touch()
    claims = [Checkpoint(str(path), 1.0) for path in (tmp_path / "file" / "x.pt", broken)]
    assert absence([Checkpoint("/proc/self/mem", 1.0)]) is None
    assert absence([Checkpoint("/", 1.0)]) is not None
    error = absence(claims[:1])
    assert error is not None
    assert not is_disk_error(error)

    def fail(path: Path, flags: int, *, dir_fd: int | None) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(os, "open", fail)
    error = absence(claims)
    assert error is not None
    assert is_disk_error(error)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
@pytest.mark.parametrize("is_readable", [False, True])
def test_what_another_user_puts_in_place_of_a_removed_checkpoint_does_not_count(
    visible: Path, *, is_readable: bool
) -> None:
    """Nobody could continue for it, or nobody would wait for a disk that is away."""
    visible.chmod(0o1777)
    theirs, away = visible / "removed" / "model.pt", visible / "own" / "disk" / "model.pt"
    theirs.parent.mkdir()
    away.parent.parent.mkdir()
    theirs.write_text("x") if is_readable else theirs.symlink_to(theirs)
    os.chown(theirs.parent, 1, 1)
    assert absence([Checkpoint(str(theirs), 1.0)]) is None
    error = absence([Checkpoint(str(path), 1.0) for path in (theirs, away)])
    assert error is not None
    assert (error.errno, error.filename) == (errno.ENOENT, str(away.parent))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
@pytest.mark.parametrize("is_file", [False, True])
def test_no_link_of_another_user_is_followed(visible: Path, monkeypatch: pytest.MonkeyPatch, *, is_file: bool) -> None:
    """It may lead to a disk that hangs, while an older checkpoint is intact."""
    (older := visible / "older.pt").write_text("state")
    (scratch := visible / "scratch").mkdir()
    scratch.chmod(0o1777)
    newest = scratch / "run" / "model.pt"
    (link := newest if is_file else newest.parent).parent.mkdir(exist_ok=True)
    os.chown(link.parent if is_file else scratch, 1 if is_file else 0, -1)
    link.symlink_to("/usr")
    os.lchown(link, 1, 1)
    looked_at: list[str] = []

    def watched(look: Callable[..., Any]) -> Callable[..., Any]:
        def watch(path: Any, *more: Any, **named: Any) -> Any:
            if named.get("follow_symlinks", True):
                looked_at.append(str(path))
            return look(path, *more, **named)

        return watch

    for name in ("stat", "open", "scandir"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    found = newest_intact([Checkpoint(str(older), 1.0), Checkpoint(str(newest), 2.0)], Trust())
    assert isinstance(found, Checkpoint)
    assert found.path == str(older)
    assert not [path for path in looked_at if path.startswith(str(link))]
