"""A program in a pseudo-terminal whose output is recorded with timestamps and drawn only afterwards."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self

import pyte

QUIET_S = 0.03
"""A frame is over when so long nothing follows; shorter than the 50 ms between two progress lines."""
_READ_BYTES = 1 << 16
_ANSWERS = {b"\x1b[c": b"\x1b[?62;22c", b"\x1b[?2026$p": b"\x1b[?2026;2$y"}
"""Questions that a program waits for an answer to: what terminal it is, whether it can hold a frame back until it is
whole. The answers are those of a present-day terminal."""
_ASKING_S = 30.0
"""Programs ask at their start, which may take long on a busy machine."""


class Chunk(NamedTuple):
    """What was read at once."""

    at: float
    """Monotonic seconds."""
    data: bytes


class PseudoTerminal:
    """Runs `command` in a terminal of its own, as the leader of a session.

    Reading costs next to nothing: a thread notes each chunk. What the screen shows is worked out from the notes when
    asked for, so that the emulator takes no time from the program.

    Args:
        command: What to run.
        columns: Width in cells.
        rows: Height in cells.
        env: Its whole environment.
        cwd: Where it runs.
    """

    def __init__(
        self, command: Sequence[str], *, columns: int, rows: int, env: Mapping[str, str], cwd: str | None = None
    ) -> None:
        self.columns, self.rows = columns, rows
        self.chunks: list[Chunk] = []
        self.bytes = 0
        """How many bytes the program has sent."""
        self._reading = threading.Event()
        self._reading.set()
        self._over = os.eventfd(0)
        """Makes the thread stop reading."""
        self._master, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.started = time.monotonic()
        """When it was started, monotonic seconds."""
        self.process = subprocess.Popen(
            command,
            stdin=end,
            stdout=end,
            stderr=end,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(end)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        ready = select.poll()
        for descriptor in (self._master, self._over):
            ready.register(descriptor, select.POLLIN)
        while True:
            self._reading.wait()
            if any(descriptor == self._over for descriptor, _ in ready.poll()):
                return
            if not self._reading.is_set():
                continue
            try:
                data = os.read(self._master, _READ_BYTES)
            except OSError:
                return  # the program has closed its end
            if not data:
                return
            now = time.monotonic()
            self.chunks.append(Chunk(now, data))
            self.bytes += len(data)
            self._took(now, data)

    def _took(self, now: float, data: bytes) -> None:
        if now - self.started < _ASKING_S:
            for question, answer in _ANSWERS.items():
                if question in data:
                    os.write(self._master, answer)

    def stall(self) -> None:
        """Stop reading, as a terminal behind a dead line does."""
        self._reading.clear()

    def resume(self) -> None:
        self._reading.set()

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size; the kernel sends SIGWINCH."""
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Close the window: the terminal's own side of the pseudo-terminal goes."""
        if self._master < 0:
            return
        os.eventfd_write(self._over, 1)
        self.resume()
        self._thread.join()
        os.close(self._master)
        os.close(self._over)
        self._master = -1

    def press(self, *keys: str) -> float:
        """Type. Returns when, monotonic seconds."""
        now = time.monotonic()
        for key in keys:
            os.write(self._master, key.encode())
        return now

    def wait_for(self, holds: Callable[[str], bool], *, timeout_s: float) -> bool:
        """Check every half second until `holds` is true of the screen's text; whether it ever was."""
        deadline = time.monotonic() + timeout_s
        while not holds(self.text()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                return False
            time.sleep(0.5)
        return True

    def text(self) -> str:
        screen = pyte.Screen(self.columns, self.rows)
        pyte.ByteStream(screen).feed(b"".join(chunk.data for chunk in list(self.chunks)))
        return text_of(screen)

    def first(self, holds: Callable[[str], bool]) -> float | None:
        """When the screen first showed what `holds` is true of, and was written for `QUIET_S` no more; None for never."""
        chunks = list(self.chunks)
        screen = pyte.Screen(self.columns, self.rows)
        stream = pyte.ByteStream(screen)
        for number, chunk in enumerate(chunks, 1):
            stream.feed(chunk.data)
            whole = number == len(chunks) or chunks[number].at - chunk.at >= QUIET_S
            if whole and holds(text_of(screen)):
                return chunk.at
        return None

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()


def text_of(screen: pyte.Screen) -> str:
    """What a screen shows. `pyte.Screen.display` fails where one half of a wide character has been written over."""
    lines = (screen.buffer[row] for row in range(screen.lines))
    return "\n".join("".join(line[column].data or " " for column in range(screen.columns)) for line in lines)
