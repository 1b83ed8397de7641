"""Which checkpoints are remembered, and which of their files an attempt continues from."""

import math
import os
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.machine import ownership
from gmg_tui.model import (
    NO_ATTEMPT,
    Alert,
    Checkpoint,
    Severity,
    combine_ranks,
    merge_checkpoints,
)
from gmg_tui.model.attempt import MAX_CHECKPOINTS, add_checkpoints
from gmg_tui.scripts.checkpoints import (
    Trust,
    before_nan,
    newest_intact,
    without,
)

_TRUST = Trust()


def test_no_rank_pushes_out_the_checkpoints_of_the_others() -> None:
    saved = tuple(Checkpoint(f"/{number}", number) for number in range(MAX_CHECKPOINTS))
    lies = tuple(Checkpoint(f"/lie/{number}", 1e6 + number) for number in range(MAX_CHECKPOINTS))
    again = (Checkpoint("/0", 2e6),)
    ranks = [structs.replace(NO_ATTEMPT, number=1, checkpoints=files) for files in (saved, lies)]
    newest = combine_ranks([*ranks, structs.replace(NO_ATTEMPT, number=1, checkpoints=again)]).checkpoints[-1]
    assert newest == again[0]
    assert set(before_nan(*ranks)) == set(combine_ranks(ranks).checkpoints) == {*saved, *lies}


def test_the_ledger_keeps_the_newest_of_each_path() -> None:
    many = [Checkpoint(f"/{number}", number) for number in range(30)]
    kept = merge_checkpoints(
        many, [Checkpoint("/latest", 35.0), Checkpoint("/latest", 36.0), Checkpoint("/29", 40.0)], limit=MAX_CHECKPOINTS
    )
    assert len(kept) == MAX_CHECKPOINTS
    assert [(each.path, each.saved) for each in kept[-2:]] == [("/latest", 36.0), ("/29", 40.0)]
    set_back = [Checkpoint("/before", 40.0), Checkpoint("/after", 30.0)]
    assert merge_checkpoints(set_back)[-1].path == "/after", "the system clock has been set back in between"
    known: tuple[Checkpoint, ...] = ()
    for number in range(40):
        known = add_checkpoints(known, [Checkpoint(f"/{number}", 5000.0 + number - 3600.0 * (number > 20))])
    assert [each.path for each in known] == [f"/{number}" for number in range(20, 40)]


def test_files_saved_since_a_metric_is_nan_push_out_no_earlier_ones() -> None:
    """Scripts go on saving for hours."""
    known: tuple[Checkpoint, ...] = ()
    for number in range(1000):
        broken_since = 29.5 if number > 30 else math.inf
        known = add_checkpoints(known, [Checkpoint(f"/{number}", float(number))], broken_since)
    assert [each.path for each in known] == [f"/{number}" for number in (*range(15, 30), *range(995, 1000))]
    nan = Alert("nan", Severity.ERROR, "reward NaN", 29.5)
    attempt = structs.replace(
        NO_ATTEMPT, number=1, checkpoints=known, alerts=(nan,), metrics={"loss": None, "reward": None}
    )
    assert before_nan(attempt) == known[:15]
    assert before_nan(structs.replace(attempt, metrics={"loss": 0.5, "val_loss": None, "reward": None})) == known, (
        "lack of data"
    )
    assert before_nan(structs.replace(attempt, metrics={"best_loss": 0.5, "reward": None})) == known[:15]


def test_no_node_pushes_out_the_checkpoints_that_others_have_saved() -> None:
    own = [Checkpoint(f"/{number}", number) for number in range(30)]
    theirs = [Checkpoint(f"/{number}", 100.0 + number, node="n1") for number in range(10)]
    lies = [Checkpoint(f"/lie/{number}", 200.0 + number, node="evil") for number in range(200)]
    assert {*own, *theirs} < {*merge_checkpoints(own, theirs, lies)}
    again = [structs.replace(each, saved=300.0, node="evil") for each in own]
    assert {*own} < {*merge_checkpoints(merge_checkpoints(own, again), lies)}


