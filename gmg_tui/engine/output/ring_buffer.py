"""The newest lines of a worker, bounded in number and in bytes."""

from __future__ import annotations

from gmg_tui.engine.output.telling_lines import TellingLines
from gmg_tui.text import MAX_LINE_BYTES

_CUT = " … (cut; the log file has the line whole)".encode()
_SLACK = 16
"""A sixteenth more lines may be kept than the limit: the oldest go many at a time, since each removal moves the list."""


class RingBuffer:
    """Numbered lines, about `max_lines` or `max_bytes` at most; the oldest go when there are too many.

    Attributes:
        telling: Those that say more than progress, at most a quarter as many; they stay when the others go.
    """

    def __init__(self, max_lines: int = 4000, max_bytes: int = 1 << 20) -> None:
        self.telling = TellingLines(max(1, max_lines // 4), max_bytes // 4)
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._lines: list[bytes] = []
        self._bytes = 0
        self._end = 0
        self._passing = b""

    @property
    def first(self) -> int:
        """The number of the oldest line that is kept."""
        return self._end - len(self._lines)

    @property
    def end(self) -> int:
        """The number that the next line will have: how many there have been."""
        return self._end

    @property
    def newest(self) -> bytes:
        r"""The newest line that is not blank, or the segment (ended by `\r`) that is newer; empty when there is none."""
        if self._passing:
            return self._passing
        return next((line for line in reversed(self._lines) if line.strip()), b"")

    def skip_to(self, number: int) -> None:
        """The next line is that with this number; those before it are not known here."""
        self._lines.clear()
        self._bytes, self._end, self._passing = 0, number, b""

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
            self._append(block, lines)

    def _overwritten(self, line: bytes) -> bytes:
        passing, self._passing = self._passing, b""
        return _last_segment(line) or (passing if not line.strip(b"\r") else b"")

    def _append(self, block: bytes, lines: list[bytes]) -> None:
        first, self._end = self._end, self._end + len(lines)
        self.telling.take(block, first, lines)
        lines = lines[-self._max_lines :]
        size = sum(map(len, lines))
        if size > MAX_LINE_BYTES and max(map(len, lines)) > MAX_LINE_BYTES:
            lines = [_cut(line) for line in lines]
            size = sum(map(len, lines))
        self._lines += lines
        self._bytes += size
        if len(self._lines) > self._max_lines + self._max_lines // _SLACK or self._bytes > self._max_bytes:
            self._trim()

    def _trim(self) -> None:
        kept = self._lines
        gone = max(0, len(kept) - self._max_lines)
        self._bytes -= sum(map(len, kept[:gone]))
        while self._bytes > self._max_bytes and gone < len(kept) - 1:
            self._bytes -= len(kept[gone])
            gone += 1
        del kept[:gone]

    def since(self, number: int, most: int) -> tuple[int, list[bytes]]:
        """Lines from `number` on, at most the newest `most`. Returns the number of the first, and the lines."""
        start = max(number, self.first, self._end - most)
        wanted = self._end - start
        if wanted <= 0:
            return self._end, []
        return start, self._lines[-wanted:]


def _last_segment(line: bytes) -> bytes:
    if b"\r" not in line:
        return line
    return next((segment for segment in reversed(line.split(b"\r")) if segment), b"")


def _cut(line: bytes) -> bytes:
    return line if len(line) <= MAX_LINE_BYTES else line[: MAX_LINE_BYTES - len(_CUT)] + _CUT
