"""The last lines of an attempt, both streams, in bounded memory: what the reason of a failure is found in."""

from __future__ import annotations

from collections import deque

LINES = 200
"""How many lines are looked at."""
_BYTES = 128 << 10
_BLOCKS = 512


class Tail:
    """The last blocks of output, at most some 128 KiB and one block."""

    def __init__(self) -> None:
        self._blocks: deque[bytes] = deque()
        self._bytes = 0

    def add(self, block: bytes) -> None:
        """Take the next block; only its last part where it is long."""
        if len(block) > _BYTES:
            block = block[-_BYTES:]
        self._blocks.append(block)
        self._bytes += len(block)
        while self._bytes - len(self._blocks[0]) >= _BYTES:
            self._bytes -= len(self._blocks.popleft())
        if len(self._blocks) > _BLOCKS:
            # Many blocks of one short line each: as one they cost their bytes and no more.
            joined = b"".join(self._blocks)[-_BYTES:]
            self._blocks = deque((joined,))
            self._bytes = len(joined)

    def lines(self) -> list[bytes]:
        """The last lines, without their ends, oldest first; blank ones are left out."""
        return [line for line in b"".join(self._blocks).splitlines() if line.strip()][-LINES:]