@pytest.mark.parametrize("is_begun_again", [False, True])
def test_a_file_whose_folder_was_renamed_is_found(tmp_path: Path, is_begun_again: bool) -> None:
    """A checkpoint of several files is often complete once its folder is renamed."""
    (folder := tmp_path / "tmp").mkdir()
    (path := folder / "state.pt").write_bytes(b"state")
    status = path.stat()
    saved = Checkpoint(str(path), status.st_mtime, 5, status.st_ino, status.st_mtime_ns)
    folder.rename(tmp_path / "step_12")
    (tmp_path / "step_13").mkdir()
    (tmp_path / "step_13" / "state.pt").write_bytes(b"other")
    (tmp_path / "file").touch()
    if is_begun_again:
        folder.mkdir()
        path.write_bytes(b"st")
    found = newest_intact((saved,), _TRUST)
    assert isinstance(found, Checkpoint)
    assert found.path == str(tmp_path / "step_12" / "state.pt")


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_renamed_file_is_found_and_an_export_comes_last(tmp_path: Path, is_renamed: bool) -> None:

    state, export = tmp_path / "state.tmp", tmp_path / "policy.pt"
    state.write_bytes(b"state")
    export.write_bytes(b"policy")
    saved = (
        Checkpoint(str(state), 1.0, 5, state.stat().st_ino),
        Checkpoint(str(export), 2.0, 6, export.stat().st_ino, is_export=True),
    )
    if is_renamed:
        for number in range(12_000):  # as by another user in a folder of all users
            os.link(export, tmp_path / str(number))
        state.rename(tmp_path / "state.pt")
    found = newest_intact(saved, _TRUST)
    assert isinstance(found, Checkpoint)
    assert found.path == str(tmp_path / ("state.pt" if is_renamed else "state.tmp"))
    (tmp_path / "state.pt").unlink(missing_ok=True)
    state.unlink(missing_ok=True)
    assert isinstance(found := newest_intact(saved, _TRUST), Checkpoint)
    assert found.is_export
    export.write_bytes(b"PK but no zip"[:6])
    assert newest_intact(saved, _TRUST) == f"it started from the beginning: {export} is incomplete"


def test_a_file_that_the_script_was_replacing_is_found_under_its_final_name(tmp_path: Path) -> None:
    path, final = tmp_path / "model.tmp", tmp_path / "model.pt"
    path.write_bytes(b"state")
    written = path.stat()
    checkpoint = Checkpoint(str(path), 1.0, 5, written.st_ino, written.st_mtime_ns)
    path.rename(final)
    path.write_bytes(b"sta")  # the process was killed
    assert isinstance(found := newest_intact((checkpoint,), _TRUST), Checkpoint)
    assert found.path == str(final)
    os.utime(final, ns=(0, written.st_mtime_ns + 1))  # another file may get a removed one's inode number
    assert _reason((checkpoint,)).endswith("is incomplete")


def test_a_file_that_was_saved_again_is_complete_if_its_archive_is(tmp_path: Path) -> None:
    """As one that a lost node, or a machine before a power cut, has saved after its last report."""
    path = tmp_path / "latest.pt"

    def save(size_bytes: int) -> os.stat_result:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("state", bytes(size_bytes))
        os.utime(path, ns=(size_bytes, size_bytes))
        return path.stat()

    reported = save(10)
    checkpoint = Checkpoint(str(path), 0.0, reported.st_size, reported.st_ino, reported.st_mtime_ns)
    save(20)
    assert not _reason((checkpoint,))
    with path.open("r+b") as file:
        file.truncate(60)
    os.utime(path, ns=(20, 20))
    assert _reason((checkpoint,)) == "is incomplete"
    save(5)
    assert _reason((checkpoint,)) == "is incomplete", "it is no later one"


def test_files_saved_under_one_name_are_told_apart(tmp_path: Path) -> None:
    path, saved, nan = tmp_path / "model.tmp", list[Checkpoint](), Alert("nan", Severity.WARNING, "loss is NaN", 2.5)
    for number in range(1, 5):
        path.write_bytes(b"state")
        written = path.stat()
        saved.append(Checkpoint(str(path), float(number), 5, written.st_ino, written.st_mtime_ns))
        path.rename(tmp_path / f"model_{number}.pt")
    attempt = structs.replace(NO_ATTEMPT, started=0.5, checkpoints=merge_checkpoints(saved), alerts=(nan,))
    usable = before_nan(attempt)
    for number in (2, 1):
        found = newest_intact(usable, _TRUST)
        assert isinstance(found, Checkpoint)
        assert found.path == str(tmp_path / f"model_{number}.pt")
        Path(found.path).unlink()
    path.write_bytes(b"later")
    assert _reason(usable) == "was replaced", "it may be the one that leads to NaN"
    found = newest_intact(saved, _TRUST)
    assert isinstance(found, Checkpoint)
    assert found.path.endswith("_4.pt")


