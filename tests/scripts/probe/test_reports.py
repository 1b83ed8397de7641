"""The probe's reports of metrics and saved files."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.model import Checkpoint
from gmg_tui.scripts.probe.reports import MAX_RECORDS, Metric, ReportFile, Reports, SavedFiles, opened
from gmg_tui.scripts.probe.site import gmg_reports as ring

from .scripts import Sandbox

WRITER = "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()\n"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    for name, text in {
        "torch/__init__.py": "from torch.serialization import save\n",
        "torch/serialization.py": "def save(obj, f, x=0):\n  (open(f, 'wb') if hasattr(f, '__fspath__') or type(f) is str else f).write(obj)\n",
        "torch/utils/__init__.py": "",
        "torch/utils/tensorboard/__init__.py": "from torch.utils.tensorboard.writer import SummaryWriter\n",
        "torch/utils/tensorboard/writer.py": """
class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None): 'Add.'
    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None): pass
""",
    }.items():
        file = sandbox.packages / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return sandbox


def test_names_that_the_probe_cannot_have_written_are_ignored(tmp_path: Path) -> None:
    """256 of them, of 64 kB each, would make a snapshot that no client takes: nobody could stop the session."""
    data, end = bytearray(ring.CAPACITY), 0
    for number, size in enumerate((ring.MAX_NAME_BYTES, ring.MAX_NAME_BYTES + 8, 65_000)):
        whole = (ring.RECORD.size + size + 7) & ~7
        data[end : end + ring.RECORD.size] = ring.RECORD.pack(whole, number, number, 1.5, 1)
        data[end + ring.RECORD.size : end + ring.RECORD.size + size] = b"x" * size
        end += whole
    (tmp_path / f"1{ring.SUFFIX}").write_bytes(ring.HEADER.pack(ring.MAGIC, end, 0, 3) + data)
    reports, folder = Reports(), os.open(tmp_path, os.O_RDONLY)
    try:
        reports.add(f"1{ring.SUFFIX}")
        assert [len(each.name) for each in reports.read(folder)[0]] == [ring.MAX_NAME_BYTES]
    finally:
        os.close(folder)


def test_many_full_files_are_read_in_turn(tmp_path: Path) -> None:
    """Hundreds of thousands of records at once would stop the engine for seconds."""
    size = ring.RECORD.size + 8
    count = ring.CAPACITY // size
    data = b"".join(ring.RECORD.pack(size, number, 0, 1.5, 1) + b"name\0\0\0\0" for number in range(count))
    header = ring.HEADER.pack(ring.MAGIC, count * size, 0, count)
    reports, folder = Reports(), os.open(tmp_path, os.O_RDONLY)
    for pid in range(1, 9):
        (tmp_path / f"{pid}{ring.SUFFIX}").write_bytes(header + data.ljust(ring.CAPACITY, b"\0"))
        reports.add(f"{pid}{ring.SUFFIX}")
    reads = [len(reports.read(folder)[0]) for _ in range(9)]
    os.close(folder)
    assert max(reads) < 3 * MAX_RECORDS
    assert sum(reads) == 8 * count, "each file has its turn"


def reported(sandbox: Sandbox) -> tuple[list[Metric], list[Checkpoint], int]:
    """Returns the metrics and files of all processes, and the number of lost records."""
    reports, folder = Reports(), os.open(sandbox.folder, os.O_RDONLY)
    try:
        for path in sandbox.folder.iterdir():
            reports.add(path.name)
        return *reports.read(folder), reports.lost
    finally:
        os.close(folder)


def test_metrics_are_reported_with_name_value_and_step(sandbox: Sandbox) -> None:
    code = """
class Tensor:
    def item(self): return 2.5
    def __float__(self): raise RuntimeError
writer.add_scalar("Train/mean_reward", Tensor(), 7)
writer.add_scalar(tag="loss", scalar_value=float("nan"))
writer.add_scalars("reward", {"walk": 1, "fall": -1}, 8)
writer.add_scalar("text", "none")
print(writer.add_scalar.__doc__)
"""
    assert sandbox.run(WRITER + code) == "Add.\n"
    metrics, _, lost = reported(sandbox)
    assert lost == 0
    assert [each[::2] for each in metrics] == [
        ("Train/mean_reward", 7),
        ("loss", None),
        ("reward/walk", 8),
        ("reward/fall", 8),
    ]
    assert [str(each[1]) for each in metrics] == ["2.5", "nan", "1.0", "-1.0"]


def test_saved_files_are_reported_once_their_call_has_returned(sandbox: Sandbox, tmp_path: Path) -> None:
    code = """
import os, io, pathlib, torch
torch.save(b"12345", "model_1.pt")
torch.save(b"12345678", pathlib.Path("model_2.pt"))
with open("model_3.pt", "wb") as file: torch.save(obj=b"1", f=file)
torch.save(b"1", io.BytesIO())
try: torch.save(b"1", "no folder/model.pt")
except OSError: print("raised")
"""
    assert sandbox.run(f"import os; os.chdir({str(tmp_path)!r})\n" + code) == "raised\n"
    files = reported(sandbox)[1]
    assert [(Path(each.path).name, each.size_bytes) for each in files] == [
        ("model_1.pt", 5),
        ("model_2.pt", 8),
        ("model_3.pt", None),
    ]
    written = [Path(each.path).stat() for each in files]
    assert [each.inode for each in files] == [each.st_ino for each in written]
    assert [each.mtime_ns for each in files[:2]] == [each.st_mtime_ns for each in written[:2]]


def test_a_file_saved_by_each_of_many_processes_is_reported(sandbox: Sandbox, tmp_path: Path) -> None:
    """As trainers do that save in the background; memory holds one small file, not one per process."""
    code = """
