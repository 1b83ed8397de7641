"""Lines that say more than progress, which stay when progress lines push all others out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.output.ring_buffer import RingBuffer
from gmg_tui.engine.output.telling_lines import TellingLines
from gmg_tui.genesis.output import progress
from gmg_tui.model import WorkerState
from tests.engine.harness import running, spec_for
from tests.genesis_text.samples import fps_line

PROGRESS = fps_line(24e6, 4096).rstrip(b"\n")
BAR = b" 43%|####      | 43/100 [00:04<00:05, 10.20it/s]"


def _take(telling: TellingLines, first: int, lines: list[bytes]) -> None:
    telling.take(b"".join(line + b"\n" for line in lines), first, lines)


def _telling(lines: list[bytes]) -> list[bytes]:
    return [lines[place] for place in progress.telling_places(b"\n".join(lines), lines)]


def test_a_ring_keeps_what_tells_something_behind_any_number_of_progress_lines() -> None:
    ring = RingBuffer(max_lines=40)
    ring.feed(b"first\nsecond\n" + PROGRESS + b"\nthird\n")
    for _ in range(500):
        ring.feed((PROGRESS + b"\n") * 20)
    assert list(ring.telling.between(0, ring.end - 5)) == [
        (0, [b"first", b"second"], True),
        (3, [b"third"], True),
        (ring.end - 5, [], True),
    ]


def test_bars_are_progress_until_they_are_full() -> None:
    telling = TellingLines(10, 1000)
    _take(telling, 0, [BAR, BAR.replace(b" 43%", b"100%"), BAR])
    assert [run.first for run in telling.between(0, 3)] == [1, 3]


def test_what_was_forgotten_is_not_said_to_be_progress() -> None:
    telling = TellingLines(2, 1000)
    for number in range(0, 8, 2):
        _take(telling, number, [b"line %d" % number, PROGRESS])
    assert list(telling.between(0, 8)) == [(4, [b"line 4"], False), (6, [b"line 6"], True), (8, [], True)]
    assert next(telling.between(4, 8)).after_progress


def test_of_a_flood_the_newest_are_kept() -> None:
    telling = TellingLines(10, 100_000)
    _take(telling, 0, [b"%d" % number for number in range(1000)])
    assert list(telling.between(0, 1000)) == [
        (990, [b"%d" % number for number in range(990, 1000)], False),
        (1000, [], True),
    ]
    _take(telling, 1000, [PROGRESS, b"x"] * 100)
    first, *_ = telling.between(0, 1200)
    assert first == (1181, [b"x"], False)


_lines = st.sampled_from([PROGRESS, BAR, b"one", b"another line", b""])


@given(st.lists(st.lists(_lines, max_size=12), max_size=20), st.integers(1, 8), st.integers(0, 60), st.integers(0, 60))
def test_all_that_is_said_is_true(blocks: list[list[bytes]], most: int, start: int, length: int) -> None:
    telling, printed = TellingLines(most, 200), list[bytes]()
    for block in blocks:
        _take(telling, len(printed), block)
        printed += block
    end = min(len(printed), start + length)
    at, kept = start, 0
    for first, lines, after_progress in telling.between(start, end):
        assert first >= at or start > end
        assert printed[first : first + len(lines)] == lines
        assert len(_telling(lines)) == len(lines)
        if after_progress:
            assert not _telling(printed[at:first])
        at, kept = first + len(lines), kept + len(lines)
    assert kept <= max(most, 12)
    if all(len(block) <= most for block in blocks):
        assert kept or not _telling(printed) or start > 0 or end < len(printed)


async def test_a_client_that_comes_late_gets_the_lines_before_the_progress() -> None:
    async with running(spec_for("--flood", "fps", "--lines", "12000")) as run:
        await run.client.follow("cpu0", tail=0)  # workers start when a client follows
        await run.until_state("cpu0", WorkerState.FINISHED)
        total = run.worker("cpu0").log_lines
        run.lines.clear()
        await run.client.follow("cpu0", tail=10, telling=True)
        await run.until_lines("cpu0", lambda lines: total - 1 in lines)
        lines = run.lines["cpu0"]
        told = [text for text in lines.values() if not progress.is_mere(text)]
        assert "Running on [" in "".join(told)
        assert "Building scene" in "".join(told)
        assert sorted(lines)[:5] == [0, 1, 2, 3, 4]
        assert len(lines) <= 10 + len(told)
