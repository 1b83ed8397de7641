"""The last lines are kept, and nothing else."""

from __future__ import annotations

import tracemalloc

from gmg_tui.genesis.output.failures import LINES, Tail


def test_the_last_lines_are_there_however_they_came() -> None:
    one_by_one, at_once = Tail(), Tail()
    lines = [b"line %d" % number for number in range(5000)]
    for line in lines:
        one_by_one.add(line + b"\n")
    at_once.add(b"\n".join(lines) + b"\n")
    assert one_by_one.lines() == at_once.lines() == lines[-LINES:]


def test_memory_stays_the_same_however_long_the_run() -> None:
    tail = Tail()
    line = b"x" * 180 + b"\n"

    def feed(count: int) -> int:
        for _ in range(count):
            tail.add(bytes(bytearray(line)))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early = feed(3000)
        assert feed(30_000) < early + 500_000
    finally:
        tracemalloc.stop()
