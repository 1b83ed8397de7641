"""Free GPUs: the definition, the wait, and leases between sessions that start at once."""

import codecs
import os
import signal
import stat
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from gmg_tui.machine.gpu import free as leases_module
from gmg_tui.machine.gpu.free import FreeGpus, Leases, holders
from gmg_tui.machine.gpu.processes import process_text, use_of
from gmg_tui.model import Gpu, GpuProcess, GpuSample, Slot, units
from gmg_tui.model.errors import GmgError

_ROUNDS = int(os.environ.get("GMG_RACES", "100"))
SLOTS = tuple(Slot(f"gpu{index}", Gpu(index, f"GPU-{index}", "H100")) for index in range(4))


@pytest.fixture(autouse=True)
def shared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sticky folder for the leases of all users; without root they are this user's alone."""
    (folder := tmp_path / "lock").mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(leases_module, "SHARED_FOLDERS", (folder,))
    return folder


def used(uuid: str) -> GpuSample:
    return GpuSample(uuid, memory_used_mib=31744.0, processes=(GpuProcess(1, memory_mib=31744.0, foreign=True),))


def free(uuid: str) -> GpuSample:
    return GpuSample(uuid, memory_used_mib=4.0, processes=())


def never(text: str, lines: Sequence[str]) -> None:
    raise AssertionError(text)


def names(slots: Sequence[Slot]) -> list[str]:
    return [slot.name for slot in slots]


def gpus(number: int | None, in_use: Container[int] = (), leases: Leases | None = None) -> FreeGpus:
    def read(slot: Slot) -> GpuSample:
        return (used if slot.gpu.index in in_use else free)(slot.gpu.uuid)

    return FreeGpus(SLOTS, number, 500.0, leases or Leases(), read)


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        (GpuSample("A", memory_used_mib=500.0, processes=()), None),
        (GpuSample("A", memory_used_mib=501.0, processes=()), "501 MiB in use by no known process"),
        (GpuSample("A"), None),
        (GpuSample("A", error="lost"), "lost"),
        (GpuSample("A", memory_used_mib=4.0, processes=(GpuProcess(7, foreign=True),)), "PID 7 of the host"),
        (GpuSample("A", memory_used_mib=90.0, processes=(GpuProcess(7, foreign=True, graphics=True),)), None),
        (
            GpuSample("A", memory_used_mib=900.0, processes=(GpuProcess(7, None, 900.0, foreign=True, graphics=True),)),
            "PID 7 of the host, 900 MiB",
        ),
    ],
)
def test_a_gpu_is_free_without_compute_processes_and_with_little_memory_used(sample: GpuSample, text: str) -> None:
    use = use_of(sample, 500.0)
    assert (use.text if use is not None else None) == text


def test_processes_are_named_with_user_command_memory_and_start() -> None:
    started = time.time() - 7200
    process = GpuProcess(7, "python", 31744.0, "ann", "/home/ann/venv/bin/python train.py", age_s=7200.0)
    assert process_text(process) == f"ann, python train.py, 31.0 GiB, since {units.since(started)}"
    assert len(process_text(GpuProcess(7, command="x " * 500))) < 80
    many = GpuSample("A", processes=tuple(GpuProcess(pid, foreign=True) for pid in range(1, 6)))
    assert (use := use_of(many, 0.0)) is not None
    assert use.text == "PID 1 of the host; PID 2 of the host; PID 3 of the host; 2 more"


def test_without_enough_free_gpus_the_error_lists_who_uses_the_others() -> None:
    with pytest.raises(GmgError) as caught:
        gpus(3, {1, 2}).wait(3, 0.0, never)
    lines = str(caught.value).splitlines()
    assert lines[0] == "--gpus free:3: 2 of 4 GPUs are free; --wait waits for them"
    assert lines[1:] == [f"  gpu{index}: PID 1 of the host, 31.0 GiB" for index in (1, 2)]
    assert names(gpus(None, {1, 2}).wait(1, 0.0, never)) == ["gpu0", "gpu3"]


def test_gpus_are_taken_as_they_become_free_and_changes_are_reported_once() -> None:
    in_use, told = {0, 1, 2}, list[tuple[str, ...]]()
    leases, other = Leases(), Leases()

    def pause(text: str, lines: Sequence[str]) -> None:
        assert not other.acquire("GPU-3"), "it is kept during the wait"
        told.append((text, *lines))
        if len(told) > 1:
            in_use.discard(1)

    taken = gpus(2, in_use, leases).wait(2, 60.0, pause)
    assert names(taken) == ["gpu1", "gpu3"]
    waiting = "1 of 2 GPUs is free; waiting (ctrl+c cancels)"
    assert told == [(waiting, waiting, *(f"gpu{index}: PID 1 of the host, 31.0 GiB" for index in range(3))), (waiting,)]
    assert other.acquire("GPU-0")
    assert other.may_collect(["GPU-0"])


def test_one_of_two_waiting_sessions_collects_gpus() -> None:
    in_use, other, kept = {0}, Leases(), list[bool]()
    assert other.may_collect(["GPU-3", "GPU-7"])
    assert Leases().may_collect(["GPU-8"])

    def pause(text: str, lines: Sequence[str]) -> None:
        kept.append(not other.acquire("GPU-3"))
        other.release(*other._held)
        if len(kept) > 1:
            in_use.clear()

    assert len(gpus(4, in_use).wait(4, 60.0, pause)) == 4
    assert kept == [False, True]