def test_no_series_of_files_crowds_out_the_others() -> None:
    """As files of one name, exports, or the data of each iteration."""
    many = [Checkpoint("/model.tmp", float(number), inode=number) for number in range(1, 200)]
    exports = [Checkpoint(f"/{number}.jit", float(number), is_export=True) for number in range(1, 200)]
    states = [Checkpoint(f"/model_{number}.pt", 0.1 * number) for number in range(8)]
    kept = merge_checkpoints([Checkpoint("/best.pt", 0.0)], states, many, exports, limit=MAX_CHECKPOINTS)
    assert Counter(each.series for each in kept) == {"/best.pt": 1, "/model_#.pt": 5, "/model.tmp": 7, "/#.jit": 7}
    assert {*states[-5:]} < {*kept}
    assert merge_checkpoints(states, limit=MAX_CHECKPOINTS) == tuple(states)


def test_the_only_state_is_not_left_out() -> None:
    states = tuple(Checkpoint(f"/model_{number}.pt", float(number)) for number in (1, 2))
    exports = (Checkpoint("/policy.jit", 4.0, is_export=True),)
    assert without((*states, *exports), "/model_2.pt") == (states[0], *exports)
    assert without((states[0], *exports), "/model_1.pt") == (states[0], *exports), "it would be overwritten"


def test_a_file_that_was_there_before_is_no_checkpoint_unless_it_is_the_one_that_was_saved(tmp_path: Path) -> None:
    """A node could name any file of another machine, and its job would overwrite that there."""
    path = tmp_path / "thesis.pt"
    path.write_bytes(b"weeks of work")
    written = path.stat()
    checkpoint = Checkpoint(str(path), written.st_mtime + 3600.0)
    assert _reason((checkpoint,)).endswith("is another file, written earlier")
    assert not _reason((structs.replace(checkpoint, inode=written.st_ino),))
    assert not _reason((structs.replace(checkpoint, saved=written.st_mtime + 60.0),)), "clocks differ"


def test_a_file_that_all_users_can_change_is_not_loaded_unless_only_its_owner_can_reach_it(visible: Path) -> None:
    path = visible / "model.pt"
    path.write_bytes(b"state")
    for mode, reason in ((0o666, "can be changed by all users"), (0o644, "")):
        path.chmod(mode)
        assert _reason((Checkpoint(str(path), 1.0),)) == reason
    path.chmod(0o666)
    (private := visible / "private").mkdir(mode=0o700)
    (private / "out").symlink_to(visible)
    through_link, upwards = (Checkpoint(str(private / name / path.name), 1.0) for name in ("out", ".."))
    for checkpoint in (through_link, upwards):
        assert _reason((checkpoint,)) == "can be changed by all users", "by way of its own folder"
    visible.chmod(0o700)
    for checkpoint in (Checkpoint(str(path), 1.0), through_link):
        assert not _reason((checkpoint,))
    os.link(path, other := visible / "other")
    assert _reason((Checkpoint(str(path), 1.0),)) == "can be changed by all users", "by way of the other link"
    other.unlink()
    (inner := visible / "inner").mkdir(mode=0o755)
    path.rename(inner / path.name)
    moved = Checkpoint(str(inner / path.name), 1.0)
    assert _reason((moved,)) == "can be changed by all users", "by whom had entered it before"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_a_file_that_a_group_can_change_is_loaded_only_if_its_folder_is_shared_with_the_group(visible: Path) -> None:
    path = visible / "runs" / "model.pt"
    path.parent.mkdir()
    path.write_bytes(b"state")
    for item in (path, path.parent):
        os.chown(item, -1, 65534)
    for folder_mode, mode, reason in (
        (0o2755, 0o664, "can be changed by its group, unlike its folder: use umask 022, or chmod g+w the folder"),
        (0o2755, 0o644, ""),
        (0o2775, 0o664, ""),
        (0o3775, 0o664, "can be changed by its group, unlike its folder: use umask 022, or chmod g+w the folder"),
        (0o2750, 0o664, "can be changed by its group, unlike its folder: use umask 022, or chmod g+w the folder"),
        (0o2700, 0o664, ""),
    ):
        path.parent.chmod(folder_mode)
        path.chmod(mode)
        assert _reason((Checkpoint(str(path), 1.0),)) == reason


