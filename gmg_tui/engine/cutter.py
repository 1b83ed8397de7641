"""Cuts a stream of bytes into whole lines without ever holding much of it."""

from __future__ import annotations

MAX_TAIL_BYTES = 64 * 1024
"""A line that is longer is passed on in pieces for the log file; of what is shown and parsed it gives its beginning."""


class Cutter:
    r"""One stream of one attempt.

    Segments end with `\n` or `\r` (tqdm's bars). A `\r` at the very end of what has arrived waits for the next bytes,
    since a `\n` may follow.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._logged = 0
        """How many bytes of the tail are in the log file."""
        self._skipping = False
        """Inside a line longer than `MAX_TAIL_BYTES`, whose beginning has been given."""

    def feed(self, chunk: bytes) -> tuple[bytes, bytes]:
        """Take what was read.

        Returns:
            What belongs in the log file now, and the whole segments in it; either may be empty.
        """
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
        ends = [place for place in (chunk.find(b"\n"), chunk.find(b"\r")) if place >= 0]
        if not ends:
            return chunk, b""
        self._skipping = False
        end = min(ends) + 1
        raw, block = self.feed(chunk[end:])
        return chunk[:end] + raw, block

    def settle(self) -> bytes:
        """What has waited for the end of its line long enough, for the log file; the line itself goes on."""
        raw = self._tail[self._logged :]
        self._logged = len(self._tail)
        return raw

    def end(self) -> tuple[bytes, bytes]:
        """The stream has ended: the rest, as `feed` returns it; the block's line gets the end that it lacks."""
        raw, rest = self.settle(), self._tail
        self._tail, self._logged, self._skipping = b"", 0, False
        return raw, rest + b"\n" if rest else b""
