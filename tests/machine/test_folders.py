"""Folders on a machine with other users: trust, removal, and interference."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from gmg_tui.machine import folders, ownership
from gmg_tui.machine.folders import (
    distrust,
    make_locked,
    make_own,
    make_private,
    remove_abandoned,
    remove_own,
    remove_tree,
    write_own,
)
from gmg_tui.machine.ownership import changed_owner, marks, owners, path_owners, refusal
from gmg_tui.scripts.genesis.caches import kernel_cache_use
from gmg_tui.scripts.probe import SITE
from gmg_tui.scripts.probe import folders as probe_folders
from tests.patience import LONG_S

STRANGER = pwd.getpwnam("nobody").pw_uid
as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder like /tmp and /dev/shm."""
    with tempfile.TemporaryDirectory(prefix="gmg-", dir="/tmp") as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


def _deep(folder: Path, levels: int = 1200) -> None:
    """Makes a folder that is nested deeper than Python can recurse."""
    folder.mkdir()
    inner = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=inner)
        outer, inner = inner, os.open("d", os.O_RDONLY, dir_fd=inner)
        os.close(outer)
    os.close(inner)


def test_deep_and_protected_folders_are_removed_and_links_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.touch()
    folder = tmp_path / "folder"
    _deep(folder)
    (folder / "link").symlink_to(tmp_path)
    (folder / "d" / "link").symlink_to(tmp_path)
    os.mkfifo(folder / "d" / "fifo")
    (folder / "d").chmod(0)
    folder.chmod(0)
    remove_tree(folder)
    assert list(tmp_path.iterdir()) == [kept]


