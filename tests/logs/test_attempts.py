"""Finds where an attempt begins in a log."""

from __future__ import annotations

import io

import pytest

from gmg_tui.logs import attempts


def test_an_attempt_begins_behind_its_line_and_the_first_one_with_the_log() -> None:
    second, third = attempts.first_line(2, ("-B", "8")), attempts.first_line(3, (), job="job 4 · lr · attempt 2 · x")
    log = b"one\n" + second + b"two\n" + third + b"three\n"
    assert attempts.find(io.BytesIO(log), 1) == 0
    assert attempts.find(io.BytesIO(log), 2) == log.index(b"two")
    assert attempts.find(io.BytesIO(log), 3) == log.index(b"three")
    assert attempts.find(io.BytesIO(log), 4) is None
    assert attempts.find(io.BytesIO(second), 2) == len(second)
    assert attempts.find(io.BytesIO(b""), 2) is None


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 64])
def test_a_line_is_found_wherever_a_block_ends(block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_BLOCK_BYTES", block_bytes)
    second = attempts.first_line(2, ("--name", "ü"))
    for before in range(20):
        log = b"x" * before + b"\n" + second + b"two\n"
        assert attempts.find(io.BytesIO(log), 2) == log.index(b"two")


def test_what_only_looks_like_its_line_is_none() -> None:
    second = attempts.first_line(2, ())
    sign = second[: second.index(b"attempt")]
    log = b"".join((b"> ", second, sign, b"attempt 2\n", sign, b"attempt \xff \n", sign * 3, b"\n", second[:-12]))
    assert attempts.find(io.BytesIO(log), 2) is None
