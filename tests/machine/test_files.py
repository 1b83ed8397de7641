"""What `--summary` and `report --html` name may be a link, which is followed; anything but a file is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gmg_tui.machine import files


def test_links_are_followed_and_kept(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link, second = tmp_path / "far" / "out.json", tmp_path / "link", tmp_path / "second"
    link.symlink_to("far/out.json")
    second.symlink_to(link)
    for data in (b"into what is not there yet", b"over what is"):
        files.write_atomic(second, data)
        assert (target.read_bytes(), link.is_symlink(), second.is_symlink()) == (data, True, True)
    assert [path.name for path in target.parent.iterdir()] == ["out.json"]


def test_a_pipe_is_refused_and_kept(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="not a regular file"):
        files.write_atomic(fifo, b"x")
    assert fifo.is_fifo()
    assert list(tmp_path.iterdir()) == [fifo]
