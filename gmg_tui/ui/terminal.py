"""The terminal: its driver, its loss, notifications, and the clipboard."""

import asyncio
import contextlib
import os
import select
import signal
import sys
import termios
import threading
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.console import Console
from textual._compositor import ChopsUpdate
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.binding import ActiveBinding
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, Resize
from textual.message_pump import MessagePump
from textual.screen import Screen

from gmg_tui.machine.folders import distrust
from gmg_tui.model import Occurrence, units
from gmg_tui.model.text import one_line, safe

Result = TypeVar("Result")

MAX_CELLS: Final = 1000
"""Maximum width and height that a terminal or browser may report, in cells."""


def _render_cropped(update: ChopsUpdate, console: Console) -> str:
    output = ""
    for y, left, right in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x < right and end > left:
                start = max(x, left)
                output += f"\x1b[{y + 1};{start + 1}H{strip.crop(start - x, min(end, right) - x).render(console)}"
    return output


def patch_partial_updates() -> None:
    """Makes Textual 8.2.8 send only the cells of dirty regions; by itself, it does not crop strips on the left."""
    ChopsUpdate.render_segments = _render_cropped  # type: ignore[assignment, method-assign]


def _unset_exported_size() -> None:
    """Unsets COLUMNS and LINES, often exported in containers, if the terminal has a size: they would override it."""
    with contextlib.suppress(OSError):
        if all(os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)):
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)


class TerminalDriver(LinuxDriver):
    """Textual's driver without job control.

    Textual 8.2.8 restarts its driver on every SIGCONT, even without a prior SIGTSTP: then two threads read the keys,
    and the terminal stays raw at exit. With this driver, no key suspends the process.
    """

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        _unset_exported_size()
        patch_partial_updates()
        app.terminal = self

    def start_application_mode(self) -> None:
        """Takes over the terminal, and redraws it after SIGCONT."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        redraw = partial(self._app.call_later, self._app.run_action, "app.redraw")
        signal.signal(signal.SIGCONT, lambda *_: self._loop.call_soon_threadsafe(redraw))

    def run_input_thread(self) -> None:
        """Reads keys until the exit. Skips input that ends the reader of Textual 8.2.8, such as any that is not UTF-8."""
        while not self.exit_event.is_set():
            with contextlib.suppress(ArithmeticError, LookupError, ValueError):
                super().run_input_thread()

    def stop_application_mode(self) -> None:
        """Restores the terminal and the default signal handlers."""
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        super().stop_application_mode()


_FOOTER_ORDER: Final = {"help": 0, "quit": 1, "detach": 2, "back": 3, "queue": 4}
"""Positions of the binding ids that come first on every screen, since a narrow footer is cut at the end."""


def call_after(pump: MessagePump, delay_s: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
    """Calls `callback` in the message loop of an app or widget after a delay. Returns a handle to cancel the call.

    `set_timer` in Textual 8.2.8 never calls back if the process stalls for longer than the delay while the timer
    starts, as the timer then skips its only tick (`Timer._run`).
    """
    return asyncio.get_running_loop().call_later(delay_s, pump.call_later, callback)


class TrueSizeScreen(Screen[Result]):
    """The base of all screens: corrects stale sizes, and orders the keys.

    After a layout, a Textual 8.2.8 screen posts itself the size it was laid out for. If the terminal has sent a newer
    size by then, the stale one is queued behind it and wins (`Resize.can_replace`).
    """

    async def on_event(self, event: Event) -> None:
        """Replaces the size in resize events with the terminal's."""
        if isinstance(event, Resize) and event.size != self.app.size:
            event = Resize(self.app.size, self.app.size)
        await super().on_event(event)

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Closes this screen, once: with a key pressed twice, Textual 8.2.8 would also close the screen below."""
        return super().dismiss(result) if self.is_current else AwaitComplete()

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """Textual's bindings, those in `_FOOTER_ORDER` first, even if remapped."""
        active = super().active_bindings.items()
        return dict(sorted(active, key=lambda item: _FOOTER_ORDER.get(item[1].binding.id or "", len(_FOOTER_ORDER))))


# A lost terminal

GRACE_S = 1.5
"""Seconds for a clean exit after the terminal is lost."""
EXIT_CODE = 129
"""Exit status after a forced exit: 128 plus SIGHUP's number, as in shells."""
_ENDING_SIGNALS = (signal.SIGHUP, signal.SIGTERM)
_RESTORE_TIMEOUT_S = 0.3
_RESET = b"\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
"""The sequences with which Textual's driver restores a terminal (`LinuxDriver.stop_application_mode`)."""


def drop_keys() -> None:
    """Discards unread keys, which were meant for the interface, not for the shell."""
    with contextlib.suppress(termios.error):  # the terminal is gone
        termios.tcflush(0, termios.TCIFLUSH)