def test_a_pipe_is_not_opened_to_see_whether_it_is_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert _reason((Checkpoint(str(path), 1.0),)).endswith("cannot be read: not a regular file")
    with pytest.raises(OSError, match="No such device or address"):
        os.open(path, os.O_WRONLY | os.O_NONBLOCK)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_nothing_continues_from_a_file_of_another_user(tmp_path: Path) -> None:
    planted = tmp_path / "model_2.pt"
    planted.write_bytes(b"state")
    saved = (Checkpoint(str(planted), 1.0, 5, planted.stat().st_ino),)
    os.chown(planted, 1, 1)
    for mode in (0o1777, 0o777, 0o775, 0o755):
        tmp_path.chmod(mode)
        assert _reason(saved).removeprefix(f"could be replaced: {planted} ") == "belongs to daemon"
    os.chown(planted, 65534, -1)
    for mode in (0o777, 0o1777, 0o2775):
        tmp_path.chmod(mode)
        reason = _reason(saved).removeprefix(f"could be replaced: {planted} ")
        assert reason == ("belongs to nobody" if mode != 0o2775 else "")
    assert not _reason(saved), "root's own on a disk that maps root to nobody"
    (theirs := tmp_path / "elsewhere" / "theirs").parent.mkdir()
    theirs.symlink_to(tmp_path)
    linked = (structs.replace(saved[0], path=str(theirs / planted.name)),)
    assert not _reason(linked)
    os.lchown(theirs, 1, 1)
    assert _reason(linked) == f"could be replaced: {theirs} belongs to daemon"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_nothing_continues_from_a_path_that_another_user_can_lead_elsewhere(tmp_path: Path) -> None:
    """The kernel follows a link before it goes up; `/proc/self` is another process for the script that loads the file."""
    (saved := tmp_path / "model_2.pt").write_bytes(b"state")
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    (theirs / "inner").mkdir(parents=True)
    (theirs / saved.name).symlink_to(saved)
    link.symlink_to(theirs / "inner")
    os.chown(theirs, 1, -1)
    assert not _reason((Checkpoint(str(theirs / ".." / saved.name), 1.0),), Trust((str(theirs),)))
    assert (
        _reason((Checkpoint(str(link / ".." / saved.name), 1.0),)) == f"could be replaced: {theirs} belongs to daemon"
    )
    assert _reason((Checkpoint(f"/proc/self/root{saved}", 1.0),)) == "is in /proc, where no script saves"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
