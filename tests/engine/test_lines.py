"""Lines: split from a stream wherever that is cut, numbered for ever, kept in bounded memory."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.output.lines import MAX_TAIL_BYTES, LineSplitter, RingBuffer
from gmg_tui.text import MAX_LINE_BYTES


def _run(chunks: list[bytes]) -> tuple[bytes, bytes]:
    splitter, raw, blocks = LineSplitter(), b"", b""
    for chunk in chunks:
        more_raw, block = splitter.feed(chunk)
        raw, blocks = raw + more_raw, blocks + block
    more_raw, block = splitter.end()
    return raw + more_raw, blocks + block


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"line\n", b"\x00\xff", b"x" * 40_000, b""])))
def test_every_byte_reaches_the_log_in_order(chunks: list[bytes]) -> None:
    assert _run(chunks)[0] == b"".join(chunks)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_lines_do_not_depend_on_how_the_stream_is_split(data: bytes, cuts_at: list[int]) -> None:
    cuts = [0, *sorted(min(cut, len(data)) for cut in cuts_at), len(data)]
    assert _run([data[a:b] for a, b in pairwise(cuts)]) == _run([data])


def test_a_block_ends_with_the_end_of_a_line_and_unfinished_lines_are_logged_once() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntwo") == (b"one\n", b"one\n")
    assert (splitter.unfinished(), splitter.unfinished()) == (b"two", b"")
    assert splitter.feed(b" and\n10%\r") == (b" and\n", b"two and\n")
    assert splitter.feed(b"20%\r") == (b"10%\r", b"10%\r")
    assert splitter.feed(b"\nlast") == (b"20%\r\n", b"20%\r\n")
    assert splitter.end() == (b"last", b"last\n")


def test_an_endless_line_is_truncated_without_using_memory() -> None:
    splitter, raw, blocks = LineSplitter(), 0, b""
    for _ in range(800):
        more_raw, block = splitter.feed(b"x" * 65_536)
        raw, blocks = raw + len(more_raw), blocks + block
    assert raw == 800 * 65_536
    assert blocks == b"x" * MAX_TAIL_BYTES + b"\n"
    assert splitter.feed(b"end\nnext\n") == (b"end\nnext\n", b"next\n")


def test_a_long_line_is_cut_and_marked() -> None:
    ring = RingBuffer()
    ring.feed(b"x" * 50_000 + b"\n")
    _, (line,) = ring.since(0, 1)
    assert len(line) <= MAX_LINE_BYTES
    assert line.endswith(b"the log file has the line whole)")


def test_lines_keep_their_numbers_when_older_ones_are_dropped() -> None:
    ring = RingBuffer(max_lines=10)
    for number in range(600):
        ring.feed(b"%d\n" % number)
    first, lines = ring.since(0, 1000)
    assert lines == [b"%d" % number for number in range(first, 600)]
    assert ring.end == 600
    assert 10 <= len(lines) < 20
    assert ring.since(0, 3) == (597, [b"597", b"598", b"599"])
    assert ring.since(598, 50) == (598, [b"598", b"599"])
    assert ring.since(600, 50) == (600, [])


def test_bytes_are_limited_too() -> None:
    ring = RingBuffer(max_lines=1000, max_bytes=10_000)
    for _ in range(1000):
        ring.feed(b"x" * 999 + b"\n")
    _, lines = ring.since(0, 1000)
    assert 8_000 < sum(map(len, lines)) <= 10_000


def test_segments_overwritten_by_carriage_returns_are_one_line() -> None:
    ring = RingBuffer()
    ring.feed(b"\r 10%\r 20%\r")
    assert (ring.end, ring.newest) == (0, b" 20%")
    ring.feed(b" 30%\r")
    ring.feed(b"\r100%\ndone\r\n50%\r")
    ring.feed(b"\nnext\n\n  \n")
    assert ring.since(0, 10) == (0, [b"100%", b"done", b"50%", b"next", b"", b"  "])
    assert ring.newest == b"next"
