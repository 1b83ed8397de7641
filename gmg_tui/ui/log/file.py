"""Reads rows from a log file: around an offset, or for a search.

Offsets stay valid when the file is replaced, since the old file remains open; a truncated file just ends earlier.
All functions block, so callers use threads; `os.pread` needs no lock.
"""

import os
import re
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from gmg_tui.machine.files import open_regular
from gmg_tui.model.text import MAX_LINE_BYTES, clean, displayed, visible
from gmg_tui.scripts.genesis.output.line_patterns import FPS_ALONE, REPORTED, is_progress_only
from gmg_tui.ui.log.rows import MAX_SHOWN_CHARS, LogRow, Query, join

_PAGE_BYTES: Final = 1 << 18
"""Bytes per read for rows above; reads repeat until there are `_MIN_ROWS` rows, as progress lines are folded."""
_MAX_READ_BYTES: Final = 1 << 23
_MIN_ROWS: Final = 200
_MAX_PAGE_LINES: Final = 10_000
_BLOCK_BYTES: Final = 1 << 16
_MAX_LINE_START_BYTES: Final = 1 << 16
"""Maximum bytes to keep of a line's beginning; of a longer line, the end is kept too."""
_CHUNK_BYTES: Final = 1 << 20
_OVERLAP_BYTES: Final = 4096
"""Overlap of two chunks, so that every match lies within one of them."""
_MAYBE_PROGRESS: Final = re.compile(rb"%\||Running at |" + REPORTED.encode())


class _Line(NamedTuple):
    start: int
    end: int
    """The offset of the next line, or the end of the file if the line is unfinished."""
    raw: bytes
    """The line, or its first `_MAX_LINE_START_BYTES`."""
    tail: bytes = b""
    """The end of a longer line."""
    finished: bool = True

    @property
    def displayed(self) -> bytes:
        r"""The line as a terminal shows it: segments that end with `\r` are overwritten."""
        return displayed(self.tail if b"\r" in self.tail else self.raw)

    @property
    def text(self) -> str:
        return clean(self.displayed[: MAX_LINE_BYTES * 2])

    @property
    def is_progress(self) -> bool:
        """True if the line is finished and contains only progress; Genesis' own lines need no cleaning."""
        return self.finished and (
            FPS_ALONE.fullmatch(self.raw) is not None
            or (_MAYBE_PROGRESS.search(self.raw) is not None and is_progress_only(self.text))
        )


def _fold_lines(lines: Iterable[_Line]) -> Iterator[LogRow]:
    """Yields lines as rows. Consecutive progress lines become one row, for which only the newest line is decoded."""
    for progress, group in groupby(lines, attrgetter("is_progress")):
        if progress:
            run = [*group]
            yield LogRow(run[-1].text, run[0].start, run[-1].end, len(run), progress=True)
        else:
            yield from (LogRow(line.text, line.start, line.end) for line in group)


