"""The texts of what the jobs have reported: short ones in memory, long ones on the disk, however many jobs there are."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import BinaryIO, NamedTuple

_SHORT_BYTES = 4096


class _Place(NamedTuple):
    offset: int
    size: int
    hashed: int
    """The text's hash: one that is given again is not written again."""


class LongTexts:
    """A text for each number. Long ones are in a temporary file without a name, which vanishes with the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._end = 0
        self._short: dict[int, str] = {}
        self._long: dict[int, _Place] = {}

    def put(self, number: int, text: str) -> None:
        """Replace the text of a number; on a disk that does not take it, it stays in memory."""
        place, hashed = self._long.get(number), hash(text)
        if place is not None and place.hashed == hashed:
            return
        data = text.encode()
        if len(data) > _SHORT_BYTES:
            # In the place of the old one where it fits, as a job that runs reports again and again.
            offset = place.offset if place is not None and len(data) <= place.size else self._end
            if self._write(offset, data):
                self._end = max(self._end, offset + len(data))
                self._long[number] = _Place(offset, len(data), hashed)
                self._short.pop(number, None)
                return
        self._long.pop(number, None)
        self._short[number] = text

    def _write(self, offset: int, data: bytes) -> bool:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - as long as this lives
            self._file.seek(offset)
            return self._file.write(data) == len(data)
        except OSError:
            return False

    def get(self, number: int, default: str) -> str:
        """The text of a number, or `default` where none was given. Raises `OSError` where the disk does not give it."""
        place = self._long.get(number)
        if place is None or self._file is None:
            return self._short.get(number, default)
        self._file.seek(place.offset)
        return self._file.read(place.size).decode()
