"""A log file as rows: those before and after an offset, and the search through all of it.

Offsets stay valid when the file is replaced, since the old file remains open, and a file that was truncated just ends
earlier. Everything here blocks, so it runs in threads; `os.pread` needs no lock.
"""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.files import open_regular, start_of_last
from gmg_tui.model.text import MAX_LINE_BYTES, clean, visible
from gmg_tui.scripts.genesis.output.line_patterns import FPS_ALONE, is_mere
from gmg_tui.ui.log.rows import MAX_SHOWN, LogRow, Query, fold

PAGE_BYTES: Final = 2 << 20
"""Bytes read for one page at most; a longer run of progress continues on the next page."""
MAX_ROWS: Final = 4000
"""Rows kept in memory."""
MAX_MATCHES: Final = 100_000
"""A search stops after this many."""
_BLOCK_BYTES: Final = 1 << 16
_LINE_BYTES: Final = 1 << 16
"""Only the beginning and the end of a longer line are kept in memory."""
_CHUNK_BYTES: Final = 2 << 20
"""Bytes searched between two reports of the progress."""
_OVERLAP_BYTES: Final = 4096
"""A match may begin this far before the end of a chunk."""
_NEARBY_LINES: Final = 500
_REPORT_S: Final = 0.1
"""Seconds between two reports of a search's progress."""
_WORD: Final = re.compile(r"[A-Za-z0-9]+")


class Page(NamedTuple):
    """Rows of the file between two offsets."""

    rows: list[LogRow]
    start: int
    end: int

    def followed_by(self, page: Page, *, keep_last: bool = False) -> Page:
        """Returns both pages as one, of whose rows the first, or the last ones, are kept."""
        rows, first = [*self.rows], True
        for row in page.rows:
            if first and rows and row.end > rows[-1].end:
                fold(rows, row)
                first = False
            elif not first:
                rows.append(row)
        if (extra := len(rows) - MAX_ROWS) <= 0:
            return Page(rows, self.start, page.end)
        return (
            Page(rows[extra:], rows[extra].offset, page.end)
            if keep_last
            else Page(rows[:-extra], self.start, rows[-extra].offset)
        )


class _Line(NamedTuple):
    start: int
    end: int
    """The offset of its line end."""
    raw: bytes
    """The line, or the first `_LINE_BYTES` of it."""
    tail: bytes = b""
    """The end of a longer line."""

    @property
    def is_long(self) -> bool:
        return bool(self.tail)

    @property
    def displayed(self) -> bytes:
        r"""The line as a terminal shows it: a segment that ends with `\r` is overwritten by the next one."""
        raw = self.tail if b"\r" in self.tail else self.raw
        return next(filter(None, reversed(raw.split(b"\r"))), b"") if b"\r" in raw else raw

    @property
    def is_rate(self) -> bool:
        """True if it is a progress line as Genesis prints it: found without making a row."""
        return FPS_ALONE.fullmatch(self.raw) is not None

    def row(self) -> LogRow:
        text = clean(self.displayed[: MAX_LINE_BYTES * 2])
        return LogRow(text, self.start + 1, progress=is_mere(text), offset=self.start)