import os, torch
for number in range(200):
    if os.fork() == 0:
        torch.save(b"1", f"model_{number}.pt")
        os._exit(0)
    os.wait()
"""
    sandbox.run(f"import os; os.chdir({str(tmp_path)!r})\n" + code)
    assert [Path(each.path).name for each in reported(sandbox)[1]] == [f"model_{number}.pt" for number in range(200)]
    assert sum(path.stat().st_size for path in sandbox.folder.iterdir()) < 100_000


def test_saved_files_are_reported_when_the_disk_is_full(sandbox: Sandbox, tmp_path: Path) -> None:
    """The file keeps its first page; a limit on file sizes stands for the full disk."""
    (sandbox.folder / ring.SAVED).write_bytes(b"\0")
    code = """
import resource, torch
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for number in range(100): torch.save(b"1", f"model_{number}.pt")
"""
    sandbox.run(f"import os; os.chdir({str(tmp_path)!r})\n" + code)
    assert Path(reported(sandbox)[1][-1].path).name == "model_99.pt"


def test_the_report_of_saved_files_starts_again_when_it_is_long(sandbox: Sandbox, tmp_path: Path) -> None:
    saved, folder = SavedFiles(), os.open(sandbox.folder, os.O_RDONLY)
    script = f"import os; os.chdir({str(tmp_path)!r})\nimport torch\n"
    sandbox.run(script + "torch.save(b'1', 'first.pt')")
    names = [Path(each.path).name for each in read_all(saved, folder)]
    with (sandbox.folder / ring.SAVED).open("ab") as file:
        file.write(b"x" * ring.MAX_SAVED_BYTES + b"\nstate -1 0 5 1 1 2f61")  # the last line is incomplete
    names += [Path(each.path).name for each in read_all(saved, folder)]
    sandbox.run(script + "torch.save(b'1', 'second.pt')")
    names += [Path(each.path).name for each in read_all(saved, folder)]
    os.close(folder)
    assert names == ["first.pt", "second.pt"]
    assert (sandbox.folder / ring.SAVED).stat().st_size < 1000


def read_all(saved: SavedFiles, folder: int) -> list[Checkpoint]:
    """Returns the new reports, in as many reads as the longest file needs."""
    with opened(ring.SAVED, folder) as descriptor:
        return [each for _ in range(6) for each in saved.read(descriptor)]


@given(
    st.lists(
        st.binary(max_size=60)
        | st.tuples(*[st.integers(-2, 2**63)] * 5, st.binary(max_size=20)).map(
            lambda row: f"state {' '.join(map(str, row[:5]))} {row[5].hex()}".encode()
        )
    )
)
def test_hostile_lines_of_saved_files_are_ignored(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    folder = os.open(tmp_path_factory.getbasetemp(), os.O_RDONLY)
    (tmp_path_factory.getbasetemp() / ring.SAVED).write_bytes(b"\n".join([*lines, b"state 5 6 7 8 9 2f61", b""]))
    files = read_all(SavedFiles(), folder)
    os.close(folder)
    assert files[-1].path == "/a"
    assert all(each.path.startswith("/") and 0 <= each.inode < 2**62 for each in files)


def test_a_full_ring_loses_the_oldest_records_and_counts_them(sandbox: Sandbox) -> None:
    sandbox.run(WRITER + "for step in range(50_000): writer.add_scalar('name' * (1 + step % 50), step, step)\n")
    metrics, _, lost = reported(sandbox)
    steps = [each.step for each in metrics]
    assert steps == list(range(lost, 50_000))
    assert lost > 0


def test_threads_forks_signals_and_a_full_disk_do_not_disturb(sandbox: Sandbox) -> None:
    code = """
import os, signal, threading
def many(name):
    for step in range(1000): writer.add_scalar(name, step, step)
signal.signal(signal.SIGALRM, lambda *_: writer.add_scalar("signal", 1))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
threads = [threading.Thread(target=many, args=(str(n),)) for n in range(4)]
for thread in threads: thread.start()
many("main")
for thread in threads: thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
if os.fork() == 0:
    writer.add_scalar("child", 1)
    os._exit(0)
os.wait()
"""
    assert sandbox.run(WRITER + code) == ""
    names = [each.name for each in reported(sandbox)[0]]
    assert names.count("child") == 1
    assert set(names) >= {"main", "0", "1", "2", "3", "child"}
    assert len(list(sandbox.folder.glob(f"*{ring.SUFFIX}"))) == 2
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    assert sandbox.run(WRITER + limited + "writer.add_scalar('a', 1); print('fine')\n") == "fine\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ring") / f"1{ring.SUFFIX}"
    path.write_bytes(bytes(ring.HEADER.size + ring.CAPACITY))
    return path


@given(
    header=st.tuples(*(st.integers(-10, 2**63 - 1) | st.integers(0, ring.CAPACITY) for _ in range(3))),
    content=st.binary(max_size=300),
    sizes=st.lists(st.integers(0, 2**16 - 1), max_size=3),
)
def test_a_hostile_file_is_read_without_an_error(
    file: Path, header: tuple[int, int, int], content: bytes, sizes: list[int]
) -> None:
    fake = b"".join(ring.RECORD.pack(size, 0, -5, math.inf, -1) for size in sizes)
    with file.open("r+b") as opened:
        opened.write(ring.HEADER.pack(ring.MAGIC, *header) + fake + content)
    descriptor, reader = os.open(file, os.O_RDONLY), ReportFile()
    for _ in range(2):
        assert all(each.at >= 0 for each in reader.read(descriptor))
    os.close(descriptor)
