"""The lines that are kept for the log, and the rows that are made of them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.ui.log.buffer import LogBuffer
from tests.ui.sessions import fps_line


def _texts(buffer: LogBuffer) -> list[str]:
    return [row.text for row in buffer.rows]


def _fps(number: int) -> str:
    return fps_line(number, 24e6 + number)


def _plain(first: int, count: int) -> list[str]:
    return [f"line {number}" for number in range(first, first + count)]


def test_a_gap_in_line_numbers_is_shown_and_earlier_lines_are_counted() -> None:
    buffer = LogBuffer()
    buffer.extend(1200, ["a"])
    buffer.extend(1201, ["b"])
    buffer.extend(1210, ["c"])
    assert _texts(buffer) == ["… 1,200 earlier lines", "a", "b", "… 8 lines skipped", "c"]
    assert (buffer.printed, buffer.below) == (1211, 0)


def test_the_buffer_keeps_the_newest_rows() -> None:
    buffer = LogBuffer(kept=100)
    for first in range(0, 1000, 10):
        buffer.extend(first, _plain(first, 10))
    kept = len(buffer.rows) - 1
    assert 100 <= kept <= 113
    assert _texts(buffer) == [f"… {1000 - kept} earlier lines", *_plain(1000 - kept, kept)]


def test_a_paused_buffer_drops_nothing_grows_to_twice_its_size_and_continues_after_a_gap() -> None:
    buffer = LogBuffer(kept=100)
    buffer.extend(0, _plain(0, 100))
    buffer.pause()
    for first in range(100, 1000, 10):
        buffer.extend(first, _plain(first, 10))
    assert _texts(buffer)[0] == "line 0"
    assert len(buffer.rows) <= 220
    assert (buffer.printed, buffer.below) == (1000, 1000 - len(buffer.rows))
    taken = len(buffer.rows)
    buffer.resume()
    buffer.extend(950, _plain(950, 50))
    assert _texts(buffer)[-51:] == [f"… {950 - taken} lines skipped", *_plain(950, 50)]
    assert len(buffer.rows) <= 113
    assert buffer.below == 0


# Folding


def test_consecutive_progress_lines_are_one_row_with_the_newest() -> None:
    buffer = LogBuffer()
    buffer.extend(0, [_fps(0), _fps(1), "warning", _fps(3)])
    buffer.extend(4, [_fps(4), _fps(5)])
    assert [(row.text, row.lines, row.end) for row in buffer.rows] == [
        (_fps(1), 2, 2),
        ("warning", 1, 3),
        (_fps(5), 3, 6),
    ]


def test_paused_rows_do_not_change() -> None:
    buffer = LogBuffer()
    buffer.extend(0, ["a", _fps(1)])
    buffer.pause()
    before = list(buffer.rows)
    buffer.extend(2, [_fps(2), _fps(3)])
    assert buffer.rows[:2] == before
    assert [row.lines for row in buffer.rows] == [1, 1, 2]
    buffer.resume()
    buffer.extend(4, [_fps(4)])
    assert [row.lines for row in buffer.rows] == [1, 1, 3]


def test_progress_lines_do_not_evict_other_lines() -> None:
    buffer = LogBuffer(kept=100)
    buffer.extend(0, ["first", "second"])
    for first in range(2, 10_002, 50):
        buffer.extend(first, [_fps(number) for number in range(first, first + 50)])
    assert [(row.text, row.lines) for row in buffer.rows] == [("first", 1), ("second", 1), (_fps(10_001), 10_000)]


_messages = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.sampled_from(["warn", "plain", "Running"]), max_size=5)),
    max_size=30,
)


@given(_messages, st.integers(1, 12), st.integers(0, 30))
def test_every_line_is_counted_and_paused_rows_stay(
    messages: list[tuple[int, list[str]]], kept: int, hold: int
) -> None:
    buffer, number = LogBuffer(kept=kept), 0
    for at, (gap, words) in enumerate(messages):
        if at == hold:
            buffer.pause()
        before = list(buffer.rows)
        lines = [_fps(i) if word == "Running" else f"{word} {i}" for i, word in enumerate(words, number)]
        buffer.extend(number + gap, lines)
        number += gap + len(lines)
        if buffer.paused:
            assert buffer.rows[: len(before)][: buffer._closed] == before[: buffer._closed]
    buffer.resume()
    rows = buffer.rows
    assert sum(row.lines for row in rows) + buffer.below == buffer.printed
    assert all(row.end >= other.end for other, row in pairwise(rows))


def test_lines_of_a_group_appear_in_order_of_arrival_with_their_ranks() -> None:
    buffer = LogBuffer(ranks={"gpu0": 0, "gpu1": 1})
    buffer.extend(0, ["a", "b"], slot="gpu0")
    buffer.extend(3, ["c"], slot="gpu1")
    buffer.extend(1, ["b", "d"], slot="gpu0")
    texts = [row.shown for row in buffer.rows]
    assert texts == ["[0] a", "[0] b", "[1] … 3 earlier lines", "[1] c", "[0] d"]
    assert [row.end for row in buffer.rows] == [1, 2, 5, 6, 7]
    assert buffer.printed == 7
