"""Splits output into lines, and keeps the newest lines."""

from gmg_tui.model.text import compact, displayed

MAX_TAIL_BYTES = 64 * 1024
"""Maximum size of a line that is displayed and parsed in full, rather than only its start."""
_SLACK_DIVISOR = 16
"""The buffer may exceed its line limit by 1/16: dropping old lines in batches shifts the list less often."""


class LineSplitter:
    r"""Splits one stream of one attempt into whole segments.

    Segments end with `\n` or `\r` (tqdm's bars). A `\r` at the end of a chunk is held back, because a `\n` may
    follow.
    """

    def __init__(self) -> None:
        self._tail = b""
        self._logged = 0
        """Number of bytes of the tail already returned for the log file."""
        self._skipping = False
        """True while discarding the rest of an overlong line, of which the first `MAX_TAIL_BYTES` were returned."""

    def feed(self, chunk: bytes) -> tuple[bytes, bytes]:
        """Splits a chunk. Returns the bytes for the log file, and the whole segments; either may be empty."""
        if self._skipping:
            end = min((at for at in (chunk.find(b"\n"), chunk.find(b"\r")) if at >= 0), default=-1) + 1
            self._skipping = not end
            raw, block = self.feed(chunk[end:]) if end else (b"", b"")
            return (chunk[:end] if end else chunk) + raw, block
        data, logged = self._tail + chunk, self._logged
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
        if len(data) - cut > MAX_TAIL_BYTES and len(rest := compact(data[cut:])) <= MAX_TAIL_BYTES:
            self._tail, self._logged = rest, len(rest)
            return data[logged:], data[:cut]
        if len(data) - cut > MAX_TAIL_BYTES:
            self._tail, self._logged, self._skipping = b"", 0, True
            return data[logged:], data[: cut + MAX_TAIL_BYTES] + b"\n"
        self._tail = data[cut:]
        if cut:
            self._logged = 0
        return data[logged : max(cut, logged)], data[:cut]

    @property
    def pending(self) -> bytes:
        """The unfinished line, if `take_unfinished` has returned part of it."""
        return self._tail if self._logged else b""

    def take_unfinished(self) -> bytes:
        """Returns the new part of the unfinished line, for the log file; the line may continue."""
        raw = self._tail[self._logged :]
        self._logged = len(self._tail)
        return raw

    def end(self) -> tuple[bytes, bytes]:
        """Ends the stream. Returns the rest like `feed`; the segment gets a newline."""
        raw, rest = self.take_unfinished(), self._tail
        self._tail, self._logged, self._skipping = b"", 0, False
        return raw, rest + b"\n" if rest else b""


class RingBuffer:
    """Keeps a slot's newest lines, numbered, up to about `max_lines` lines and `max_bytes` bytes.

    Attributes:
        end: Number of the next line.
    """

    def __init__(self, max_lines: int = 4000, max_bytes: int = 1 << 20) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._lines: list[bytes] = []
        self._bytes = 0
        self.end = 0
        self._unfinished = b""
        r"""The newest segment that ends with `\r`."""
        self._preview = b""

    @property
    def newest(self) -> bytes:
        r"""The newest preview, `\r` segment or nonblank line; empty if there is none."""
        return self._preview or self._unfinished or next((line for line in reversed(self._lines) if line.strip()), b"")

    def skip_to(self, number: int) -> None:
        """Drops all lines, and continues at `number` after missing lines."""
        self._lines.clear()
        self._bytes, self.end, self._unfinished, self._preview = 0, number, b"", b""

    def preview(self, line: bytes) -> None:
        """Shows an unfinished line as the newest, until whole segments follow."""
        self._preview = displayed(line).strip()

    def feed(self, block: bytes) -> None:
        r"""Appends whole segments, each ended by `\n` or `\r`.

        Only lines ended by `\n` are kept. Segments ended by `\r` overwrite one another, as on a terminal: the last one
        before the `\n` is kept as the line.
        """
        lines, self._preview = block.split(b"\n"), b""
        rest = lines.pop()
        if b"\r" in block or self._unfinished:
            lines = [self._overwrite(line) for line in lines]
            self._unfinished = displayed(rest) or self._unfinished
        self.end += len(lines)
        lines = lines[-self._max_lines :]
        self._lines += lines
        self._bytes += sum(map(len, lines))
        if len(self._lines) > self._max_lines + self._max_lines // _SLACK_DIVISOR or self._bytes > self._max_bytes:
            self._trim()

    def _overwrite(self, line: bytes) -> bytes:
        previous, self._unfinished = self._unfinished, b""
        return displayed(line) or (previous if not line.strip(b"\r") else b"")

    def _trim(self) -> None:
        drop_count = max(0, len(self._lines) - self._max_lines)
        self._bytes -= sum(map(len, self._lines[:drop_count]))
        while self._bytes > self._max_bytes and drop_count < len(self._lines) - 1:
            self._bytes -= len(self._lines[drop_count])
            drop_count += 1
        del self._lines[:drop_count]

    def lines_from(self, number: int) -> tuple[int, list[bytes]]:
        """Returns the number of the first kept line from `number` on, and the lines."""
        start = max(number, self.end - len(self._lines))
        if start >= self.end:
            return self.end, []
        return start, self._lines[start - self.end :]
