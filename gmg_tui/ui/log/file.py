"""A log file as rows: those before and after an offset, and the search through all of it.

Offsets stay valid when the file is replaced, since the old file remains open, and a file that was truncated just ends
earlier. Everything here blocks, so it runs in threads; `os.pread` needs no lock.
"""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.files import open_regular, start_of_last
from gmg_tui.model.text import MAX_LINE_BYTES, clean, visible
from gmg_tui.scripts.genesis.output.line_patterns import FPS_ALONE, REPORTED, is_mere
from gmg_tui.ui.log.rows import MAX_SHOWN, LogRow, Query, join

MAX_PAGE_BYTES: Final = 2 << 20
"""Bytes read for one page; a longer run of progress continues on the next page."""
MAX_MATCHES: Final = 100_000
"""A search stops after this many."""
_BLOCK_BYTES: Final = 1 << 16
_LINE_BYTES: Final = 1 << 16
"""Only the beginning and the end of a longer line are kept in memory."""
_CHUNK_BYTES: Final = 2 << 20
"""Bytes searched between two reports of the progress."""
_OVERLAP_BYTES: Final = 4096
"""Overlap of two parts of a long line, so that a match is whole in one of them."""
_NEARBY_LINES: Final = 500
_REPORT_S: Final = 0.1
"""Seconds between two reports of a search's progress."""
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_MAYBE_PROGRESS: Final = re.compile(rb"%\||Running at |" + REPORTED.encode())


class _Line(NamedTuple):
    start: int
    end: int
    """The offset of the next line; of an unfinished one, of the file's end."""
    raw: bytes
    """The line, or the first `_LINE_BYTES` of it."""
    tail: bytes = b""
    """The end of a longer line."""
    finished: bool = True

    @property
    def displayed(self) -> bytes:
        r"""The line as a terminal shows it: a segment that ends with `\r` is overwritten by the next one."""
        raw = self.tail if b"\r" in self.tail else self.raw
        return next(filter(None, reversed(raw.split(b"\r"))), b"") if b"\r" in raw else raw

    @property
    def text(self) -> str:
        return clean(self.displayed[: MAX_LINE_BYTES * 2])

    @property
    def is_progress(self) -> bool:
        """True if it is finished and holds only progress; the lines of Genesis are found without cleaning them."""
        return self.finished and (
            FPS_ALONE.fullmatch(self.raw) is not None
            or (_MAYBE_PROGRESS.search(self.raw) is not None and is_mere(self.text))
        )


class _Run(NamedTuple):
    """A line, or consecutive progress lines."""

    start: int
    newest: _Line
    lines: int
    progress: bool

    def row(self) -> LogRow:
        return LogRow(self.newest.text, self.start, self.newest.end, self.lines, self.progress)


