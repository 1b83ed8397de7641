"""What workers print: lines in bounded memory, and pipes that are all read."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmg_tui.engine.output.lines import MAX_TAIL_BYTES, LineSplitter, RingBuffer
from gmg_tui.engine.output.pipes import Pipe, Pipes
from gmg_tui.model import WorkerState
from gmg_tui.model.text import clean
from tests.engine.harness import running, spec_for
from tests.patience import LONG_S


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
    assert (splitter.take_unfinished(), splitter.take_unfinished()) == (b"two", b"")
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


_IMAGES = {
    "kitty": b"".join(b"\x1b_Gm=1;" + b"A" * 4096 + b"\x1b\\" for _ in range(60)),
    "sixel": b"\x1bPq" + b"#0~~@@vv" * 30_000 + b"\x1b\\",
    "small": b"\x1b_Ga=T;" + b"A" * 9_000 + b"\x1b\\",
}


@pytest.mark.parametrize("size", [1 << 20, 65_536, 4_099])
@pytest.mark.parametrize("image", _IMAGES)
def test_text_behind_an_image_is_kept(image: str, size: int) -> None:
    line = b"before " + _IMAGES[image] + b"reward 7"
    splitter, ring, logged = LineSplitter(), RingBuffer(), b""
    for start in range(0, len(line), size):
        raw, block = splitter.feed(line[start : start + size])
        logged += raw
        ring.feed(block)
    raw, block = splitter.feed(b"\nnext\n")
    ring.feed(block)
    assert logged + raw == line + b"\nnext\n"
    assert [clean(each) for each in ring.lines_from(0)[1]] == ["before reward 7", "next"]
    assert clean(line) == "before reward 7"


def test_backspaces_overwrite() -> None:
    steps = ["  0%", *(f"\b\b\b\b{pct:3}%" for pct in range(101))]
    assert clean("".join(steps).encode()) == "100%"
    assert clean("añ\b\bxyz\b ok".encode()) == "xy ok"
    assert clean(b"\b\b10\t\b2") == clean(b"102")
    splitter, ring = LineSplitter(), RingBuffer()
    for step in [*steps * 200, "\n"]:
        ring.feed(splitter.feed(step.encode())[1])
    assert clean(ring.newest) == "100%" * 200, "also in a line that is longer than what is kept of one"


def test_lines_keep_their_numbers_when_older_ones_are_dropped() -> None:
    ring = RingBuffer(max_lines=10)
    for number in range(600):
        ring.feed(b"%d\n" % number)
    first, lines = ring.lines_from(0)
    assert lines == [b"%d" % number for number in range(first, 600)]
    assert ring.end == 600
    assert 10 <= len(lines) < 20
    assert ring.lines_from(598) == (598, [b"598", b"599"])
    assert ring.lines_from(600) == (600, [])


def test_bytes_are_limited_too() -> None:
    ring = RingBuffer(max_lines=1000, max_bytes=10_000)
    for _ in range(1000):
        ring.feed(b"x" * 999 + b"\n")
    _, lines = ring.lines_from(0)
    assert 8_000 < sum(map(len, lines)) <= 10_000


def test_segments_overwritten_by_carriage_returns_are_one_line() -> None:
    ring = RingBuffer()
    ring.feed(b"\r 10%\r 20%\r")
    assert (ring.end, ring.newest) == (0, b" 20%")
    ring.feed(b" 30%\r")
    ring.feed(b"\r100%\ndone\r\n50%\r")
    ring.feed(b"\nnext\n\n  \n")
    assert ring.lines_from(0) == (0, [b"100%", b"done", b"50%", b"next", b"", b"  "])
    assert ring.newest == b"next"


def test_an_unfinished_line_is_the_newest_until_others_follow() -> None:
    splitter, ring = LineSplitter(), RingBuffer()
    ring.feed(splitter.feed(b"one\n\r 10%\r 20%")[1])
    assert (splitter.pending, ring.newest) == (b"", b" 10%")
    splitter.take_unfinished()
    ring.preview(splitter.pending)
    assert (ring.end, ring.newest) == (1, b"20%")
    ring.feed(b"\n")
    assert ring.lines_from(0) == (0, [b"one", b" 10%"]), "the preview leaves no trace in the lines"
    ring.preview(b" \t")
    assert ring.newest == b" 10%"
    ring.preview(b"." * MAX_TAIL_BYTES)
    assert ring.newest == b"." * MAX_TAIL_BYTES


async def test_text_without_a_newline_is_displayed_and_means_that_the_script_runs(tmp_path: Path) -> None:
    script = tmp_path / "download.py"
    script.write_text("import time\nprint('Downloading ', end='')\nwhile not time.sleep(0.1): print('.', end='')\n")
    async with running(spec_for(script=str(script))) as run:
        await run.until(lambda _: run.worker("cpu0").last_line.startswith("Downloading .."))
        assert (await run.until_state("cpu0", WorkerState.RUNNING)).log_lines == 0
    assert not run.lines.get("cpu0"), "clients receive whole lines only"


# Pipes: every byte of each is read, however many there are and whatever one of them does


class Ends:
    """Pipes, and what came out of each."""

    def __init__(self) -> None:
        self.full = False
        self.pipes = Pipes(is_full=lambda: self.full)
        self.taken: list[bytearray] = []
        self.writing: list[int] = []
        self._news = asyncio.Event()

    def open(self, count: int = 1) -> list[Pipe]:
        opened = []
        for number in range(len(self.taken), len(self.taken) + count):
            self.taken.append(bytearray())
            pipe, writing = self.pipes.open(partial(self._take, number))
            os.set_blocking(writing, False)
            self.writing.append(writing)
            opened.append(pipe)
        return opened

    def _take(self, number: int, data: bytes) -> None:
        self.taken[number] += data
        self._news.set()

    def fill(self, number: int = 0) -> int:
        """Write until the pipe is full. Returns how many bytes were written."""
        written = 0
        try:
            while True:
                written += os.write(self.writing[number], b"x" * (1 << 16))
        except BlockingIOError:
            return written

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(LONG_S):
            while not holds():
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    ends = Ends()
    yield ends
    ends.pipes.close_all()


async def test_every_pipe_of_many_is_read_to_its_end(ends: Ends) -> None:
    ends.open(100)
    for number, writing in enumerate(ends.writing):
        os.write(writing, b"%d\n" % number)
    await ends.until(lambda: all(ends.taken))
    for writing in ends.writing:
        os.write(writing, b"last")
        os.close(writing)
    await ends.until(lambda: all(taken.endswith(b"last") for taken in ends.taken))
    assert ends.taken == [b"%d\nlast" % number for number in range(100)]
    ends.open()
    os.write(ends.writing[-1], b"after all others have ended\n")
    await ends.until(lambda: ends.taken[-1])


async def test_a_flooded_pipe_does_not_block_others(ends: Ends) -> None:
    ends.open(3)
    ends.fill()
    os.write(ends.writing[2], b"quiet\n")
    await ends.until(lambda: ends.fill() and ends.taken[2])
    assert ends.taken[2] == b"quiet\n"


async def test_clients_are_served_between_pipes_whose_output_takes_long_to_parse(ends: Ends) -> None:
    order: list[object] = []

    def parse(number: int, _: bytes) -> None:
        order.append(number)
        asyncio.get_running_loop().call_soon(order.append, "client")
        time.sleep(0.11)
        os.write(writing[number], b"more")

    writing = [ends.pipes.open(partial(parse, number))[1] for number in range(3)]
    for each in writing:
        os.write(each, b"some")
    while order.count("client") < 6:  # noqa: ASYNC110 - any other callback could be between two pipes
        await asyncio.sleep(0)
    assert [each for each in order if each != "client"][:6] == [0, 1, 2, 0, 1, 2], "no pipe waits for ever"
    assert order[1::2][:5] == ["client"] * 5


async def test_a_closed_pipe_is_drained_and_its_descriptor_can_be_reused(ends: Ends) -> None:
    (pipe,) = ends.open()
    written = ends.fill()
    ends.pipes.close(pipe)
    assert len(ends.taken[0]) == written
    (other,) = ends.open()
    ends.pipes.close(pipe)
    os.write(ends.writing[1], b"other")
    await ends.until(lambda: ends.taken[1])
    assert other.file == pipe.file


async def test_a_closed_pipe_is_read_after_those_that_became_ready_first(ends: Ends) -> None:
    """A traceback on standard error is not the end of a script that printed something after it."""
    order: list[bytes] = []
    (out, write_out), (_, write_err) = (ends.pipes.open(order.append) for _ in range(2))
    read = asyncio.Event()
    ends.pipes.on_read = read.set
    os.write(write_out, b"step")
    await read.wait()
    os.write(write_err, b"Traceback")
    os.write(write_out, b"saved")
    os.close(write_err)
    os.close(write_out)
    ends.pipes.close(out)
    assert order == [b"step", b"Traceback", b"saved"]


@pytest.mark.parametrize("closing", [False, True], ids=["read", "closed"])
async def test_a_callback_may_close_other_pipes_that_are_ready(ends: Ends, closing: bool) -> None:
    def close_others(_: bytes) -> None:
        for pipe in others:
            ends.pipes.close(pipe)

    first, writing = ends.pipes.open(close_others)
    others = ends.open(2)
    for each in (writing, *ends.writing):
        os.write(each, b"some")
    if closing:
        ends.pipes.close(first)
    await ends.until(lambda: ends.taken == [b"some", b"some"])
    ends.open()
    os.write(ends.writing[-1], b"later")
    await ends.until(lambda: ends.taken[-1])


async def test_reading_pauses_while_the_queue_is_full(ends: Ends) -> None:
    ends.full = True
    ends.open()
    written = 0
    for _ in range(100):
        written += ends.fill()
        await asyncio.sleep(0)
    assert not ends.taken[0]
    ends.full = False
    await ends.until(lambda: len(ends.taken[0]) == written)


async def test_an_exception_in_a_callback_does_not_stop_reading_of_any_pipe(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    bad: list[bytes] = []

    def fail(data: bytes) -> None:
        bad.append(data)
        raise ZeroDivisionError

    _, writing = ends.pipes.open(fail)
    ends.open()
    for expected in (b"good", b"goodgood"):
        os.write(writing, b"bad")
        os.write(ends.writing[0], b"good")
        await ends.until(partial(ends.taken[0].__eq__, expected))
    os.close(writing)
    assert bad == [b"bad"] * 2
    assert "ZeroDivisionError" in caplog.text
