"""The newest lines of a worker, bounded in number and in bytes."""

from __future__ import annotations

from collections import deque
from itertools import chain

from gmg_tui.text import MAX_LINE_BYTES

_CUT = " … (cut; the log file has the line whole)".encode()
_MERGE_LINES = 256
"""Lines that arrive a few at a time are kept together up to this many."""


class Ring:
    """Numbered lines; the oldest go when there are too many.

    Args:
        max_lines: About how many lines are kept at most.
        max_bytes: About how many bytes are kept at most.
    """

    def __init__(self, max_lines: int = 4000, max_bytes: int = 1 << 20) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._chunks: deque[list[bytes]] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._first = 0
        self._kept = 0
        self._passing = b""

    @property
    def first(self) -> int:
        """The number of the oldest line that is kept."""
        return self._first

    @property
    def end(self) -> int:
        """The number that the next line will have: how many there have been."""
        return self._first + self._kept

    @property
    def newest(self) -> bytes:
        r"""The newest line that is not blank, or the segment (ended by `\r`) that is newer; empty when there is none."""
        if self._passing:
            return self._passing
        for lines in reversed(self._chunks):
            for line in reversed(lines):
                if line.strip():
                    return line
        return b""

    def feed(self, block: bytes) -> None:
        r"""Take whole segments, each ended by `\n` or `\r`.

        Only lines ended by `\n` are kept; of segments ended by `\r`, which overwrite one another on a terminal, the last
        before the `\n` is the line.
        """
        lines = block.split(b"\n")
        rest = lines.pop()
        if b"\r" in block or self._passing:
            lines = [self._overwritten(line) for line in lines]
            self._passing = _last_segment(rest) or self._passing
        if lines:
            self._append(lines)

    def _overwritten(self, line: bytes) -> bytes:
        passing, self._passing = self._passing, b""
        return _last_segment(line) or (passing if not line.strip(b"\r") else b"")

    def _append(self, lines: list[bytes]) -> None:
        skipped = max(0, len(lines) - self._max_lines)
        if skipped:
            self._chunks.clear()
            self._sizes.clear()
            self._first += self._kept + skipped
            self._kept = self._bytes = 0
            lines = lines[skipped:]
        size = sum(map(len, lines))
        if size > MAX_LINE_BYTES and max(map(len, lines)) > MAX_LINE_BYTES:
            lines = [_cut(line) for line in lines]
            size = sum(map(len, lines))
        if self._chunks and len(self._chunks[-1]) + len(lines) <= _MERGE_LINES:
            self._chunks[-1].extend(lines)
            self._sizes[-1] += size
        else:
            self._chunks.append(lines)
            self._sizes.append(size)
        self._kept += len(lines)
        self._bytes += size
        while len(self._chunks) > 1 and (
            self._kept - len(self._chunks[0]) >= self._max_lines or self._bytes > self._max_bytes
        ):
            gone = len(self._chunks.popleft())
            self._bytes -= self._sizes.popleft()
            self._first += gone
            self._kept -= gone

    def since(self, number: int, most: int) -> tuple[int, list[bytes]]:
        """Lines from `number` on, at most the newest `most` of them.

        Returns:
            The number of the first line returned, and the lines.
        """
        start = max(number, self._first, self.end - most)
        wanted = self.end - start
        if wanted <= 0:
            return self.end, []
        taken: list[list[bytes]] = []
        for lines in reversed(self._chunks):
            taken.append(lines[-wanted:] if len(lines) > wanted else lines)
            wanted -= len(taken[-1])
            if wanted <= 0:
                break
        return start, list(chain.from_iterable(reversed(taken)))


def _last_segment(line: bytes) -> bytes:
    if b"\r" not in line:
        return line
    return next((segment for segment in reversed(line.split(b"\r")) if segment), b"")


def _cut(line: bytes) -> bytes:
    return line if len(line) <= MAX_LINE_BYTES else line[: MAX_LINE_BYTES - len(_CUT)] + _CUT
