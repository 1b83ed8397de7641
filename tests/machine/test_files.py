"""Atomic writes, as for `--summary` and `report --html`: links are followed, other files than regular ones refused."""

import os
from pathlib import Path

import pytest

from gmg_tui.machine import files, toml


def test_links_are_followed_and_kept(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link, second = tmp_path / "far" / "out.json", tmp_path / "link", tmp_path / "second"
    link.symlink_to("far/out.json")
    second.symlink_to(link)
    for data in (b"into what is not there yet", b"over what is"):
        files.write_atomic(second, data)
        assert (target.read_bytes(), link.is_symlink(), second.is_symlink()) == (data, True, True)
    assert [path.name for path in target.parent.iterdir()] == ["out.json"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775])
def test_a_link_of_another_user_is_not_followed(mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    target, link, ours = tmp_path / "target", tmp_path / "link", tmp_path / "ours"
    target.write_bytes(b"kept")
    link.symlink_to(target)
    os.chown(link, 65534, -1, follow_symlinks=False)
    ours.symlink_to(link)
    (folder := tmp_path / "folder").symlink_to(tmp_path)
    os.chown(folder, 65534, -1, follow_symlinks=False)
    for path in (link, ours, *([folder / "target"] if mode & 0o2 else [])):
        with pytest.raises(PermissionError, match="a link of another user"):
            files.write_atomic(path, b"x")
    assert target.read_bytes() == b"kept"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_a_link_that_another_user_makes_at_the_last_moment_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o1777)
    target, path, lstat = tmp_path / "target", tmp_path / "report.html", Path.lstat
    target.write_bytes(b"kept")

    def then_made(each: Path) -> os.stat_result:
        try:
            return lstat(each)
        except FileNotFoundError:
            path.symlink_to(target)
            os.chown(path, 65534, -1, follow_symlinks=False)
            raise

    monkeypatch.setattr(Path, "lstat", then_made)
    files.write_atomic(path, b"x")
    assert (target.read_bytes(), path.read_bytes(), path.is_symlink()) == (b"kept", b"x", False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = " + "9" * 4000, "an integer has more than 64 bits"),
        (".".join("a" * 100_000) + " = 1", "a key has more than 32 parts"),
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("x = " + "9" * 5000, "Exceeds the limit"),
        ("a" * 1_000_000, "Expected '='"),
    ],
    ids=["integer", "key", "nested", "digits", "long"],
)
def test_wrong_toml_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        toml.parse(text)
    assert toml.parse('a.b.c = "x.y"\n[d.e]\nf = [1.5, 2]') == {"a": {"b": {"c": "x.y"}}, "d": {"e": {"f": [1.5, 2]}}}


def test_a_pipe_is_refused_and_kept(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="not a regular file"):
        files.write_atomic(fifo, b"x")
    assert fifo.is_fifo()
    assert list(tmp_path.iterdir()) == [fifo]


@pytest.mark.parametrize("missing", [",", "9" * 5000, "1,000,000"])
def test_no_script_keeps_its_log_from_being_cut(missing: str, tmp_path: Path) -> None:
    log = tmp_path / "gpu0.log"
    log.write_bytes(f"begin\n[gmg-tui] {missing} bytes are cut out here: \n".encode() + b"line\n" * 1_000_000)
    os.mkfifo(tmp_path / ".gpu0.log.cut")
    with pytest.raises(OSError, match="not a regular file"):  # at once, and removes the pipe
        files.cut_log(log, 1 << 20)
    files.cut_log(log, 1 << 20)
    assert log.stat().st_size <= 1 << 20
    with files.open_for_reading(log) as file:
        assert files.find_cut(file).missing > 4_000_000
