"""The whole program in a real pseudo-terminal, and what a person would see there."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import pyte
from pyte.screens import Char

from tests.patience import LONG_S
from tests.pseudo_terminal import PseudoTerminal, text_of

ENTER, ESCAPE, CTRL_C = "\r", "\x1b", "\x03"
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"

_FRAME_BEGINS, _FRAME_ENDS = b"\x1b[?2026h", b"\x1b[?2026l"
"""Between them a program writes a frame, as a terminal may ask it to (synchronised output)."""
_FRAME_S = 2.0
"""After so long without a byte nothing more of a frame is expected."""
_LAST_WORDS_S = 10.0
"""How long what a program has written may take to be read once it has ended."""


class Terminal(PseudoTerminal):
    """A terminal of a certain size with a program in it, whose screen is drawn as it is written.

    Args:
        args: What follows `gmg-tui` on the command line.
        columns: Width in cells.
        rows: Height in cells.
        env: Variables beside the test's own environment.
        cwd: Where it runs.
        command: What to run instead of gmg-tui; `args` follow it.
    """

    def __init__(
        self,
        *args: str,
        columns: int = 120,
        rows: int = 36,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        command: Sequence[str] = (sys.executable, "-m", "gmg_tui"),
    ) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._drawn = 0
        """How many chunks are on the screen, but for `_rest`."""
        self._rest = b""
        """What is not on the screen yet of the last of them."""
        self._last = b""
        """The last bytes on the screen: a mark may have come in two pieces."""
        self._half = False
        """Whether a frame is on the screen in part only."""
        self._came = threading.Event()
        super().__init__(
            (*command, *args),
            columns=columns,
            rows=rows,
            env={**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})},
            cwd=cwd,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def raw(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)

    def _took(self, now: float, data: bytes) -> None:
        super()._took(now, data)
        self._came.set()

    def _draw(self) -> None:
        """Draw all that has come."""
        while self._draw_frame():
            pass

    def _draw_frame(self) -> bool:
        """Draw what has come, to the end of a frame at most. Returns whether more has come."""
        self._came.clear()
        while self._rest or self._drawn < len(self.chunks):
            data = self._rest
            if not data:
                data = self.chunks[self._drawn].data
                self._drawn += 1
            piece, mark, self._rest = data.partition(_FRAME_ENDS)
            self._feed(piece + mark)
            if not self._half:
                break
        return bool(self._rest) or self._drawn < len(self.chunks)

    def _feed(self, data: bytes) -> None:
        self._stream.feed(data)
        seen = self._last + data
        begun, ended = seen.rfind(_FRAME_BEGINS), seen.rfind(_FRAME_ENDS)
        if begun != ended:
            self._half = begun > ended
        self._last = seen[1 - len(_FRAME_ENDS) :]

    def press(self, *keys: str) -> float:
        """As `PseudoTerminal.press`; what is waited for then is looked for in later frames alone."""
        self._draw()
        return super().press(*keys)

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size, which cuts what is on it, as a real one does."""
        self._draw()
        self._screen.resize(rows, columns)
        super().resize(columns, rows)

    def wipe(self) -> None:
        """Clear it, as a program may that writes to the terminal beside this one."""
        self._draw()
        self._screen.erase_in_display(2)

    def text(self) -> str:
        self._draw()
        return text_of(self._screen)

    def cells(self) -> list[list[Char]]:
        """What is on the screen, with its colours."""
        self._draw()
        lines = (self._screen.buffer[row] for row in range(self._screen.lines))
        return [[line[column] for column in range(self._screen.columns)] for line in lines]

    def line(self, word: str) -> str:
        return next((line for line in text_of(self._screen).splitlines() if word in line), "")

    def settle(self, redraw: str, where: str, *, timeout_s: float = LONG_S) -> None:
        """Wait until it shows what it shows again when all was wiped away and the key `redraw` is pressed."""
        deadline = time.monotonic() + timeout_s
        while True:
            before = self.cells()
            self.wipe()
            self.press(redraw)
            with contextlib.suppress(AssertionError):
                self.until(lambda _, before=before: self.cells() == before, timeout_s=5.0)  # type: ignore[misc]
                return
            assert self.alive, self.raw[-4000:].decode(errors="replace")
            assert time.monotonic() < deadline, f"{where}: it does not come back as it was\n{self.text()}"

    def until(self, *wanted: str | Callable[[str], bool], timeout_s: float = LONG_S) -> str:
        """Wait until all of `wanted` are true of the screen: words on it, or functions of its text.

        Each whole frame is looked at: on a busy machine several come at once, and a message may be in one of them alone.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            ended = not self.alive
            if ended:
                self._thread.join(_LAST_WORDS_S)
            more = self._draw_frame()
            text = text_of(self._screen)
            # A program that dies in a frame leaves it unfinished.
            whole = ended or not self._half or time.monotonic() - self.chunks[-1].at > _FRAME_S
            if whole and all(want in text if isinstance(want, str) else want(text) for want in wanted):
                return text
            if more:
                continue
            assert not ended, f"the program ended without {wanted} on the screen:\n{text}"
            assert time.monotonic() < deadline, f"never on the screen: {wanted}\n{text}"
            self._came.wait(0.05)

    def command(self, title: str) -> None:
        """Run a command of the palette, and wait until the palette is closed."""
        self.press("\x10")
        self.until("Search for commands")
        self.press(title)
        self.until(lambda text: text.count(title) > 1)
        self.press(ENTER)
        self.until(lambda text: title not in text)

    def quit(self) -> None:
        """Stop the workers and leave, as a person would."""
        self.press("q")
        self.until("Leave them running")
        self.press("x")
        assert self.until_ended() == 130

    def until_ended(self, timeout_s: float = LONG_S) -> int:
        """Wait until the program has ended. Returns its exit status, negative for a signal."""
        status = self.process.wait(timeout_s)
        self._thread.join(_LAST_WORDS_S)
        self._draw()
        return status