@pytest.mark.parametrize("is_folder", [False, True])
def test_no_link_of_another_user_hides_a_renamed_file(tmp_path: Path, is_folder: bool) -> None:
    """In a folder like `/tmp`, under the old name and under others."""
    (shared := tmp_path / "scratch").mkdir()
    shared.chmod(0o1777)
    before, after = shared / "step.tmp", shared / "step"
    path = before / "state.pt" if is_folder else before
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"state")
    status = path.stat()
    saved = Checkpoint(str(path), status.st_mtime, 5, status.st_ino, status.st_mtime_ns)
    before.rename(after)
    for link in (before, *(shared / f"{number}" for number in range(20))):
        link.symlink_to(after)
        os.lchown(link, 1, 1)
    found = newest_intact((saved,), _TRUST)
    assert isinstance(found, Checkpoint)
    assert found.path == str(after / "state.pt" if is_folder else after)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_who_owns_a_folder_on_the_way_could_replace_a_checkpoint(tmp_path: Path) -> None:
    """Owners of a group's folder, and of what runs, are trusted: a lab's shared disk, and a container that runs as root."""
    folder = tmp_path / "theirs"
    saved = folder / "runs" / "model_2.pt"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(b"state")
    os.chown(folder, 1, os.getegid())
    checkpoints = (Checkpoint(str(saved), 1.0),)
    for mode, doubted in ((0o1777, True), (0o755, True), (0o2775, False)):
        folder.chmod(mode)
        assert bool(_reason(checkpoints)) is doubted
    tmp_path.chmod(0o1777)
    assert _reason(checkpoints) == f"could be replaced: {folder} belongs to daemon"
    folder.chmod(0o755)
    os.chown(saved.parent, 1, os.getegid())
    saved.parent.chmod(0o2775)  # the group's, but inside a folder of one member in a folder of all users
    assert _reason(checkpoints) == f"could be replaced: {folder} belongs to daemon"
    os.chown(saved.parent, 0, 0)
    assert not _reason(checkpoints, Trust((str(folder / "train.py"),)))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_in_a_user_namespace_only_root_is_trusted_of_the_users_unknown_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a rootless container, the files of root and of all other users seem to be nobody's."""
    monkeypatch.setattr(ownership, "_user_map", lambda: [[1000, 1000, 1]])
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    saved = folder / "model_2.pt"
    saved.write_bytes(b"state")
    checkpoints, run = (Checkpoint(str(saved), 1.0),), Trust((str(tmp_path / "runs" / "train.py"),))
    os.chown(folder.parent, 65534, -1)
    for trust in (Trust(), run):
        assert not _reason(checkpoints, trust)
        tmp_path.chmod(0o1777)
        assert _reason(checkpoints, trust) == f"could be replaced: {folder.parent} belongs to nobody"
        tmp_path.chmod(0o755)
    os.chown(saved, 65534, -1)
    assert _reason(checkpoints, run) == "belongs to nobody"
    monkeypatch.setattr(
        ownership, "_user_map", lambda: [[0, 1000, 1], [1, 100000, 65536]]
    )  # as Podman's, with a nobody
    assert _reason(checkpoints, run) == "belongs to nobody"
    os.chown(saved, 0, -1)
    assert _reason(checkpoints, run) == f"could be replaced: {folder.parent} belongs to nobody"
    monkeypatch.setattr(ownership, "_user_map", lambda: [[0, 0, 2**32 - 1]])
    assert not _reason(checkpoints, run)


def test_nothing_continues_from_a_log_even_in_a_copy_of_its_session(tmp_path: Path) -> None:
    """On the session's machine, a node chooses the bytes of its workers' logs, and may report them as checkpoints."""
    log = tmp_path / "backup" / "sim-1" / "logs" / "n1" / "gpu0.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"a pickle")
    saved, trust = (Checkpoint(str(log), 1.0),), Trust(marks=("session.json", "engine.log"))
    assert not _reason(saved, trust)
    for mark in trust.marks:
        (tmp_path / "backup" / "sim-1" / mark).touch()
    assert "is in a session's folder" in _reason(saved, trust)
    (tmp_path / "backup" / "sim-1").chmod(0o1777)
    assert not _reason(saved, trust), "others could have moved this user's files there"
    (tmp_path / "backup" / "sim-1").chmod(0o700)
    if os.getuid() == 0:  # another user makes any shared folder above look like a session's
        os.chown(tmp_path / "backup" / "sim-1" / trust.marks[0], 1, 1)
        assert not _reason(saved, trust)


def _reason(saved: tuple[Checkpoint, ...], trust: Trust = _TRUST) -> str:
    """Why the newest checkpoint cannot be used; empty if it can."""
    found = newest_intact(saved, trust)
    return found.removeprefix(f"it started from the beginning: {saved[-1].path} ") if isinstance(found, str) else ""


def test_a_node_cannot_claim_any_file_that_is_written_later(tmp_path: Path) -> None:
    """Such as another job's checkpoint."""
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "x")
    status, refusal = path.stat(), "is another file than n1 has reported"
    inode, size, mtime = status.st_ino, status.st_size, status.st_mtime_ns
    for node, claim, reason in (
        *(("", (None, 1, 0), ""), ("n1", (None, 1, 0), refusal), ("n1", (None, inode, 0), "")),
        *(("n1", (1, inode, 1), ""), ("n1", (1, 1, 1), refusal), ("n1", (size, 1, 1), refusal)),
        *(("n1", (size, 1, mtime), ""), ("n1", (size, 0, 0), refusal), ("n2", (1, 1, 1), "")),
    ):
        size_bytes, number, mtime_ns = claim
        saved = Checkpoint(str(path), 1.0, size_bytes, number, mtime_ns, node=node)
        assert _reason((saved,), Trust(node="n2")) == reason, (node, claim)
