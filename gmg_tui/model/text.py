"""Makes text from workers, nodes and files safe to show: no escape or control characters, limited length."""

import json
import re
from collections.abc import Callable
from typing import Any

MAX_LINE_BYTES = 8192
"""Longer lines are cut on the screen and in searches; the log file has them in full."""
_MAX_RAW_BYTES = 1 << 20

TRACEBACK = b"Traceback (most recent call last)"
"""The beginning of Python's tracebacks."""

SEPARATOR = "──── gmg-tui: "
"""Prefix of the line that gmg-tui writes into a log before each attempt's output."""

ANSI = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    rb"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC: title, clipboard, queries
    rb"|[ -/]*[0-~]"  # the two-character forms and character sets
    rb")"
)
"""Escape sequences of ECMA-48, seven-bit forms, including unterminated strings."""

_UNFINISHED = re.compile(rb"(\x1b[\]PX^_])[^\x07\x1b]*(\x1b?)\Z")
"""A control string whose end has not arrived."""
_MAX_SEQUENCE_BYTES = 64

_ESCAPE = re.compile(ANSI.pattern.decode("ascii"))
_PLAIN_STYLE = re.compile(r"\x1b\[(?:(?:0|1|2|3[1-6])?(?:;|(?=m)))*m")
"""The sequences that Rich writes for tables; none of them can hide text."""
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls except tab and line feed
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # invisible characters that reorder or hide text
    "\u115f\u1160\u3164\uffa0"  # blank letters
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_IGNORED = re.compile("[\u00ad\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Soft hyphens, joiners and variation selectors: invisible, with a width that differs between terminals."""
_CHANGED = re.compile(f"{_HARMFUL.pattern[:-1]}{_IGNORED.pattern[1:]}")
"""The characters and sequences that `safe` replaces."""


def safe(text: str, *, styles: bool = False) -> str:
    """Returns text, of any number of lines, that is safe on any terminal. All output passes through it.

    Removes escape sequences, except bold, dim and colours if `styles`, and invisible characters without effect; replaces
    other control and invisible characters by `·`.
    """
    if (text.isascii() and text.isprintable()) or not _CHANGED.search(text):
        return text
    if styles and "\x1b" in text:
        kept = [match[0] for match in _PLAIN_STYLE.finditer(text)]
        parts = [safe(part) for part in _PLAIN_STYLE.split(text)]
        return parts[0] + "".join(style + part for style, part in zip(kept, parts[1:], strict=True))
    return _HARMFUL.sub("·", _IGNORED.sub("", _ESCAPE.sub("", text)))


def escape_json(text: str) -> str:
    """Returns the same JSON with escapes for the characters that `safe` would change."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _CHANGED.sub(lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), text)


def strip_ansi(raw: bytes) -> bytes:
    """Returns `raw` without escape sequences."""
    return ANSI.sub(b"", raw) if b"\x1b" in raw else raw


def visible(raw: bytes) -> bytes:
    """Returns `raw` without escape sequences and with backspaces applied."""
    raw = strip_ansi(raw)
    if b"\b" not in raw:
        return raw
    cells, column = list[str](), 0
    for character in raw.decode("utf-8", "replace"):
        if character == "\b":
            column = max(0, column - 1)
        else:
            cells[column : column + 1] = [character]
            column += 1
    return "".join(cells).encode()


def displayed(raw: bytes) -> bytes:
    r"""Returns a line as a terminal shows it: text after a `\r` overwrites the text before it."""
    return next(filter(None, reversed(raw.split(b"\r"))), b"") if b"\r" in raw else raw


def compact(raw: bytes) -> bytes:
    """Returns the beginning of an unfinished line without invisible content, such as the data of an image."""
    if (string := _UNFINISHED.search(raw)) is not None:
        end, kept = string.start(), string[1] + string[2]
    else:
        end = len(raw.rstrip(b"\b"))
        if (escape := raw.rfind(b"\x1b", max(0, end - _MAX_SEQUENCE_BYTES))) >= 0:
            end = escape  # it may be unfinished
        kept = raw[end:]
    return visible(raw[:end]) + kept


def one_line(text: str) -> str:
    """Returns `text` cleaned like a line of output."""
    is_clean = text.isascii() and text.isprintable() and len(text) <= MAX_LINE_BYTES
    return text if is_clean else clean(text.encode(errors="replace"))


def clean(raw: bytes) -> str:
    """Returns a line of output, without its line end, as text that is safe on any terminal.

    Like `safe`, with backspaces applied, tabs expanded, line ends replaced by `·` and invalid UTF-8 by U+FFFD. A line
    beyond `MAX_LINE_BYTES` is cut, and ends with the count of the rest. What follows the first MiB is not shown.
    """
    unread, raw = max(0, len(raw) - _MAX_RAW_BYTES), visible(raw[:_MAX_RAW_BYTES])
    cut = max(0, len(raw) - MAX_LINE_BYTES) + unread
    text = raw[:MAX_LINE_BYTES].decode("utf-8", "replace")
    if "\t" in text:
        text = text.expandtabs(8)[:MAX_LINE_BYTES]  # a line of tabs would be eight times as long
    text = safe(text).replace("\n", "·")
    return f"{text} … (+{cut:,} bytes)" if cut > 0 else text


def encode_lossy(encode: Callable[[Any], bytes], value: Any) -> bytes:
    """Returns `encode(value)`, with `?` for surrogates, as in file names that are not UTF-8."""
    try:
        return encode(value)
    except UnicodeEncodeError:
        import msgspec  # the caller has loaded it

        return encode(_as_unicode(msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=False)))


def _as_unicode(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_as_unicode(key): _as_unicode(item) for key, item in value.items()}
    return [_as_unicode(item) for item in value] if isinstance(value, list | tuple | set | frozenset) else value
