"""What `--summary` and `report --html` name may be a link, a pipe or a device: nothing takes its place."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gmg_tui import files
from gmg_tui import session as sessions
from tests.engine.harness import FAKE

from .patience import wait_until

_FAST = ("--plain", "--phase-s", "0", "--lines", "3", "--rate", "1000")


def _gmg(*words: str) -> list[str]:
    return [sys.executable, "-m", "gmg_tui", *words]


def _run(summary: str) -> list[str]:
    return _gmg("--cpu", "1", "--headless", "--summary", summary, FAKE, *_FAST)


def _from_fifo(path: Path, taken: list[bytes]) -> threading.Thread:
    """A thread that reads all that comes out of a FIFO."""
    thread = threading.Thread(target=lambda: taken.append(path.read_bytes()), daemon=True)
    thread.start()
    return thread


@pytest.fixture
def null(tmp_path: Path) -> Path:
    """A character device that takes everything."""
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        path.write_bytes(b"")
    except PermissionError:
        pytest.skip("device nodes cannot be made here")
    return path


def test_a_device_stays_what_it_is(null: Path) -> None:
    before = null.stat()
    assert files.write_where_asked(null, b"much" * 9999) is False
    after = null.stat()
    assert (after.st_ino, after.st_mode, after.st_rdev) == (before.st_ino, before.st_mode, before.st_rdev)
    assert list(null.parent.iterdir()) == [null]


def test_links_are_followed_and_stay(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link, second = tmp_path / "far" / "out.json", tmp_path / "link", tmp_path / "second"
    link.symlink_to("far/out.json")
    second.symlink_to(link)
    for data in (b"into what is not there yet", b"over what is"):
        assert files.write_where_asked(second, data) is True
        assert (target.read_bytes(), link.is_symlink(), second.is_symlink()) == (data, True, True)
    assert [path.name for path in target.parent.iterdir()] == ["out.json"]


def test_a_pipe_gets_all_of_it_and_one_that_nobody_reads_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_READER_S", 0.2)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="No such device"):
        files.write_where_asked(fifo, b"x")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(TimeoutError):
        files.write_where_asked(fifo, b"x" * (1 << 20))
    os.close(reader)
    taken: list[bytes] = []
    thread = _from_fifo(fifo, taken)
    monkeypatch.setattr(files, "_READER_S", 10.0)
    files.write_where_asked(fifo, b"x" * (1 << 20))
    thread.join(60)
    assert taken == [b"x" * (1 << 20)]
    assert fifo.is_fifo()


def test_a_block_device_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    monkeypatch.setattr(files, "is_replaced", lambda _: False)
    disk.touch()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: os.stat_result((stat.S_IFBLK, *[0] * 9)))
    with pytest.raises(OSError, match="block device"):
        files.write_where_asked(disk, b"x")


@pytest.mark.parametrize("redirected", ["pipe", "file"])
def test_a_summary_on_standard_output_comes_last_and_takes_nothings_place(redirected: str, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    with out.open("wb") as file:
        done = subprocess.run(
            _run("/dev/stdout"), stdout=subprocess.PIPE if redirected == "pipe" else file, stderr=subprocess.PIPE
        )
    assert (done.stderr, done.returncode) == (b"", 0)
    text = (done.stdout if redirected == "pipe" else out.read_bytes()).decode()
    before, brace, rest = text.partition("\n{\n")
    assert "cpu0 │ step 2" in before
    assert before.rstrip().endswith("/logs/")
    assert json.loads(brace + rest)["workers"][0]["state"] == "finished"


def test_a_summary_into_a_pipe_is_written_once(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    taken: list[bytes] = []
    thread = _from_fifo(fifo, taken)
    done = subprocess.run(_run(str(fifo)), capture_output=True)
    thread.join(60)
    assert (done.stderr, done.returncode) == (b"", 0)
    assert json.loads(taken[0])["workers"][0]["state"] == "finished"
    assert fifo.is_fifo()


def test_a_summary_into_a_pipe_that_nobody_reads_does_not_keep_the_engine(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert subprocess.run(_run(str(fifo)), capture_output=True).returncode == 0
    wait_until(lambda: sessions.find(None, running=False).state == "ended")


def test_a_page_on_standard_output_is_nothing_but_the_page(null: Path) -> None:
    assert subprocess.run(_run(str(null)), capture_output=True).returncode == 0
    page = subprocess.run(_gmg("report", "--html", "/dev/stdout"), capture_output=True)
    assert page.returncode == 0
    assert page.stdout.lstrip().lower().startswith(b"<!doctype html>")
    assert page.stdout.rstrip().lower().endswith(b"</html>")
    written = subprocess.run(_gmg("report", "--html", str(null)), capture_output=True)
    assert (written.stdout, written.returncode) == (b"", 0)
    assert stat.S_ISCHR(null.stat().st_mode)
