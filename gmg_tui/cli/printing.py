"""Output of commands: results on standard output, messages on standard error."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from gmg_tui.model.text import encode_lossy, escape_json, safe


class SafeStream:
    """A text stream that writes nothing that could control a terminal."""

    def __init__(self, stream: TextIO, *, styles: bool) -> None:
        self._stream, self._styles = stream, styles

    def write(self, text: str) -> int:
        """Writes `text` cleaned by `safe`, with styles on a terminal."""
        return self._stream.write(safe(text, styles=self._styles and self._stream.isatty()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_streams_safe() -> None:
    """Wraps standard output and standard error in `SafeStream`."""
    sys.stdout = cast("TextIO", SafeStream(sys.stdout, styles=True))
    sys.stderr = cast("TextIO", SafeStream(sys.stderr, styles=False))


def note(text: str) -> None:
    """Prints a line to standard error."""
    print(text, file=sys.stderr, flush=True)


def print_json(content: Any) -> None:
    """Prints JSON to standard output."""
    import msgspec  # most commands print no JSON

    print(escape_json(msgspec.json.format(encode_lossy(msgspec.json.encode, content), indent=2).decode()))


def print_data(chunks: Iterable[bytes]) -> None:
    """Prints a file's content to standard output, unchanged in a pipe, safe on a terminal."""
    if sys.stdout.isatty():
        for chunk in chunks:
            print(chunk.decode(errors="replace"), end="")
        return
    sys.stdout.flush()
    sys.stdout.buffer.writelines(chunks)


@contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Shows `text` on a terminal within the context; yields a function to replace it."""

    def show(text: str) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.__stderr__)
            print(text, end="", file=sys.stderr, flush=True)

    show(text)
    try:
        yield show
    finally:
        show("")
