"""Turns a worker's bytes into text that is safe to show: no escape sequences or control characters, bounded length."""

from __future__ import annotations

import re

MAX_LINE_BYTES = 8192
"""Longer lines are cut on the screen and in searches; the log file has them whole."""

SEPARATOR = "──── gmg-tui: "
"""How a line begins that gmg-tui writes into a log, before the output of each attempt."""

ANSI = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    rb"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC: title, clipboard, queries
    rb"|[ -/]*[0-~]"  # the two-character forms and character sets
    rb")"
)
"""Escape sequences of ECMA-48, seven-bit forms, also unterminated strings."""

_HARMFUL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 and C1 controls except the tab
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # invisible characters that reorder or hide text
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def strip_ansi(raw: bytes) -> bytes:
    """`raw` without escape sequences."""
    return ANSI.sub(b"", raw) if b"\x1b" in raw else raw


def clean(raw: bytes) -> str:
    """One line of output, without its line end, as text that is safe on any terminal.

    Escape sequences are removed; control and invisible characters become `·`; tabs become spaces up to the next
    multiple of eight; invalid UTF-8 becomes U+FFFD; beyond `MAX_LINE_BYTES` the line is cut and the rest counted.
    """
    cut = len(raw) - MAX_LINE_BYTES
    text = strip_ansi(raw[:MAX_LINE_BYTES]).decode("utf-8", "replace")
    if "\t" in text:
        text = text.expandtabs(8)[:MAX_LINE_BYTES]  # a line of tabs would become eight times as long
    if not text.isascii() or not text.isprintable():
        text = _HARMFUL.sub("·", text)
    return f"{text} … (+{cut:,} bytes)" if cut > 0 else text
