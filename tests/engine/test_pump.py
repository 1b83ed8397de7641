"""The pump: every byte of every pipe, however many there are and whatever one of them does."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable

from gmg_tui.engine.output.pump import Pump

_PATIENCE_S = 30.0


class Pipes:
    """Pipes of one pump, and what came out of each."""

    def __init__(self, count: int) -> None:
        self.pump = Pump()
        self.taken = [bytearray() for _ in range(count)]
        self.ended: set[int] = set()
        self._news = asyncio.Event()
        ends = [self.pump.open(self._taker(number), self._end) for number in range(count)]
        self.sample = [sample for sample, _ in ends]
        self.writing = [writing for _, writing in ends]

    def _taker(self, number: int) -> Callable[[bytes], None]:
        def take(data: bytes) -> None:
            self.taken[number] += data
            self._news.set()

        return take

    def _end(self, sample: int) -> None:
        self.ended.add(sample)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds`."""
        async with asyncio.timeout(_PATIENCE_S):
            while not holds():
                self._news.clear()
                await self._news.wait()


async def test_every_pipe_of_many_is_read_to_its_end() -> None:
    pipes = Pipes(100)
    for number, writing in enumerate(pipes.writing):
        os.write(writing, b"%d\n" % number)
    await pipes.until(lambda: all(pipes.taken))
    for writing in pipes.writing:
        os.write(writing, b"last")
        os.close(writing)
    await pipes.until(lambda: len(pipes.ended) == 100)
    assert pipes.taken == [b"%d\nlast" % number for number in range(100)]


async def test_a_flooded_pipe_does_not_keep_the_others_waiting() -> None:
    pipes = Pipes(3)
    os.set_blocking(pipes.writing[0], False)
    full = b"x" * (1 << 16)

    def pour() -> bool:
        """Fill the first pipe as often as it is emptied; whether another has come through."""
        try:
            while True:
                os.write(pipes.writing[0], full)
        except BlockingIOError:
            return bool(pipes.taken[2])

    pour()
    os.write(pipes.writing[2], b"quiet\n")
    await pipes.until(pour)
    assert pipes.taken[2] == b"quiet\n"
    assert len(pipes.taken[0]) > len(full)
    pipes.pump.close()


async def test_what_is_in_a_pipe_when_it_is_dropped_is_read() -> None:
    pipes = Pipes(1)
    data = bytes(range(256)) * 256 * 4
    os.set_blocking(pipes.writing[0], False)
    written = os.write(pipes.writing[0], data)
    pipes.pump.drop(pipes.sample[0])
    assert pipes.taken[0] == data[:written]
    assert not pipes.ended


async def test_a_pipe_of_its_own_begins_after_all_others_have_ended() -> None:
    pipes = Pipes(1)
    os.close(pipes.writing[0])
    await pipes.until(lambda: bool(pipes.ended))
    heard = asyncio.Event()
    _, writing = pipes.pump.open(lambda _: heard.set(), lambda _: None)
    os.write(writing, b"again\n")
    async with asyncio.timeout(_PATIENCE_S):
        await heard.wait()
    os.close(writing)
    pipes.pump.close()


async def test_a_silent_pipe_sleeps_and_its_next_line_is_read_at_once() -> None:
    pipes = Pipes(2)
    os.write(pipes.writing[0], b"one\n")
    await pipes.until(lambda: bool(pipes.taken[0]))
    assert pipes.pump.awake == [pipes.sample[0]]
    while pipes.pump.awake:  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0.05)
    for number in 1, 0:
        os.write(pipes.writing[number], b"two\n")
        await pipes.until(lambda: pipes.taken[number].endswith(b"two\n"))  # noqa: B023 - awaited here
        assert pipes.sample[number] in pipes.pump.awake
    assert pipes.taken == [b"one\ntwo\n", b"two\n"]
    pipes.pump.close()


async def test_a_pipe_that_fills_quickly_is_read_before_it_is_full() -> None:
    pipes = Pipes(1)
    os.set_blocking(pipes.writing[0], False)
    # It would be full in a quarter of a second; as the clock is the loop's, a slow machine writes more slowly too.
    piece = b"x" * (fcntl.fcntl(pipes.writing[0], fcntl.F_GETPIPE_SZ) // 256)
    written = 0
    for _ in range(1500):
        written += os.write(pipes.writing[0], piece)  # raises where there is no room
        await asyncio.sleep(0.001)
    await pipes.until(lambda: len(pipes.taken[0]) == written)
    pipes.pump.close()
