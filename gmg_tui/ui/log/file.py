"""A log file as rows: around an offset, or matching a search.

Offsets stay valid when the file is replaced, since the old file remains open; a truncated file just ends earlier.
Everything here blocks, so callers use threads; `os.pread` needs no lock.
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
"""Bytes read for one page; more if a run of progress leaves fewer than `_MIN_ROWS` rows, up to `_MAX_BYTES`."""
_MAX_BYTES: Final = 1 << 23
_MIN_ROWS: Final = 200
_PAGE_LINES: Final = 10_000
_BLOCK_BYTES: Final = 1 << 16
_LINE_BYTES: Final = 1 << 16
"""Maximum bytes of a line in memory; of longer ones, the beginning and end."""
_PART_BYTES: Final = 1 << 20
_OVERLAP_BYTES: Final = 4096
"""Overlap of two parts of a long line, so that one of them contains a match in full."""
_MAYBE_PROGRESS: Final = re.compile(rb"%\||Running at |" + REPORTED.encode())


class _Line(NamedTuple):
    start: int
    end: int
    """The offset of the next line, or the file's end if unfinished."""
    raw: bytes
    """The line, or the first `_LINE_BYTES` of it."""
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
        """True if the line is finished and contains only progress. Genesis' lines need no cleaning to tell."""
        return self.finished and (
            FPS_ALONE.fullmatch(self.raw) is not None
            or (_MAYBE_PROGRESS.search(self.raw) is not None and is_progress_only(self.text))
        )


def _rows(lines: Iterable[_Line]) -> Iterator[LogRow]:
    """Yields lines as rows; of consecutive progress lines only the newest is decoded."""
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
        weakref.finalize(self, os.close, self._file)  # not earlier: a thread may still be reading

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._file).st_size

    @property
    def identity(self) -> tuple[int, int]:
        """The device and inode: cutting out the middle of a log replaces its file."""
        status = os.fstat(self._file)
        return status.st_dev, status.st_ino

    def before(self, end: int, count: int, max_bytes: int = _MAX_BYTES) -> list[LogRow]:
        """Returns the last `count` rows before `end`, which is the start of a line or the file's end."""
        rows, at = list[LogRow](), min(end, self.size)
        lowest = max(0, at - max_bytes)
        while at > lowest and len(rows) < _MIN_ROWS:
            lines = self._lines(self.start_of_line(at - _PAGE_BYTES), at)
            page = [*_rows(deque(lines, maxlen=_PAGE_LINES))]
            rows, at = join(page, rows), page[0].start if page else 0  # empty if the file was truncated
        return rows[-count:]

    def after(self, start: int, count: int, max_bytes: int = _MAX_BYTES) -> list[LogRow]:
        """Returns the first `count` rows from the line at `start`."""
        start = self.start_of_line(start)
        return [*islice(_rows(self._lines(start, start + max_bytes)), count)]

    def around(self, offset: int, count: int, query: Query) -> list[LogRow]:
        """Returns up to `count` rows before and after the line at `offset`, which is cut around its match of `query`."""
        offset = self.start_of_line(min(offset, self.size))
        below = self.after(offset, count)
        if below and query.text and not query.marks(below[0]) and (text := self.hidden_match(below[0], query)):
            below[0] = below[0]._replace(text=clean(f"… {text} …".encode()))
        return join(self.before(offset, count), below)

    def extend(self, rows: list[LogRow], count: int) -> tuple[int, list[LogRow]]:
        """Returns the file's size, and `rows` extended to it; only the last `count` rows if much was written since."""
        size, last = self.size, rows[-1].end if rows else 0
        start = self.start_of_line(last)
        if not rows or not last <= size <= start + _PAGE_BYTES:
            return size, self.before(size, count, _PAGE_BYTES if rows else _MAX_BYTES)
        return size, join(rows, self.rows(start, size)) if size > last else rows

    def rows(self, start: int, stop: int) -> list[LogRow]:
        """Returns the rows of the lines that begin between `start`, the start of a line, and `stop`."""
        return [*_rows(self._lines(start, stop))]

    def may_match(self, query: Query, start: int, end: int) -> bool:
        """Returns False if nothing between two offsets matches; cheap enough for gigabytes."""
        parts = (part.lower() for part in self._parts(start, end))
        return any(query.raw.search(part) is not None or b"\b" in part for part in parts)

    def hidden_match(self, row: LogRow, query: Query) -> str:
        """Returns the text around the first match in the hidden part of a long line; empty if there is none."""
        if len(row.text) > MAX_SHOWN_CHARS:
            for raw in self._parts(row.start, row.end):
                text = row.text if b"\r" in raw else visible(raw).decode(errors="replace")
                if found := query.pattern.search(text):
                    return text[max(0, found.start() - MAX_SHOWN_CHARS // 3) : found.start() + MAX_SHOWN_CHARS // 3]
        return ""

    def _parts(self, start: int, end: int) -> Iterator[bytes]:
        """Yields the bytes between two offsets in overlapping parts."""
        for at in range(start, end, _PART_BYTES):
            yield os.pread(self._file, min(_PART_BYTES + _OVERLAP_BYTES, end - at), at)

    def start_of_line(self, offset: int) -> int:
        """Returns the start of the line that contains `offset`."""
        while offset > 0:
            begin = max(0, offset - _BLOCK_BYTES)
            if (found := os.pread(self._file, offset - begin, begin).rfind(b"\n")) >= 0:
                return begin + found + 1
            offset = begin
        return 0

    def _lines(self, start: int, stop: int) -> Iterator[_Line]:
        """Yields the lines that begin from `start`, a line's start, up to `stop`; the last may be unfinished."""
        at, raw, tail = start, b"", b""
        while start < stop and (block := os.pread(self._file, _BLOCK_BYTES, at)):
            *pieces, rest = block.split(b"\n")
            for piece in pieces:
                at += len(piece) + 1
                yield _Line(start, at, *_joined(raw, tail, piece))
                start, raw, tail = at, b"", b""
                if start >= stop:
                    return
            at += len(rest)
            raw, tail = _joined(raw, tail, rest)
        if at > start:
            yield _Line(start, at, raw, tail, finished=False)


def _joined(raw: bytes, tail: bytes, more: bytes) -> tuple[bytes, bytes]:
    """Continues a line with `more`. Returns its beginning and, beyond `_LINE_BYTES`, its end."""
    if len(raw) + len(more) <= _LINE_BYTES and not tail:
        return raw + more, b""
    return (raw + more)[:_LINE_BYTES], ((tail or raw) + more)[-MAX_LINE_BYTES:]
