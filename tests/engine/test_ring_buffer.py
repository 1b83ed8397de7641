"""The kept lines: numbered for ever, bounded always."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.output.ring_buffer import RingBuffer
from gmg_tui.text import MAX_LINE_BYTES


def test_lines_keep_their_numbers_when_older_ones_go() -> None:
    ring = RingBuffer(max_lines=10)
    for number in range(600):
        ring.feed(b"%d\n" % number)
    first, lines = ring.since(0, 1000)
    assert lines == [b"%d" % number for number in range(first, 600)]
    assert ring.end == 600
    assert 10 <= len(lines) < 10 + 256


def test_since_gives_the_newest_when_there_are_more_than_wanted() -> None:
    ring = RingBuffer()
    ring.feed(b"".join(b"%d\n" % number for number in range(100)))
    assert ring.since(0, 3) == (97, [b"97", b"98", b"99"])
    assert ring.since(98, 50) == (98, [b"98", b"99"])
    assert ring.since(100, 50) == (100, [])


def test_one_block_larger_than_the_ring_leaves_its_end() -> None:
    ring = RingBuffer(max_lines=5)
    ring.feed(b"before\n")
    ring.feed(b"".join(b"%d\n" % number for number in range(1000)))
    assert ring.since(0, 100) == (996, [b"995", b"996", b"997", b"998", b"999"])


def test_bytes_are_bounded_too() -> None:
    ring = RingBuffer(max_lines=1000, max_bytes=10_000)
    for _ in range(1000):
        ring.feed(b"x" * 999 + b"\n")
    _, lines = ring.since(0, 1000)
    assert sum(map(len, lines)) <= 10_000 + 256 * 999


def test_a_long_line_is_cut_with_a_word_about_it() -> None:
    ring = RingBuffer()
    ring.feed(b"x" * 50_000 + b"\n")
    _, (line,) = ring.since(0, 1)
    assert len(line) <= MAX_LINE_BYTES
    assert line.endswith(b"the log file has the line whole)")


def test_overwritten_segments_are_one_line() -> None:
    ring = RingBuffer()
    ring.feed(b"\r 10%\r 20%\r")
    assert ring.end == 0
    assert ring.newest == b" 20%"
    ring.feed(b" 30%\r")
    ring.feed(b"\r100%\ndone\r\n")
    assert ring.since(0, 10) == (0, [b"100%", b"done"])


def test_a_bar_that_ends_with_a_bare_newline_is_kept() -> None:
    ring = RingBuffer()
    ring.feed(b"50%\r")
    ring.feed(b"\nnext\n")
    assert ring.since(0, 10) == (0, [b"50%", b"next"])


def test_newest_is_not_blank() -> None:
    ring = RingBuffer()
    ring.feed(b"said\n\n  \n")
    assert ring.newest == b"said"


@given(st.lists(st.binary(max_size=30).map(lambda data: data + b"\n")))
def test_as_many_lines_as_newlines(blocks: list[bytes]) -> None:
    ring = RingBuffer()
    for block in blocks:
        ring.feed(block)
    assert ring.end == b"".join(blocks).count(b"\n")
