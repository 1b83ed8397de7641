"""Pipes: every byte of each is read, however many there are and whatever one of them does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from gmg_tui.engine.output.pipes import Pipe, Pipes
from tests.patience import LONG_S


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