class LogFile:
    """An open log file. Raises `OSError` if it is not a regular file."""

    def __init__(self, path: Path) -> None:
        self._file = open_regular(path)
        weakref.finalize(self, os.close, self._file)  # a thread may be reading until then

    @property
    def size(self) -> int:
        """The size in bytes."""
        return os.fstat(self._file).st_size

    @property
    def identity(self) -> tuple[int, int]:
        """The device and inode, which change when the file is replaced, as when the middle of the log is cut out."""
        status = os.fstat(self._file)
        return status.st_dev, status.st_ino

    def read_before(self, end: int, count: int, max_bytes: int = _MAX_READ_BYTES) -> list[LogRow]:
        """Returns the last `count` rows before `end`, which is the start of a line or the end of the file."""
        rows, top = list[LogRow](), min(end, self.size)
        lowest = max(0, top - max_bytes)
        while top > lowest and len(rows) < _MIN_ROWS:
            lines = self._lines(self.start_of_line(top - _PAGE_BYTES), top)
            page = [*_fold_lines(deque(lines, maxlen=_MAX_PAGE_LINES))]
            rows, top = join(page, rows), page[0].start if page else 0  # empty if the file was truncated
        return rows[-count:]

    def read_after(self, start: int, count: int, max_bytes: int = _MAX_READ_BYTES) -> list[LogRow]:
        """Returns the first `count` rows from the line at `start`."""
        start = self.start_of_line(start)
        return [*islice(_fold_lines(self._lines(start, start + max_bytes)), count)]

    def read_around(self, offset: int, count: int, query: Query) -> list[LogRow]:
        """Returns up to `count` rows before the line at `offset`, and up to `count` starting with it.

        If only the hidden part of this line matches `query`, its text is the part around the match.
        """
        offset = self.start_of_line(min(offset, self.size))
        below = self.read_after(offset, count)
        if below and query.text and not query.spans(below[0]) and (text := self.find_hidden(below[0], query)):
            below[0] = below[0]._replace(text=clean(f"… {text} …".encode()))
        return join(self.read_before(offset, count), below)

    def extend(self, rows: list[LogRow], count: int) -> tuple[int, list[LogRow]]:
        """Returns the file's size, and `rows` extended to it; only the last `count` rows if much was written since."""
        size, last = self.size, rows[-1].end if rows else 0
        start = self.start_of_line(last)
        if not rows or not last <= size <= start + _PAGE_BYTES:
            return size, self.read_before(size, count, _PAGE_BYTES if rows else _MAX_READ_BYTES)
        return size, join(rows, self.read(start, size)) if size > last else rows

    def read(self, start: int, stop: int) -> list[LogRow]:
        """Returns the rows of the lines that begin between `start`, the start of a line, and `stop`."""
        return [*_fold_lines(self._lines(start, stop))]

    def may_match(self, query: Query, start: int, end: int) -> bool:
        """Returns False if nothing between two offsets matches; cheap enough for gigabytes."""
        chunks = (chunk.lower() for chunk in self._chunks(start, end))
        return any(query.raw.search(chunk) is not None or b"\b" in chunk for chunk in chunks)

    def find_hidden(self, row: LogRow, query: Query) -> str:
        """Returns the text around the first match in a line that is too long to show; empty if there is none."""
        if len(row.text) > MAX_SHOWN_CHARS:
            for raw in self._chunks(row.start, row.end):
                text = row.text if b"\r" in raw else visible(raw).decode(errors="replace")
                if match := query.pattern.search(text):
                    return text[max(0, match.start() - MAX_SHOWN_CHARS // 3) : match.start() + MAX_SHOWN_CHARS // 3]
        return ""

    def _chunks(self, start: int, end: int) -> Iterator[bytes]:
        """Yields the bytes between two offsets in overlapping chunks."""
        for offset in range(start, end, _CHUNK_BYTES):
            yield os.pread(self._file, min(_CHUNK_BYTES + _OVERLAP_BYTES, end - offset), offset)

    def start_of_line(self, offset: int) -> int:
        """Returns the start of the line that contains `offset`."""
        while offset > 0:
            start = max(0, offset - _BLOCK_BYTES)
            if (line_end := os.pread(self._file, offset - start, start).rfind(b"\n")) >= 0:
                return start + line_end + 1
            offset = start
        return 0

    def _lines(self, start: int, stop: int) -> Iterator[_Line]:
        """Yields the lines that begin between `start`, the start of a line, and `stop`; the last may be unfinished."""
        offset, raw, tail = start, b"", b""
        while start < stop and (block := os.pread(self._file, _BLOCK_BYTES, offset)):
            *ends, rest = block.split(b"\n")
            for end in ends:
                offset += len(end) + 1
                yield _Line(start, offset, *_append(raw, tail, end))
                start, raw, tail = offset, b"", b""
                if start >= stop:
                    return
            offset += len(rest)
            raw, tail = _append(raw, tail, rest)
        if offset > start:
            yield _Line(start, offset, raw, tail, finished=False)


def _append(raw: bytes, tail: bytes, more: bytes) -> tuple[bytes, bytes]:
    """Appends to a line. Returns the beginning of the line and, beyond `_MAX_LINE_START_BYTES`, its end."""
    if len(raw) + len(more) <= _MAX_LINE_START_BYTES and not tail:
        return raw + more, b""
    return (raw + more)[:_MAX_LINE_START_BYTES], ((tail or raw) + more)[-MAX_LINE_BYTES:]