def _runs(lines: Iterable[_Line]) -> list[_Run]:
    runs = list[_Run]()
    for line in lines:
        progress = line.is_progress
        if progress and runs and runs[-1].progress:
            runs[-1] = _Run(runs[-1].start, line, runs[-1].lines + 1, progress)
        else:
            runs.append(_Run(line.start, line, 1, progress))
    return runs


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
    def identity(self) -> tuple[int, int]:
        """Differs from that of the file that replaces it once its middle was cut out."""
        status = os.fstat(self._file)
        return status.st_dev, status.st_ino

    def before(self, end: int, count: int) -> list[LogRow]:
        """Returns the last `count` rows before `end`, which is the start of a line or the file's end."""
        end, size = min(end, self.size), _BLOCK_BYTES
        while True:
            start = self.start_of_line(end - size)
            runs = _runs(self.lines(start, end))
            if len(runs) > count or start == 0 or size >= MAX_PAGE_BYTES:
                return [run.row() for run in runs[-count:]]
            size *= 4

    def after(self, start: int, count: int) -> list[LogRow]:
        """Returns the first `count` rows from the line at `start`."""
        start, size = self.start_of_line(start), _BLOCK_BYTES
        while True:
            runs = _runs(self.lines(start, start + size))
            if len(runs) > count or start + size >= self.size or size >= MAX_PAGE_BYTES:
                return [run.row() for run in runs[:count]]
            size *= 4

    def around(self, offset: int, count: int, query: Query) -> list[LogRow]:
        """Returns `count` rows before and after the line at `offset`; a match of `query` in it is among what is shown."""
        offset = self.start_of_line(min(offset, self.size))
        below = self.after(offset, count)
        if below and query.text and not query.marks(below[0]):
            line = next(self.lines(offset, offset + 1))
            hidden = next(self.hidden_matches(line, query), None)
            if hidden is not None:
                below[0] = below[0]._replace(text=clean(f"… {hidden} …".encode()))
        return join(self.before(offset, count), below)

    def locate(self, text: str, lines: int) -> int:
        """Returns the offset after the line `text`, followed by about that number of `lines`; -1 if it is not found."""
        start, end = (start_of_last(self._file, max(0, lines + near)) for near in (_NEARBY_LINES, -_NEARBY_LINES))
        nearby = [*self.lines(start, end)]
        below = len(nearby) + max(0, lines - _NEARBY_LINES)
        found = [(abs(below - number - lines), line.end) for number, line in enumerate(nearby, 1) if line.text == text]
        return min(found, default=(0, -1))[1]

    def hidden_matches(self, line: _Line, query: Query) -> Iterator[str]:
        """Yields the surroundings of matches in a line that is not shown whole."""
        if len(line.raw) <= MAX_SHOWN or (not line.tail and len(line.text) <= MAX_SHOWN):
            return
        if b"\r" in line.raw or b"\r" in line.tail:
            texts: Iterator[bytes] = iter([line.displayed])
        else:
            texts = self.parts(line.start, line.end, _LINE_BYTES)
        for raw in texts:
            text = visible(raw).decode(errors="replace")
            if found := query.pattern.search(text):
                yield text[max(0, found.start() - MAX_SHOWN // 3) : found.start() + MAX_SHOWN // 3]

    def parts(self, start: int, end: int, size: int) -> Iterator[bytes]:
        """Yields the bytes between two offsets in parts that overlap."""
        for at in range(start, end, size):
            yield os.pread(self._file, min(size + _OVERLAP_BYTES, end - at), at)

    def start_of_line(self, offset: int) -> int:
        """Returns the start of the line that contains `offset`, which it is if a line starts there."""
        while offset > 0:
            begin = max(0, offset - _BLOCK_BYTES)
            if (found := os.pread(self._file, offset - begin, begin).rfind(b"\n")) >= 0:
                return begin + found + 1
            offset = begin
        return 0

    def lines(self, start: int, stop: int) -> Iterator[_Line]:
        """Yields the lines that begin between `start`, the start of a line, and `stop`; the last may be unfinished."""
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
    """Returns the beginning and, if it is longer than `_LINE_BYTES`, the end of a line that continues with `more`."""
    if len(raw) + len(more) <= _LINE_BYTES and not tail:
        return raw + more, b""
    return (raw + more)[:_LINE_BYTES], ((tail or raw) + more)[-MAX_LINE_BYTES:]


class FileSearch:
    """The matches of a query in a log file.

    Attributes:
        file: The file searched.
        found: Offsets of the lines that match, the last first; of consecutive progress lines only the newest counts.
        running: True until the beginning of the file, or the limit of matches, is reached.
    """

    def __init__(self, file: LogFile, query: Query) -> None:
        self.file = file
        self.found: list[int] = []
        self.running = True
        self._query = query
        letters = max(_WORD.findall(query.text), key=len, default="").lower()
        parts = (f"{letters[:cut]}\x1b" for cut in range(1, len(letters)))
        self._word = re.compile("|".join([letters, *parts, "\b"]).encode())
        """Found in each matching line: a word, or a part of it before a colour, or a backspace."""
        self._size = self._at = file.size
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
        """Cancels the search."""
        self._stopped = True

    async def run(self, on_progress: Callable[[], object]) -> None:
        """Searches from the end to the beginning. Raises `OSError`."""
        searching = asyncio.ensure_future(in_daemon_thread(self._search))
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
        """Searches what has been written since. Raises `OSError`."""
        start, self._size = self._size, self.file.size
        if start < self._size:
            start = self.file.start_of_line(start)
            newer = await in_daemon_thread(lambda: self._matches(start, self._size))
            self.found[:0] = [offset for offset in newer if not self.found or offset > self.found[0]]

    def _search(self) -> None:
        while self._at > 0 and not self._stopped and not self.is_full:
            start = self.file.start_of_line(self._at - _CHUNK_BYTES)
            self.found += self._matches(start, self._at)
            self._at = start

    def _matches(self, start: int, end: int) -> list[int]:
        """Returns the matches between two starts of lines, the last first."""
        if not any(self._word.search(part.lower()) for part in self.file.parts(start, end, _CHUNK_BYTES)):
            return []
        runs = _runs(self.file.lines(start, end))
        following = next(self.file.lines(end, end + 1), None)
        if runs and runs[-1].progress and following is not None and following.is_progress:
            runs.pop()
        return [run.newest.start for run in reversed(runs) if self._is_match(run)]

    def _is_match(self, run: _Run) -> bool:
        if self._query.pattern.search(run.row().shown):
            return True
        return next(self.file.hidden_matches(run.newest, self._query), None) is not None