def test_a_leased_gpu_is_not_free_and_a_plain_run_shares_its_lease(shared_folder: Path) -> None:
    first, second = Leases(), Leases()
    assert first.acquire("GPU-0", shared=True)
    assert second.acquire("GPU-0", shared=True)
    if os.getuid() == 0:
        assert holders("GPU-0") == (os.getpid(),)
    with pytest.raises(GmgError, match=r"gpu0: .*a session of gmg-tui"):
        gpus(4).wait(4, 0.0, never)
    for leases in (first, second):
        leases.release(*leases._held)
    assert not list(shared_folder.iterdir()), "no file is left"
    assert len(gpus(4).wait(4, 0.0, never)) == 4


def test_a_lock_on_another_file_system_is_not_a_lease(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leases, locks = Leases(), shared_folder / "locks"
    assert leases.acquire("GPU-0")
    about = next(shared_folder.iterdir()).stat()
    device = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}"
    locks.write_text(
        "".join(
            f"{pid}: FLOCK  ADVISORY  WRITE {pid} {where}:{about.st_ino} 0 EOF\n"
            for pid, where in ((1, "ff:ff"), (2, device))
        )
    )
    monkeypatch.setattr(leases_module, "_LOCKS", locks)
    assert holders("GPU-0") == (2,)
    leases.release(*leases._held)


@contextmanager
def child(run: Callable[[], bool]) -> Iterator[tuple[int, int, int]]:
    """Fork a process that reports `run` and waits: its PID, the pipe that starts it, and the one with its report."""
    (start, begin), (report, tell) = os.pipe(), os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.read(start, 1)
            os.write(tell, b"1" if run() else b"0")
            signal.pause()
        except BaseException as error:
            os.write(tell, repr(error).encode())
        finally:
            os._exit(1)
    os.close(start)
    os.close(tell)
    try:
        yield pid, begin, report
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(begin)
        os.close(report)


@pytest.mark.parametrize("private", [False, True])
def test_of_two_starts_exactly_one_gets_the_gpus_and_a_kill_leaves_no_lease(
    private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if private:
        monkeypatch.setattr(leases_module, "SHARED_FOLDERS", ())

    def choose() -> bool:
        try:
            return len(gpus(4).wait(4, 0.0, never)) == 4
        except GmgError:
            return False

    for _ in range(_ROUNDS):
        with child(choose) as first, child(choose) as second:
            for _, begin, _ in (first, second):
                os.write(begin, b".")
            reports = sorted(os.read(report, 1) for _, _, report in (first, second))
        assert reports == [b"0", b"1"]


def test_files_of_another_user_are_not_used(shared_folder: Path, tmp_path: Path) -> None:
    own = leases_module._file(shared_folder, "GPU-0")
    (target := tmp_path / "target").write_text("")
    for put in (
        lambda: own.symlink_to(target),
        lambda: os.link(target, own),
        lambda: os.mkfifo(own),
        lambda: own.mkdir(),
        lambda: own.write_text("no lease"),
    ):
        put()
        leases = Leases()
        assert leases.acquire("GPU-0"), "in the user's own folder"
        assert not Leases().acquire("GPU-0")
        leases.release(*leases._held)
        assert stat.S_IFMT(own.lstat().st_mode), "not removed"
        own.rmdir() if own.is_dir() else own.unlink()
    shared_folder.chmod(0o777)  # others could replace files
    assert Leases().acquire("GPU-0")
    assert not list(shared_folder.iterdir())


as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")


@as_root
def test_a_moved_file_is_not_removed(shared_folder: Path, tmp_path: Path) -> None:
    own, moved = leases_module._file(shared_folder, "GPU-0"), tmp_path / "passwd"
    for file in (own, moved):
        file.touch(0o444)
        os.chown(file, 1, 1)
    leases = Leases()
    assert leases.acquire("GPU-0")
    own.rename(moved)
    leases.release(*leases._held)
    assert moved.exists()


@as_root
def test_users_agree_on_the_files_of_leases_and_learn_who_blocks_them(shared_folder: Path) -> None:
    own = leases_module._file(shared_folder, "GPU-0")
    own.touch()
    os.chown(own, 1, 1)
    own.chmod(0o600)
    leases = Leases()
    assert leases.acquire("GPU-0")
    assert own.exists()
    assert leases.warning == f"leases of GPUs do not bind other users: {own} of daemon is in the way"
    assert leases.acquire("GPU-1")
    assert leases.warning


@as_root
def test_users_lease_from_one_another(shared_folder: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)
    codecs.lookup("ascii")  # the other user may not be able to import it
    leases = Leases()
    assert leases.acquire("GPU-0")

    def of_another_user() -> bool:
        os.setgid(1)
        os.setuid(1)
        others = Leases()
        return others.acquire("GPU-1") and not others.acquire("GPU-0")

    with child(of_another_user) as (pid, begin, report):
        os.write(begin, b".")
        assert os.read(report, 1000) == b"1"
        assert not leases.acquire("GPU-1")
        assert holders("GPU-1") == (pid,)
        with pytest.raises(GmgError, match="gpu1: daemon, a session of gmg-tui"):
            gpus(4, leases=leases).wait(4, 0.0, never)
    assert leases_module._file(shared_folder, "GPU-1").stat().st_uid == 1
    assert leases.acquire("GPU-1"), "the other user's file is still there, its lease is not"