def test_a_cache_nested_too_deeply_is_measured_without_following_links(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    _deep(cache)
    (cache / "kernel").write_bytes(b"12345")
    (cache / "loop").symlink_to("/tmp")
    assert kernel_cache_use({"QD_OFFLINE_CACHE_FILE_PATH": str(cache)}, None)[0] == 5 + len("/tmp")
    remove_tree(cache)


def test_only_folders_of_ended_processes_are_removed(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_MAX_SEARCH_S", LONG_S)
    ours = make_locked(shared / "x-1")
    killed = subprocess.run(["mktemp", "-d", shared / "x-XXXXXX"], capture_output=True, text=True, check=True)
    Path(killed.stdout.strip(), "file").touch()
    _deep(shared / "x-deep")
    (shared / "x-deep").chmod(0o700)
    os.mkfifo(shared / "x-fifo")
    (shared / "x-link").symlink_to("/")
    remove_abandoned(shared, "x-")
    assert {path.name for path in shared.iterdir()} == {ours.path.name, "x-fifo", "x-link"}
    ours.remove(10)
    assert not ours.path.exists()


@pytest.mark.parametrize(("mode", "parent_mode"), [(0o775, 0o1777), (0o700, 0o777)])
def test_a_folder_that_another_user_could_have_moved_is_not_removed(shared: Path, mode: int, parent_mode: int) -> None:
    """One's own results, in a folder of a group or without the sticky bit, under a name of gmg-tui's."""
    moved = shared / "x-moved"
    moved.mkdir()
    (moved / "model.pt").touch()
    moved.chmod(mode)
    shared.chmod(parent_mode)
    remove_abandoned(shared, "x-")
    assert (moved / "model.pt").exists()


def test_a_folder_that_cannot_be_locked_is_not_left_behind(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_lock", lambda _: None)
    with pytest.raises(OSError, match="has taken"):
        make_locked(shared / "x-1")
    assert not [*shared.glob("x-*")]


def test_the_removal_of_an_abandoned_folder_is_bounded(shared: Path) -> None:
    folder = make_locked(shared / "x-1")
    for number in range(20):
        (folder.path / str(number)).touch()
    folder.remove(5)
    assert len(list(folder.path.iterdir())) == 15
    remove_abandoned(shared, "x-")
    assert list(shared.iterdir()) == []


@as_root
def test_folders_of_other_users_are_neither_used_nor_touched(shared: Path) -> None:
    theirs = shared / "x-theirs"
    make = f"mkdir -m 777 {theirs} && touch {theirs}/file && mkfifo {shared}/x-fifo && ln -s /root {shared}/link"
    subprocess.run(["runuser", "-u", "nobody", "--", "sh", "-c", make], check=True)
    remove_abandoned(shared, "x-")
    assert (theirs / "file").exists()
    for folder in (theirs, theirs / "new", shared / "link", shared / "link" / "new"):
        assert distrust(folder) is not None
        with pytest.raises(PermissionError):
            make_own(folder)
        remove_own(folder)
    assert (theirs / "file").exists()
    assert distrust(shared / "new") == f"{shared}/new is missing, and {shared} can be changed by others"
    with pytest.raises(PermissionError):
        make_locked(theirs / "x-1")


def test_a_folder_that_others_can_change_is_not_made_ones_own(shared: Path) -> None:
    """Another user may have moved it here, with files in it."""
    (moved := shared / "moved").mkdir()
    for mode, is_refused in ((0o777, True), (0o775, True), (0o755, False)):
        moved.chmod(mode)
        with pytest.raises(PermissionError, match="other users can change it") if is_refused else nullcontext():
            make_own(moved)


@as_root
def test_every_folder_and_link_on_the_way_counts(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours may lead through a shared folder, where another user makes the next ones."""
    (kept := tmp_path / "kept").mkdir()
    (ours := tmp_path / "ours").symlink_to(shared / "us" / "state")
    assert "is missing, and" in str(distrust(ours))
    make = f"mkdir {shared}/us && ln -s {kept} {shared}/us/state"
    subprocess.run(["runuser", "-u", "nobody", "--", "sh", "-c", make], check=True)
    assert str(shared / "us") in str(distrust(ours))
    remove_own(ours)
    assert kept.exists()
    monkeypatch.setattr(folders, "administrators", lambda: (0, STRANGER))  # unmapped in a container, as root
    (shared / "us").chmod(0o1777)
    assert str(shared / "us") in str(distrust(shared / "us" / "new"))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many"):
        distrust(tmp_path / "loop", must_exist=True)


def test_no_number_of_other_entries_hides_abandoned_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number only takes time, which is limited."""
    monkeypatch.setattr(folders, "_MAX_LISTED_ENTRIES", 2)
    os.close(make_locked(tmp_path / "x-1").descriptor)
    for number in range(20):
        (tmp_path / str(number)).touch()
    monkeypatch.setattr(folders, "_MAX_SEARCH_S", 0.0)
    remove_abandoned(tmp_path, "x-")
    assert len([*tmp_path.iterdir()]) == 21
    monkeypatch.setattr(folders, "_MAX_SEARCH_S", LONG_S)
    remove_abandoned(tmp_path, "x-")
    assert len([*tmp_path.iterdir()]) == 20


@as_root
def test_files_of_a_user_without_a_name_are_known_on_a_node(tmp_path: Path) -> None:
    """As those of a host's user in a container."""
    os.chown(tmp_path, 54321, -1)
    assert f"{tmp_path} belongs to user 54321 here" in str(refusal(tmp_path, ()))
    assert refusal(tmp_path, marks(owners(tmp_path))) is None
    os.chown(tmp_path, 100_999, -1)
    assert refusal(tmp_path, marks(owners(tmp_path))) is not None, "it may be another user's in her container"


@as_root
def test_users_are_known_on_a_node_by_name_or_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "known_as", partial(_known_as, {7: "pi", 8: "me"}))
    monkeypatch.setattr(os, "getuid", lambda: 8)
    trusted = marks([(tmp_path, 7), (tmp_path, 8)])
    monkeypatch.setattr(os, "getuid", lambda: 1)  # logged in as another user
    for there, known in (
        ({7: "pi", 8: "me"}, {7, 8}),
        ({17: "pi", 18: "me"}, {7, 17}),  # who `me` is there, nobody knows
        ({7: "other", 8: "other"}, set()),
        ({}, {7}),
    ):
        monkeypatch.setattr(ownership, "known_as", partial(_known_as, there))
        for uid in (7, 8, 17, 18):
            os.chown(tmp_path, uid, -1)
            assert (refusal(tmp_path, trusted) is None) is (uid in known), (there, uid)


def _known_as(names: dict[int, str], uid: int) -> tuple[str, str, str]:
    name = names.get(uid, "")
    return f"{uid}/{name}" if name else "", name, f"#{uid}"


@as_root
def test_in_a_user_namespace_neither_a_strangers_file_nor_a_shared_group_counts_as_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_user_map", lambda: [[0, 1000, 1]])
    nobody = ownership.OVERFLOW_ID
    folder, file = tmp_path / "config", tmp_path / "config" / "config.toml"
    folder.mkdir()
    file.touch()
    os.chown(folder, nobody, -1)  # root's, for all that can be known
    assert distrust(file, shared=True) is None
    assert refusal(file, ()) is None
    (link := folder / "link").symlink_to(file)
    assert refusal(link, ()) is None, "any link has mode 0777"
    assert marks(owners(file)) == ["0/root"], "nobody may be anyone"
    os.chown(file, nobody, -1)
    assert distrust(file, shared=True) == f"{file} belongs to user {nobody}"
    os.chown(folder, 0, 0)
    folder.chmod(0o777)
    assert f"{file} belongs to nobody here" in str(refusal(file, ("nobody",)))
    for user_map in ([[0, 1000, 1]], [[0, 1000, 1], [1, 100000, 65536]]):
        monkeypatch.setattr(ownership, "_user_map", lambda user_map=user_map: user_map)
        folder.chmod(0o775)
        assert distrust(folder) == f"{folder} can be changed by group 0"


def test_a_foreign_owner_is_one_that_is_not_named(tmp_path: Path) -> None:
    (file := tmp_path / "train.py").touch()
    assert refusal(file, ()) is None
    assert refusal(tmp_path / "missing", ()) == f"{tmp_path}/missing cannot be used here: No such file or directory"
    if os.getuid() == 0:
        shutil.chown(tmp_path, "daemon")
        assert f"{tmp_path} belongs to daemon here" in str(refusal(file, ()))
        assert refusal(file, ("daemon",)) is None


@as_root
def test_a_missing_folder_that_another_user_makes_first_is_not_used(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kept := tmp_path / "kept" / "summary.json").mkdir(parents=True)
    make, state = os.mkdir, shared / "state"

    def make_second(path: Path, mode: int) -> None:
        if path == state:  # after it was found missing
            subprocess.run(["runuser", "-u", "nobody", "--", "mkdir", "-m", "777", path], check=True)
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", make_second)
    with pytest.raises(PermissionError):
        make_private(state / "sessions")
    assert list(state.iterdir()) == []
    subprocess.run(["runuser", "-u", "nobody", "--", "ln", "-s", kept.parent, state / "sim-1"], check=True)
    with pytest.raises(PermissionError):
        make_private(state / "sim-1" / "logs")
    with pytest.raises(PermissionError):
        write_own(state / "sim-1" / kept.name, b"")
    assert list(kept.parent.iterdir()) == [kept], "nothing is made, replaced or removed through the link"


@as_root
def test_the_probe_writes_into_no_folder_that_another_user_has_put_there(tmp_path: Path) -> None:
    folder, code = tmp_path / "folder", "import gmg_probe; gmg_probe._counts.enter('started')"
    env = {**os.environ, "PYTHONPATH": SITE, "GMG_PROBE_DIR": str(folder)}
    for owner, mode, written in ((0, 0o700, True), (0, 0o777, False), (STRANGER, 0o755, False)):
        folder.mkdir()
        folder.chmod(mode)
        os.chown(folder, owner, -1)
        subprocess.run([sys.executable, "-c", code], env=env, check=True)
        assert bool(list(folder.iterdir())) is written
        shutil.rmtree(folder)
    link = folder.with_name("elsewhere")
    link.mkdir()
    folder.symlink_to(link)
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    assert list(link.iterdir()) == []


@pytest.mark.parametrize(("mode", "trusted"), [(0o700, True), (0o755, True), (0o777, False), (0o1777, False)])
def test_a_folder_that_others_can_change_is_not_trusted(mode: int, trusted: bool, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert (distrust(folder) is None) is trusted
    assert (distrust(folder / "in" / "it") is None) is trusted


@as_root
def test_a_folder_of_root_that_a_group_can_change_is_not_trusted(shared: Path) -> None:
    (folder := shared / "group").mkdir()
    folder.chmod(0o775)
    assert distrust(folder / "mine") is None
    os.chown(folder, 0, STRANGER)
    assert distrust(folder / "mine") is not None
    folder.chmod(0o1775)
    assert distrust(folder / "mine") == f"{folder}/mine is missing, and {folder} can be changed by others"


def test_the_probe_writes_into_no_full_folder(tmp_path: Path) -> None:
    """A limit on file sizes stands for the full disks."""
    code = """
import resource
from pathlib import Path
from gmg_tui.scripts.probe import folders as probe_folders
print(*(folder.path for folder in probe_folders.make_folders(Path("/one"))))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
print(probe_folders.make_folders(Path("/two")))
"""
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    (folder,) = tmp_path.iterdir()
    (spare := Path("/tmp", folder.name)).joinpath("saved").unlink()
    spare.rmdir()
    assert run.stdout == f"{folder} {spare}\n[]\n"


def test_a_new_folder_is_not_removed_before_it_is_locked(tmp_path: Path) -> None:
    """The removal runs beside the engine, which makes another folder of the same session."""
    (folder := tmp_path / "gmg-probe-one").mkdir(mode=0o700)
    remove_abandoned(tmp_path, "gmg-probe-", before=time.time() - 1.0)
    assert os.path.exists(folder)
    remove_abandoned(tmp_path, "gmg-probe-", before=time.time() + 1.0)
    assert not os.path.exists(folder)


def _made_parents() -> list[Path]:
    """Makes the probe's folders, removes them, and returns the folders in which they were."""
    made = probe_folders.make_folders(Path("/sim-1"))
    for folder in made:
        folder.remove(1)
    return [folder.path.parent for folder in made]


@as_root
def test_without_a_runtime_folder_of_its_own_the_probe_writes_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Path(os.environ["XDG_RUNTIME_DIR"])
    for owner, parent in ((0, runtime), (STRANGER, Path("/dev/shm"))):
        os.chown(runtime, owner, -1)
        assert _made_parents() == [parent, Path("/tmp")]
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert _made_parents() == [Path("/dev/shm"), Path("/tmp")]
    os.chown(runtime, 0, -1)


@as_root
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o1775, 0o1770])
def test_code_in_a_public_folder_is_not_run_again_if_another_user_may_have_replaced_it(shared: Path, mode: int) -> None:
    os.chown(shared, -1, STRANGER)
    shared.chmod(mode)
    script = shared / "run" / "sim.py"
    script.parent.mkdir()
    script.touch()
    assert changed_owner((str(script),), {}) is None
    os.chown(script, STRANGER, -1)
    assert changed_owner((str(script),), {}) is None, "only this user could have put it there"
    assert changed_owner((str(script),), {}, elsewhere=True) is not None, (
        "on another machine it was perhaps this user's"
    )
    os.chown(script.parent, STRANGER, -1)
    assert f"{script.parent} belongs to nobody" in (changed_owner((str(script),), {}) or "")
    known = path_owners(str(script))
    assert known[str(script.parent)] == STRANGER
    assert changed_owner((str(script),), known) is None, "as when the session was started"
    shutil.rmtree(script.parent)
    assert f"{script} is missing, and others could create it" in (changed_owner((str(script),), known) or "")
    assert changed_owner(("/gone/sim.py",), {}) is None


@as_root
def test_a_folder_without_the_sticky_bit_is_shared_by_users_who_trust_each_other(shared: Path) -> None:
    (folder := shared / "lab").mkdir()
    script = folder / "sim.py"
    script.touch()
    for path in (folder, script):
        os.chown(path, -1, STRANGER)
    folder.chmod(0o2775)
    os.chown(script, STRANGER, -1)
    assert changed_owner((str(script),), {}) is None


@as_root
def test_a_path_that_is_hard_to_follow_is_trusted_no_more_than_a_short_one(shared: Path) -> None:
    (theirs := shared / "theirs").mkdir()
    os.chown(theirs, STRANGER, -1)
    for path in (Path("/etc/.." * 510 + str(theirs)), Path(f"/proc/{os.getpid()}/root{theirs}")):
        assert path.samefile(theirs)
        for suffix in ("", "missing"):
            assert distrust(path / suffix) is not None
            assert refusal(path / suffix, ()) is not None
        assert path_owners(str(path)).get(str(theirs), STRANGER) == STRANGER
    (loop := shared / "loop").symlink_to("loop")
    assert distrust(loop) == f"{loop} cannot be used: Too many levels of symbolic links"
    assert changed_owner((str(loop),), {}) is not None
