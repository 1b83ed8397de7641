"""Free GPUs: the definition, the wait, and leases between sessions that start at once."""

import codecs
import os
import secrets
import signal
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import MagicMock

import pytest

from gmg_tui.machine.gpu import free as leases_module
from gmg_tui.machine.gpu.free import FreeGpus, Leases, holders
from gmg_tui.machine.gpu.processes import process_text, use_of
from gmg_tui.model import Gpu, GpuProcess, GpuSample, Slot, units
from gmg_tui.model.errors import GmgError

_ROUNDS = int(os.environ.get("GMG_RACES", "100"))
SLOTS = tuple(Slot(f"gpu{index}", Gpu(index, f"GPU-{index}", "H100")) for index in range(4))


@pytest.fixture(autouse=True)
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that no other test, and no session of this machine, can have."""
    monkeypatch.setattr(leases_module, "PREFIX", f"gmg-tui-lease-{secrets.token_hex(4)}-")


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
    assert other.try_collecting(["GPU-0"])


def test_one_of_two_waiting_sessions_collects_gpus() -> None:
    in_use, other, kept = {0}, Leases(), list[bool]()
    assert other.try_collecting(["GPU-3", "GPU-7"])
    assert Leases().try_collecting(["GPU-8"])

    def pause(text: str, lines: Sequence[str]) -> None:
        kept.append(not other.acquire("GPU-3"))
        other.release(*other._held)
        if len(kept) > 1:
            in_use.clear()

    assert len(gpus(4, in_use).wait(4, 60.0, pause)) == 4
    assert kept == [False, True]


def test_a_leased_gpu_is_not_free_and_a_plain_run_shares_its_lease() -> None:
    first, second = Leases(), Leases()
    assert first.acquire("GPU-0", shared=True)
    assert second.acquire("GPU-0", shared=True)
    assert holders("GPU-0") == (os.getpid(),)
    assert not Leases().acquire("GPU-0")
    with pytest.raises(GmgError, match=r"gpu0: .*a session of gmg-tui"):
        gpus(4).wait(4, 0.0, never)
    for leases in (first, second):
        leases.release(*leases._held)
    assert not holders("GPU-0")
    assert len(gpus(4).wait(4, 0.0, never)) == 4


def test_the_number_of_sessions_that_share_a_gpu_is_limited() -> None:
    """So that nobody has to read the names of all sockets, of which another user may have any number."""
    sharing = [Leases() for _ in range(leases_module._MAX_SHARES)]
    assert all(leases.acquire("GPU-0", shared=True) for leases in sharing)
    assert not Leases().acquire("GPU-0", shared=True)
    for leases in sharing[:-1]:
        leases.release("GPU-0")
    assert not (one := Leases()).acquire("GPU-0")
    sharing[-1].release("GPU-0")
    assert one.acquire("GPU-0")
    assert not Leases().acquire("GPU-0", shared=True)


def test_a_lease_answers_however_often_it_was_asked() -> None:
    leases = Leases()
    assert leases.acquire("GPU-0")
    for _ in range(5000):
        if not holders("GPU-0"):
            break
    assert leases.acquire("GPU-0"), "hangs up, as once a second"
    assert holders("GPU-0") == (os.getpid(),)
    leases.release("GPU-0")
    leases._held["GPU-0"] = MagicMock()  # asked without end
    assert leases.acquire("GPU-0")


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


def test_of_two_starts_exactly_one_gets_the_gpus_and_a_kill_leaves_no_lease() -> None:
    leases = Leases()

    def choose() -> bool:
        try:
            return len(gpus(4, leases=leases).wait(4, 0.0, never)) == 4
        except GmgError:
            return False

    for _ in range(_ROUNDS):
        with child(choose) as first, child(choose) as second:
            for _, begin, _ in (first, second):
                os.write(begin, b".")
            reports = sorted(os.read(report, 1) for _, _, report in (first, second))
        assert reports == [b"0", b"1"]


as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")


@as_root
def test_users_lease_from_one_another() -> None:
    codecs.lookup("ascii")  # the other user may not be able to import it
    leases, others = Leases(), Leases()
    assert leases.acquire("GPU-0")

    def of_another_user() -> bool:
        os.setgid(1)
        os.setuid(1)
        return others.acquire("GPU-1") and not others.acquire("GPU-0")

    with child(of_another_user) as (pid, begin, report):
        os.write(begin, b".")
        assert os.read(report, 1000) == b"1"
        assert not leases.acquire("GPU-1")
        assert holders("GPU-1") == (pid,)
        with pytest.raises(GmgError, match="gpu1: daemon, a session of gmg-tui"):
            gpus(4, leases=leases).wait(4, 0.0, never)
    assert leases.acquire("GPU-1"), "the other user's lease has ended with its process"
