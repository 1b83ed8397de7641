"""The lines of the engine that a log keeps, and the rows that are made of them."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmg_tui.ui.log import source as log_sources
from gmg_tui.ui.log.rows import LIVE, Query
from gmg_tui.ui.log.source import LogSource
from tests.ui.sessions import fps_line


def _texts(buffer: LogSource) -> list[str]:
    return [row.text for row in buffer.rows]


def _below(buffer: LogSource) -> int | None:
    return buffer.lines_below(len(buffer.rows) - 1) if buffer.rows else 0


@pytest.fixture(autouse=True)
def keep_100(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_sources, "MAX_LIVE_ROWS", 100)


def _fps(number: int) -> str:
    return fps_line(number, 24e6 + number)


def _plain(first: int, count: int) -> list[str]:
    return [f"line {number}" for number in range(first, first + count)]


def test_a_gap_in_line_numbers_is_shown_and_earlier_lines_are_counted() -> None:
    buffer = LogSource("gpu0")
    buffer.extend(1200, ["a"])
    buffer.extend(1201, ["b"])
    buffer.extend(1210, ["c"])
    assert _texts(buffer) == ["… 1,200 earlier lines", "a", "b", "… 8 lines skipped", "c"]
    assert (buffer.printed, _below(buffer)) == (1211, 0)


def test_the_buffer_keeps_the_newest_rows() -> None:
    buffer = LogSource("gpu0")
    for first in range(0, 1000, 10):
        buffer.extend(first, _plain(first, 10))
    kept = len(buffer.rows) - 1
    assert 100 <= kept <= 113
    assert _texts(buffer) == [f"… {1000 - kept} earlier lines", *_plain(1000 - kept, kept)]


def test_paused_rows_stay_while_the_newest_are_kept_and_lines_that_came_since_are_added() -> None:
    buffer = LogSource("gpu0")
    buffer.extend(0, _plain(0, 100))
    buffer.pause()
    before = list(buffer.rows)
    buffer.extend(100, _plain(100, 5))
    assert (buffer.rows, _below(buffer), buffer.has_below) == (before, 5, True)
    buffer.catch_up()
    assert _texts(buffer) == _plain(0, 105)
    for first in range(105, 1005, 10):
        buffer.extend(first, _plain(first, 10))
    buffer.catch_up()
    assert _texts(buffer) == _plain(0, 105)
    assert (buffer.printed, _below(buffer)) == (1005, 900)
    buffer.follow()
    assert (_texts(buffer)[-1], _below(buffer), buffer.has_below) == ("line 1004", 0, False)
    assert len(buffer.rows) <= 113


# Folding


def test_consecutive_progress_lines_are_one_row_with_the_newest() -> None:
    buffer = LogSource("gpu0")
    buffer.extend(0, [_fps(0), _fps(1), "warning", _fps(3)])
    buffer.extend(4, [_fps(4), _fps(5)])
    assert [(row.text, row.lines, row.end - LIVE) for row in buffer.rows] == [
        (_fps(1), 2, 2),
        ("warning", 1, 3),
        (_fps(5), 3, 6),
    ]


def test_paused_rows_do_not_change() -> None:
    buffer = LogSource("gpu0")
    buffer.extend(0, ["a", _fps(1)])
    buffer.pause()
    before = list(buffer.rows)
    buffer.extend(2, [_fps(2), _fps(3)])
    assert buffer.rows == before
    buffer.catch_up()
    assert [row.lines for row in buffer.rows] == [1, 3]
    buffer.follow()
    buffer.extend(4, [_fps(4)])
    assert [row.lines for row in buffer.rows] == [1, 4]


def test_progress_lines_do_not_evict_other_lines() -> None:
    buffer = LogSource("gpu0")
    buffer.extend(0, ["first", "second"])
    for first in range(2, 10_002, 50):
        buffer.extend(first, [_fps(number) for number in range(first, first + 50)])
    assert [(row.text, row.lines) for row in buffer.rows] == [("first", 1), ("second", 1), (_fps(10_001), 10_000)]


_messages = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.sampled_from(["warn", "plain", "Running"]), max_size=5)), max_size=30
)


@given(_messages, st.integers(0, 30))
def test_every_line_is_counted_and_paused_rows_stay(messages: list[tuple[int, list[str]]], hold: int) -> None:
    buffer, number = LogSource("gpu0"), 0
    paused = None
    for at, (gap, words) in enumerate(messages):
        if at == hold:
            buffer.pause()
            paused = [*buffer.rows] if buffer.rows else None
        lines = [_fps(i) if word == "Running" else f"{word} {i}" for i, word in enumerate(words, number)]
        buffer.extend(number + gap, lines)
        number += gap + len(lines)
    assert paused is None or buffer.rows == paused
    for change in (buffer.catch_up, buffer.follow):
        change()
        assert sum(row.lines for row in buffer.rows) + (_below(buffer) or 0) == buffer.printed
        assert all(row.start == other.end for other, row in pairwise(buffer.rows))


# With the file

_steps = st.lists(
    st.one_of(
        st.sampled_from(["above", "below", "catch-up", "pause", "follow", "start", "middle", "replace"]),
        st.tuples(st.sampled_from(["print", "print-fps", "flood"]), st.integers(1, 150)),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=60)
@given(_steps)
def test_rows_are_a_stretch_of_the_log_without_a_gap(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str | tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("log") / "gpu0.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_sources, "MAX_ROWS", 200)
        patch.setattr(log_sources, "_PAGE_ROWS", 30)
        asyncio.run(_walk(path, steps))


async def _walk(path: Path, steps: list[str | tuple[str, int]]) -> None:
    log, lines = LogSource("gpu0", path=lambda: path), list[str]()
    log.extend(0, ["first"])
    path.write_text("first\n")
    lines.append("first")
    replaced = False
    for step in steps:
        match step:
            case (how, count):
                new = [
                    _fps(n) if how == "print-fps" else f"line {n}" for n in range(len(lines), len(lines) + int(count))
                ]
                with path.open("a") as file:
                    file.writelines(f"{line}\n" for line in new)
                skipped = len(new) // 2 if how == "flood" else 0
                log.extend(len(lines) + skipped, new[skipped:])
                lines += new
            case "above":
                log.cut_at_gap(len(log.rows) - 1)
                had, first = log.has_above, log.rows[0]
                assert await log.load_above() == had or replaced
                assert not had or log.rows[0] != first or replaced
            case "below":
                known = log.has_below and log.rows[-1].end >= LIVE
                assert not log.has_below or await log.load_below() is not None or not known or replaced
            case "catch-up":
                log.catch_up()
            case "replace":
                kept, replaced = path.read_text().splitlines(keepends=True), True
                (path.parent / "new").write_text("".join(kept[len(kept) // 2 :]))
                (path.parent / "new").replace(path)
            case "pause":
                log.pause()
            case "follow":
                log.follow()
            case _:
                assert await log.jump(path.stat().st_size // 2 if step == "middle" else 0, Query())
        rows = [row for row in log.rows if not row.gap]
        if any(row.gap for row in log.rows[1:]):
            continue
        last = [lines.index(row.text) for row in rows]
        assert last == [last[0] - rows[0].lines + sum(row.lines for row in rows[: n + 1]) for n in range(len(rows))]
        assert not log.following or last[-1] == len(lines) - 1
        assert all(row.end <= other.start for row, other in pairwise(log.rows))
        assert len(log.rows) <= 700