@contextlib.contextmanager
def watch(
    on_lost: Callable[[], object], *, descriptor: int = 0, grace_s: float = GRACE_S, terminal: bool = True
) -> Iterator[None]:
    """Ends the process if the terminal whose input is `descriptor` is lost. Enter this context in a running event loop.

    Textual 8.2.8 does not notice a lost terminal: its input thread keeps reading end-of-file
    (Textualize/textual#6690), and its output blocks the event loop when nobody reads the terminal. So a
    separate thread sleeps in `poll(2)`, until the kernel reports a hang-up or the handlers of SIGHUP and SIGTERM
    write to a pipe. Without a `terminal`, the thread watches the pipe that delivers keys, which
    is lost when the other end is closed.

    After a hang-up, SIGHUP or SIGTERM, `on_lost` is called once in the event loop, and the process has `grace_s`
    seconds to exit. Then `os._exit` ends it without the interpreter's clean-up, which would join Textual's writer
    thread, and that may block forever in a write to a terminal that nobody reads. The time limit also applies after
    leaving the context, since printing a last line may block the same way.
    The engine is another process, so the session loses nothing. `on_lost` must not block.
    """
    loop, lost = asyncio.get_running_loop(), threading.Event()
    settings = _terminal_settings(descriptor) if terminal else None
    reader, writer = os.pipe2(os.O_CLOEXEC)

    def wait_for_loss() -> bool:
        """Waits until the terminal is lost or the context is left. Returns True if it is lost."""
        if terminal and settings is None:
            return True
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        poll.register(descriptor, 0)  # POLLHUP, POLLERR and POLLNVAL are always reported
        return descriptor in dict(poll.poll()) or b"!" in os.read(reader, 64)

    def run_watchdog() -> None:
        if not wait_for_loss():
            os.close(reader)
            os.close(writer)
            return
        lost.set()
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is exiting
            loop.call_soon_threadsafe(on_lost)
        threading.Event().wait(grace_s)  # this daemon thread ends with the interpreter
        if settings is not None:
            # In a thread of its own: a blocked write may hold the terminal's lock.
            restorer = threading.Thread(target=_restore, args=(descriptor, settings), daemon=True)
            restorer.start()
            restorer.join(_RESTORE_TIMEOUT_S)
        os._exit(EXIT_CODE)

    # Not `loop.add_signal_handler`: a stalled terminal may block the loop.
    old_handlers = {number: signal.signal(number, lambda *_: os.write(writer, b"!")) for number in _ENDING_SIGNALS}
    threading.Thread(target=run_watchdog, name="gmg-terminal-watchdog", daemon=True).start()
    try:
        yield
    finally:
        if not lost.is_set():
            for number, handler in old_handlers.items():
                signal.signal(number, handler)
        os.write(writer, b".")


def _terminal_settings(descriptor: int) -> list[Any] | None:
    try:
        return termios.tcgetattr(descriptor)
    except termios.error:
        return None


def _restore(descriptor: int, settings: list[Any]) -> None:
    try:
        termios.tcsetattr(descriptor, termios.TCSANOW, settings)
        termios.tcflush(descriptor, termios.TCOFLUSH)  # drop unread output to make room
        os.write(descriptor, _RESET)
    except (termios.error, OSError):
        return  # the terminal is gone


# Notifications

_ESCAPE, _BELL, _STRING_TERMINATOR = "\x1b", "\a", "\x1b\\"
_MAX_CHARS = 200
"""Maximum length of a notification: desktops show no more."""
_TITLE = "gmg-tui"


def notification_sequences(methods: Iterable[str], events: tuple[Occurrence, ...], *, tmux: bool) -> str:
    """Returns the control sequences that notify the terminal of events by these methods (values of `--notify`).

    iTerm2, kitty, WezTerm and Windows Terminal support OSC 9; urxvt, foot, Ghostty and VTE support OSC 777. tmux
    forwards them if wrapped and `allow-passthrough` is on (tmux(1)); it handles the bell itself.
    """
    if not events:
        return ""
    text = _notification_text(events)
    sequences = {
        "bell": _BELL,
        "osc9": _osc(f"9;{text}", tmux=tmux),
        "osc777": _osc(f"777;notify;{_TITLE};{text}", tmux=tmux),
    }
    return "".join(dict.fromkeys(sequences[method] for method in methods if method in sequences))


def _notification_text(events: tuple[Occurrence, ...]) -> str:
    suffix = f" (and {len(events) - 1} more)" if len(events) > 1 else ""
    text = one_line(events[0].text).replace(";", ",")
    room = _MAX_CHARS - len(suffix)
    return (text if len(text) <= room else f"{text[: room - 1]}…") + suffix


def _osc(body: str, *, tmux: bool) -> str:
    sequence = f"{_ESCAPE}]{body}{_BELL}"
    return f"{_ESCAPE}Ptmux;{sequence.replace(_ESCAPE, _ESCAPE * 2)}{_STRING_TERMINATOR}" if tmux else sequence


# The clipboard

_TMUX_TIMEOUT_S: Final = 2.0


async def copy(app: App[Any], text: str) -> str:
    """Copies `text` without what could control a terminal. Returns a message for the user.

    Terminals do not confirm OSC 52, and may ignore it.
    """
    text = safe(text)
    amount = units.count(text.count("\n") + 1, "line")
    app.copy_to_clipboard(text)
    if not app.is_web and _is_in_own_tmux() and await _load_into_tmux(text):
        return f"Copied {amount}, also to tmux's paste buffer."
    if app.is_web:
        return "No clipboard in a browser; select the text with the mouse instead."
    return f"Sent {amount} to the terminal (OSC 52)."


def _is_in_own_tmux() -> bool:
    """True if `TMUX` names a socket of this user, and not one of the user whose shell ran `su`: tmux tells it our environment."""
    socket = Path(os.environ.get("TMUX", "").partition(",")[0])
    try:
        return (
            socket.is_socket()
            and socket.lstat().st_uid == os.getuid()
            and distrust(socket.parent, shared=True, must_exist=True) is None
        )
    except OSError:
        return False


async def _load_into_tmux(text: str) -> bool:
    """Sets tmux's paste buffer and its terminal's clipboard, as tmux by default ignores OSC 52 from programs."""
    try:
        process = await asyncio.create_subprocess_exec(
            "tmux", "load-buffer", "-w", "-", stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(_TMUX_TIMEOUT_S):
            await process.communicate(text.encode())
    except TimeoutError:
        process.kill()
        await process.wait()
    return process.returncode == 0
