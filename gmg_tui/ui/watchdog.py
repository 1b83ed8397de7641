"""Ends the interface when its terminal is gone, whatever the rest of the process is blocked in.

Textual 8.2.8 does not notice a lost terminal. Its input thread reads end-of-file again and again, at 100 % of a core
(`drivers/linux_driver.py`, `run_input_thread`; Textualize/textual#6690), and its output goes through a queue of 30
writes (`drivers/_writer_thread.py`) that blocks the event loop when nobody reads the terminal. So the watch is a
thread of its own that sleeps in `poll(2)` and costs nothing: the kernel reports the hang-up of the terminal to it, and
the handlers of SIGHUP and SIGTERM write to its pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from typing import Any

from gmg_tui.errors import GmgError

GRACE_S = 1.5
"""How long the process may take to end in order once the terminal is lost."""
EXIT_CODE = 129
"""Exit status when it had to be ended by force: 128 and the number of SIGHUP, as a shell gives it."""

_SIGNALS = (signal.SIGHUP, signal.SIGTERM)
_RESTORE_S = 0.3
_LEAVE = b"\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
"""What Textual's driver writes to restore a terminal (`LinuxDriver.stop_application_mode`)."""


def check_terminal() -> None:
    """Raise `GmgError` if standard input, or standard error (where Textual draws), is not a terminal."""
    for stream, name in ((sys.__stdin__, "input"), (sys.__stderr__, "error")):
        if stream is None or not os.isatty(stream.fileno()):
            raise GmgError(f"standard {name} is not a terminal; run gmg-tui in one, or use --headless")


def drain() -> None:
    """Throw away the keys that nobody has read: they were meant for the interface, not for the shell."""
    with contextlib.suppress(termios.error):  # the terminal is gone, and its keys with it
        termios.tcflush(0, termios.TCIFLUSH)


@contextlib.contextmanager
def watch(
    on_lost: Callable[[], object], *, descriptor: int = 0, grace_s: float = GRACE_S, terminal: bool = True
) -> Iterator[None]:
    """Watch the terminal at `descriptor` (of the keys) while the context lasts; to be entered in the running event loop.

    Where there is no `terminal`, it is the pipe that keys come through, which is lost when its other end is closed.

    Once it is lost — hung up, no terminal at all, or SIGHUP or SIGTERM came — `on_lost` is called in the event loop,
    once, and the process has `grace_s` seconds to end. Then it is ended by `os._exit`, without the interpreter's
    clean-up, because that would join Textual's writer thread, which may wait for ever in a write to a terminal that
    nobody reads. This holds also after the context has been left: whoever prints a last word then may hang just so.
    The engine is another process; nothing of the session is lost. `on_lost` must not block.
    """
    loop, lost = asyncio.get_running_loop(), threading.Event()
    settings = _settings(descriptor) if terminal else None
    reader, writer = os.pipe2(os.O_CLOEXEC)

    def is_lost() -> bool:
        """Wait until the terminal is lost, or the context is left."""
        if terminal and settings is None:
            return True
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        poll.register(descriptor, 0)  # no event asked for: POLLHUP, POLLERR and POLLNVAL come unasked
        return descriptor in dict(poll.poll()) or b"!" in os.read(reader, 64)

    def run() -> None:
        if not is_lost():
            os.close(reader)
            os.close(writer)
            return
        lost.set()
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is on its way out
            loop.call_soon_threadsafe(on_lost)
        threading.Event().wait(grace_s)  # the interpreter's end takes this daemon thread with it
        if settings is not None:
            # In a thread that may be left behind: a write to a terminal waits for the lock that a blocked write holds.
            restorer = threading.Thread(target=_restore, args=(descriptor, settings), daemon=True)
            restorer.start()
            restorer.join(_RESTORE_S)
        os._exit(EXIT_CODE)

    # Not `loop.add_signal_handler`: its callback waits for the loop, which may be blocked by a stalled terminal.
    before = {number: signal.signal(number, lambda *_: os.write(writer, b"!")) for number in _SIGNALS}
    threading.Thread(target=run, name="gmg-terminal-watchdog", daemon=True).start()
    try:
        yield
    finally:
        if not lost.is_set():
            for number, handler in before.items():
                signal.signal(number, handler)
        os.write(writer, b".")


def _settings(descriptor: int) -> list[Any] | None:
    """The terminal's settings; None when there is no terminal, or it is gone."""
    try:
        return termios.tcgetattr(descriptor)
    except termios.error:
        return None


def _restore(descriptor: int, settings: list[Any]) -> None:
    try:
        termios.tcsetattr(descriptor, termios.TCSANOW, settings)
        termios.tcflush(descriptor, termios.TCOFLUSH)  # what nobody has read gives way to what follows
        os.write(descriptor, _LEAVE)
    except (termios.error, OSError):
        return  # there is no terminal left to restore
