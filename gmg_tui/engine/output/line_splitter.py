"""Splits a stream of bytes into whole lines, keeping little of it in memory."""

from __future__ import annotations

MAX_TAIL_BYTES = 64 * 1024
"""A longer line goes to the log file in pieces; only its beginning is displayed and parsed."""


class LineSplitter:
    r"""One stream of one attempt.

    Segments end with `\n` or `\r` (tqdm's bars). A `\r` at the very end of what has arrived waits for the next bytes,
    since a `\n` may follow.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._logged = 0
        """How many bytes of the tail are in the log file."""
        self._skipping = False
        """Inside a line longer than `MAX_TAIL_BYTES`, whose beginning has been passed on."""

    def feed(self, chunk: bytes) -> tuple[bytes, bytes]:
        """Take what was read. Returns what belongs in the log file now, and the whole segments; either may be empty."""
        if self._skipping:
            return self._skip(chunk)
        data = self._tail + chunk
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
        raw, block = data[self._logged : max(cut, self._logged)], data[:cut]
        if cut:
            self._logged = 0
        self._tail = data[cut:]
        if len(self._tail) > MAX_TAIL_BYTES:
            raw += self._tail[self._logged :]
            block += self._tail[:MAX_TAIL_BYTES] + b"\n"
            self._tail, self._logged, self._skipping = b"", 0, True
        return raw, block

    def _skip(self, chunk: bytes) -> tuple[bytes, bytes]:
        ends = [at for at in (chunk.find(b"\n"), chunk.find(b"\r")) if at >= 0]
        if not ends:
            return chunk, b""
        self._skipping = False
        end = min(ends) + 1
        raw, block = self.feed(chunk[end:])
        return chunk[:end] + raw, block

    def settle(self) -> bytes:
        """The unfinished line as far as it has come, for the log file; the line itself continues."""
        raw = self._tail[self._logged :]
        self._logged = len(self._tail)
        return raw

    def end(self) -> tuple[bytes, bytes]:
        """The stream has ended: the rest, as `feed` returns it, with the missing end of its line."""
        raw, rest = self.settle(), self._tail
        self._tail, self._logged, self._skipping = b"", 0, False
        return raw, rest + b"\n" if rest else b""
