"""What folders take on the disk, and their removal: hostile ones too."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gmg_tui.folder_tree import FOLDER, Size, measure, remove_content

_FILE_BYTES = 100_000
_MOUNTED = """
import os, sys
from pathlib import Path
from gmg_tui.folder_tree import FOLDER, Size, remove_content
folder = Path(sys.argv[1])
size = Size(folder)
while size.step(): pass
troubles = remove_content(os.open(folder, FOLDER), lambda: None, keep="")
print(size.mounted, len(troubles), sorted(path.name for path in folder.rglob("*") if path.is_file()))
"""


def _file(path: Path) -> int:
    """Write a file; what it takes on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * _FILE_BYTES)
    return path.stat().st_blocks * 512


def _whole(folder: Path) -> Size:
    size = Size(folder)
    while size.step():
        pass
    return size


def _emptied(folder: Path, keep: str = "") -> list[OSError]:
    descriptor = os.open(folder, FOLDER)
    try:
        return remove_content(descriptor, lambda: None, keep=keep)
    finally:
        os.close(descriptor)


def test_a_file_counts_once_and_what_a_link_leads_to_not_at_all(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    each = _file(outside / "large")
    assert _file(folder / "jobs" / "a" / "one") == _file(folder / "log") == each
    os.link(folder / "log", folder / "again")
    (folder / "to-all").symlink_to("/")
    (folder / "to-file").symlink_to(outside / "large")
    size = _whole(folder)
    assert size.complete
    assert 2 * each <= size.bytes < 3 * each
    assert size.below("jobs") == {"a": each}
    assert size.below()["jobs"] == each


def test_what_is_no_folder_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    for path in (tmp_path / "link", tmp_path / "missing"):
        size = _whole(path)
        assert (size.complete, size.bytes, size.text) == (False, 0, "–")


def test_small_folders_are_not_kept_waiting_by_a_large_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        _file(tmp_path / "large" / str(number) / "file")
    _file(tmp_path / "small" / "file")
    looks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(looks)))
    large, small = measure([tmp_path / "large", tmp_path / "small"], timeout_s=12.0)
    assert small.complete
    assert not large.complete
    assert large.text == "–" or large.text.startswith("> ")


def test_everything_goes_however_deep_and_nothing_that_a_link_leads_to(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    _file(outside / "kept")
    _file(folder / "a" / "engine.log")
    _file(folder / "engine.log")
    (folder / "a" / "to-all").symlink_to("/")
    (folder / "to-outside").symlink_to(outside)
    (folder / "a" / "to-kept").symlink_to(outside / "kept")
    os.link(outside / "kept", folder / "a" / "also-kept")
    os.mkfifo(folder / "pipe")
    deepest = os.open(folder, FOLDER)
    for _ in range(3000):  # far beyond the longest path, and beyond what may be open at once
        os.mkdir("d", dir_fd=deepest)
        deeper = os.open("d", FOLDER, dir_fd=deepest)
        os.close(deepest)
        deepest = deeper
    os.close(deepest)
    assert _emptied(folder, keep="engine.log") == []
    assert [path.name for path in folder.iterdir()] == ["engine.log"]
    assert (outside / "kept").stat().st_size == _FILE_BYTES


def test_a_folder_that_a_script_has_protected_goes_too(tmp_path: Path) -> None:
    for mode in (0o000, 0o555):
        _file(tmp_path / f"{mode}" / "inner" / "file")
        (tmp_path / f"{mode}" / "inner").chmod(mode)
        (tmp_path / f"{mode}").chmod(mode)
    program = (
        "import os, sys; from gmg_tui.folder_tree import FOLDER, remove_content\n"
        "print(remove_content(os.open(sys.argv[1], FOLDER), lambda: None, keep=''))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    if os.getuid() == 0:  # whom no mode stops
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *command]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", ["tmpfs", "bind"])
def test_another_file_system_below_it_is_seen_and_stays(tmp_path: Path, source: str) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    _file(folder / "jobs" / "file")
    _file(other / "kept")
    mount = f"mount --bind {other}" if source == "bind" else "mount -t tmpfs tmpfs"
    kept = f"touch {folder}/jobs/kept" if source == "tmpfs" else "true"
    script = f'{mount} {folder}/jobs && {kept} && exec "$0" -c "$1" {folder}'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, sys.executable, _MOUNTED]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(done.stderr)
    seen = str(folder / "jobs") if source == "tmpfs" else "None"
    assert done.stdout == f"{seen} 1 ['kept']\n", done.stderr
