"""Cutting a stream into lines: nothing lost, nothing kept, whatever the worker writes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.output.line_splitter import MAX_TAIL_BYTES, LineSplitter


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
def test_where_the_stream_is_cut_makes_no_difference(data: bytes, cuts_at: list[int]) -> None:
    cuts = [0, *sorted(min(cut, len(data)) for cut in cuts_at), len(data)]
    pieces = [data[a:b] for a, b in pairwise(cuts)]
    assert _run(pieces) == _run([data])


def test_a_block_ends_with_the_end_of_a_line() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntwo") == (b"one\n", b"one\n")
    assert splitter.feed(b" and\nthree") == (b"two and\n", b"two and\n")
    assert splitter.end() == (b"three", b"three\n")


def test_bars_that_end_in_a_carriage_return_are_given_with_the_next_one() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"10%\r") == (b"", b"")
    assert splitter.feed(b"20%\r") == (b"10%\r", b"10%\r")
    assert splitter.feed(b"\n") == (b"20%\r\n", b"20%\r\n")


def test_what_waits_for_the_end_of_its_line_is_logged_once() -> None:
    splitter = LineSplitter()
    splitter.feed(b"half")
    assert splitter.settle() == b"half"
    assert splitter.settle() == b""
    assert splitter.feed(b" a line\n") == (b" a line\n", b"half a line\n")


def test_of_a_line_without_end_only_the_beginning_is_given_and_nothing_is_held() -> None:
    splitter, raw, blocks = LineSplitter(), 0, b""
    for _ in range(800):
        more_raw, block = splitter.feed(b"x" * 65_536)
        raw, blocks = raw + len(more_raw), blocks + block
    assert raw == 800 * 65_536
    assert blocks == b"x" * MAX_TAIL_BYTES + b"\n"
    assert splitter.feed(b"end\nnext\n") == (b"end\nnext\n", b"next\n")