class LogFile:
    """A log file, open to be read. Raises `OSError` if it is not a regular file."""

    def __init__(self, path: Path) -> None:
        self._file = open_regular(path)
        weakref.finalize(self, os.close, self._file)  # not earlier: a thread may still read

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._file).st_size

    @property
    def inode(self) -> int:
        """Identifies the file: another one replaces it once its middle was cut out."""
        return os.fstat(self._file).st_ino

    def before(self, end: int, count: int) -> Page:
        """Returns the last `count` rows before `end`, which is the start of a line or the file's end."""
        rows, start = list[LogRow](), min(end, self.size)
        run = 0
        """Progress lines that precede the last of `rows`, which is one."""
        for line in self._up(start):
            in_run = bool(rows) and rows[-1].progress
            if in_run and (line.is_rate or line.row().progress):
                run += 1
            elif len(rows) == count:
                break
            else:
                _lengthen(rows, run, start)
                rows.append(line.row())
                run = 0
            start = line.start
            if end - start > PAGE_BYTES:
                break
        _lengthen(rows, run, start)
        return Page(rows[::-1], start, end)

    def after(self, start: int, count: int) -> Page:
        """Returns the first `count` rows from `start`, the start of a line; an unfinished line does not count."""
        rows, end = list[LogRow](), start
        run, newest = 0, None
        """Progress lines that follow the last of `rows`, which is one, and the last of them."""
        for line in self._down(start):
            in_run = bool(rows) and rows[-1].progress
            if in_run and line.is_rate:
                run, newest = run + 1, line
            elif len(rows) == count and not (in_run and line.row().progress):
                break
            else:
                _replace_newest(rows, run, newest)
                fold(rows, line.row())
                run = 0
            end = line.end + 1
            if end - start > PAGE_BYTES:
                break
        _replace_newest(rows, run, newest)
        return Page(rows, start, end)

    def around(self, offset: int, count: int, query: Query) -> Page:
        """Returns `count` rows before and after `offset`; a match of `query` in its line is among what is shown."""
        first, last = self.before(offset, count), self.after(offset, count)
        if last.rows and last.rows[0].offset == offset and query.text and not query.marks(last.rows[0]):
            last.rows[0] = self._excerpt(last.rows[0], query)
        rows = first.rows
        for row in last.rows or self.before(self.size, 1).rows:
            fold(rows, row)
        return Page(rows, first.start, max(last.end, offset))

    def locate(self, text: str, lines: int) -> int:
        """Returns the offset after the line `text`, followed by about that number of `lines`; -1 if it is not found."""
        skipped = max(0, lines - _NEARBY_LINES)
        found: tuple[int, int] | None = None
        for number, line in enumerate(self._up(start_of_last(self._file, skipped)), skipped):
            if number > lines + _NEARBY_LINES:
                break
            distance = abs(number - lines)
            if (found is None or distance < found[0]) and line.row().text == text:
                found = distance, min(line.end + 1, self.size)
        return found[1] if found is not None else -1

    # Search

    def search(
        self, query: Query, start: int, end: int, report: Callable[[list[int], int], None], stopped: Callable[[], bool]
    ) -> None:
        """Find the rows with a match between two offsets, the last first.

        `report` gets the offsets of a chunk's matches, and how far the search has come.
        """
        letters = max(_WORD.findall(query.text), key=len, default="").lower()
        word = re.compile("|".join([letters, *(f"{letters[:cut]}\x1b" for cut in range(1, len(letters)))]).encode())
        left, count, at = end, 0, end
        while at > start and not stopped():
            begin = max(start, at - _CHUNK_BYTES)
            found = list[int]()
            if self._may_match(word, begin, min(end, at + _OVERLAP_BYTES)):
                for line in self._matches(query, self._line_end(at, end), begin, stopped):
                    if line < left:
                        found.append(line)
                        left = line
            count, at = count + len(found), begin
            report(found, at)
            if count >= MAX_MATCHES:
                return

    def _may_match(self, word: re.Pattern[bytes], begin: int, end: int) -> bool:
        """False if no line between two offsets contains `word`, or a part of it before a colour: cheap, for gigabytes."""
        data = os.pread(self._file, end - begin, begin).lower()
        return word.search(data) is not None or b"\b" in data

    def _matches(self, query: Query, end: int, begin: int, stopped: Callable[[], bool]) -> Iterator[int]:
        """Yields the offsets of lines before `end`, up to the one that contains `begin`, that are shown and match."""
        below = next(self._down(end), None)
        in_run = below is not None and below.row().progress
        for line in self._up(end):
            if stopped():
                return
            row = line.row()
            if not (row.progress and in_run) and (
                query.pattern.search(row.shown) or any(self._beyond(line, row, query))
            ):
                yield line.start
            in_run = row.progress
            if line.start <= begin:
                return

    def _beyond(self, line: _Line, row: LogRow, query: Query) -> Iterator[str]:
        """Yields what surrounds matches in the part of a line that is not shown."""
        if len(row.text) <= MAX_SHOWN and not line.is_long:
            return
        if b"\r" in line.raw or b"\r" in line.tail:
            texts: Iterator[bytes] = iter([line.displayed])
        else:
            texts = (
                os.pread(self._file, min(_LINE_BYTES + _OVERLAP_BYTES, line.end - at), at)
                for at in range(line.start, line.end, _LINE_BYTES)
            )
        for raw in texts:
            text = visible(raw).decode(errors="replace")
            if found := query.pattern.search(text):
                yield text[max(0, found.start() - MAX_SHOWN // 3) : found.start() + MAX_SHOWN // 3]

    def _excerpt(self, row: LogRow, query: Query) -> LogRow:
        """Returns the row of a long line with the text around the first match."""
        line = next(self._down(row.offset))
        text = next(self._beyond(line, row, query), None)
        return row if text is None else row._replace(text=clean(f"… {text} …".encode()))

    # Lines

    def _line_end(self, offset: int, limit: int) -> int:
        """Returns the offset after the line that contains `offset`, `limit` at most; `offset` if a line starts there."""
        at = offset - 1
        while at < limit and (block := os.pread(self._file, min(_BLOCK_BYTES, limit - at), at)):
            if (found := block.find(b"\n")) >= 0:
                return at + found + 1
            at += len(block)
        return limit

    def _up(self, end: int) -> Iterator[_Line]:
        """Yields the lines before `end`, which is the start of a line or the file's end, the last first."""
        first, at, rest, tail = end, end, b"", b""
        while at > 0:
            begin = max(0, at - _BLOCK_BYTES)
            block = os.pread(self._file, at - begin, begin)
            if len(block) < at - begin:  # it was truncated
                return
            if at == first and block.endswith(b"\n"):
                end, block = end - 1, block[:-1]
            piece, *others = block.split(b"\n")
            start = begin + len(block)
            for other in reversed(others):
                start -= len(other)
                yield _Line(start, end, other + rest, tail)
                rest, tail, end = b"", b"", start - 1
                start -= 1
            rest = piece + rest
            if len(rest) > _LINE_BYTES:
                rest, tail = rest[:_LINE_BYTES], tail or rest[-MAX_LINE_BYTES:]
            at = begin
        if first > 0:
            yield _Line(0, end, rest, tail)

    def _down(self, start: int) -> Iterator[_Line]:
        """Yields the finished lines from `start`, the start of a line."""
        at, raw, tail = start, b"", b""
        while block := os.pread(self._file, _BLOCK_BYTES, at):
            *pieces, rest = block.split(b"\n")
            for piece in pieces:
                at += len(piece) + 1
                raw, tail = _joined(raw, tail, piece)
                yield _Line(start, at - 1, raw, tail)
                start, raw, tail = at, b"", b""
            at += len(rest)
            raw, tail = _joined(raw, tail, rest)


def _lengthen(rows: list[LogRow], lines: int, start: int) -> None:
    """Count further lines, from the offset `start`, to the last row."""
    if lines:
        rows[-1] = rows[-1]._replace(lines=rows[-1].lines + lines, offset=start)


def _replace_newest(rows: list[LogRow], lines: int, newest: _Line | None) -> None:
    """Add further lines, up to `newest`, to the last row."""
    if lines and newest is not None:
        fold(rows, newest.row()._replace(lines=lines))


def _joined(raw: bytes, tail: bytes, more: bytes) -> tuple[bytes, bytes]:
    """Returns the beginning and, if it is longer than `_LINE_BYTES`, the end of a line that continues with `more`."""
    if len(raw) + len(more) <= _LINE_BYTES and not tail:
        return raw + more, b""
    return (raw + more)[:_LINE_BYTES], ((tail or raw) + more)[-MAX_LINE_BYTES:]


class FileSearch:
    """The matches of a query in a log file.

    Attributes:
        file: The file searched.
        found: Offsets of the lines that match, the last first.
        running: True until the beginning of the file, or the limit of matches, is reached.
    """

    def __init__(self, file: LogFile, query: Query) -> None:
        self.file = file
        self.found: list[int] = []
        self.running = True
        self._query = query
        self._size = file.size
        self._at = self._size
        self._stopped = False

    @property
    def is_full(self) -> bool:
        """True if there are more matches than are collected."""
        return len(self.found) >= MAX_MATCHES

    @property
    def searched_pct(self) -> int:
        """Percent of the file searched."""
        return 100 if not self._size else int(100 * (self._size - self._at) / self._size)

    def stop(self) -> None:
        """Cancel the search."""
        self._stopped = True

    async def run(self, on_progress: Callable[[], object]) -> None:
        """Search from the end to the beginning. Raises `OSError`."""
        searching = asyncio.ensure_future(
            in_daemon_thread(self.file.search, self._query, 0, self._size, self._report, lambda: self._stopped)
        )
        try:
            while not searching.done():
                await asyncio.wait({searching}, timeout=_REPORT_S)
                if not searching.done():
                    on_progress()
            await searching
        finally:
            self.stop()
            self.running = False

    async def catch_up(self) -> None:
        """Search what has been written since. Raises `OSError`."""
        start, self._size = self._size, self.file.size
        if start < self._size:
            newer: list[int] = []
            await in_daemon_thread(
                self.file.search, self._query, start, self._size, lambda found, _: newer.extend(found), lambda: False
            )
            self.found[:0] = newer

    def _report(self, found: list[int], at: int) -> None:
        self.found += found
        self._at = at
