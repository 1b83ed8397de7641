"""The lines that `gmg_tui.report_fps` prints: `gmg:fps {"fps": 5700000.0, "n_envs": 4096}`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gmg_tui.readers.interface import Figures, figures

MARK = b"gmg:fps "
_MOST_BYTES = 8192
_NAMES = frozenset({"fps", "n_envs", "done", "total"})
_decoder = msgspec.json.Decoder(dict[str, float])
_FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ReportedLines:
    """Reads them; a log's prefix may precede the mark. Lines that are no JSON object of numbers are counted as wrong."""

    def __init__(self) -> None:
        self._wrong = ""

    def read(self, block: bytes) -> Iterator[Figures]:
        """The figures of those lines."""
        if MARK not in block:
            return
        for line in block.splitlines():
            _, mark, text = line.partition(MARK)
            if not mark:
                continue
            try:
                said = _decoder.decode(text[:_MOST_BYTES].strip())
            except _FAULTS as error:
                self._wrong = f"a gmg:fps line is no JSON object of numbers: {str(error)[:120]}"
                continue
            yield figures(said, {name: value for name, value in said.items() if name not in _NAMES})

    @property
    def warnings(self) -> tuple[str, ...]:
        """That a line could not be read, and why."""
        return (self._wrong,) if self._wrong else ()
