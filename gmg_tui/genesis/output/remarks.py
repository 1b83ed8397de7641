"""Counts what a worker's output says of warnings and errors."""

from __future__ import annotations

from typing import Final

from gmg_tui.genesis.output import lines
from gmg_tui.genesis.output.log_text import TRACEBACK, Severity, head, severity

MOST: Final = 9_999
"""Beyond so many of a kind no more are counted: nobody needs the number, and a flood of them must cost nothing."""
_MAX_READ: Final = 600
"""Bytes of a line that are looked at."""
_WARNINGS: Final = (b"WARN", b"arning: ", b"[W ")
_INTERRUPT: Final = "KeyboardInterrupt"
_ERRORS: Final = (b"ERROR", b"CRITICAL", b"FATAL", TRACEBACK.encode(), _INTERRUPT.encode())
"""A line without one of these is neither a warning nor the beginning of an error."""
_LEVELS: Final = ("ERROR", "CRITICAL", "FATAL")


class Remarks:
    """How many warnings and errors one attempt has printed, each up to `MOST`.

    An exception counts once: its traceback, and the line by which Genesis's logger repeats it. An interrupt, by which a
    person stops a script, is none.
    """

    def __init__(self) -> None:
        self.warnings = 0
        self.errors = 0
        self._in_traceback = False

    def take(self, block: bytes) -> None:
        """Read whole lines."""
        signs = (*(_WARNINGS if self.warnings < MOST else ()), *(_ERRORS if self.errors < MOST else ()))
        if not any(sign in block for sign in signs):
            return
        for line in block.splitlines():
            if any(sign in line for sign in signs):
                self._take_line(lines.plain(line[:_MAX_READ]).decode(errors="replace"))

    def _take_line(self, text: str) -> None:
        found = severity(text)
        if found is Severity.WARNING and not text.startswith("WARNING:genesis:"):  # the root logger repeats it
            self.warnings = min(self.warnings + 1, MOST)
        elif found is Severity.ERROR and text.startswith(TRACEBACK):
            self._add_error()
            self._in_traceback = True
        elif self._in_traceback and text.startswith(_INTERRUPT):
            self.errors -= 1
        elif head(text) is not None or text.startswith(_LEVELS):  # else it is the last line of a traceback
            if found is Severity.ERROR and not self._in_traceback:
                self._add_error()
            self._in_traceback = False

    def _add_error(self) -> None:
        self.errors = min(self.errors + 1, MOST)
