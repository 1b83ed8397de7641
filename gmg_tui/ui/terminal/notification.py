"""What a terminal is sent so that a person who looks elsewhere notices."""

from __future__ import annotations

from collections.abc import Iterable

from gmg_tui.model import Occurrence
from gmg_tui.text import clean

_ESCAPE, _BELL, _END = "\x1b", "\a", "\x1b\\"
_MOST = 200
"""Characters of a notification: desktops show no more."""
_TITLE = "gmg-tui"


def sequences(ways: Iterable[str], new: tuple[Occurrence, ...], *, tmux: bool) -> str:
    """What to write for what has just happened, in each of the terminal's ways; empty for none.

    OSC 9 is iTerm2's, kitty's, WezTerm's, Windows Terminal's, OSC 777 urxvt's, foot's, Ghostty's and VTE's. tmux hands
    such a sequence on where it is wrapped, and `allow-passthrough` is on (tmux(1)); it handles a bell itself.
    """
    if not new:
        return ""
    text = _text(new)
    sequences = {
        "bell": _BELL,
        "osc9": _osc(f"9;{text}", tmux=tmux),
        "osc777": _osc(f"777;notify;{_TITLE};{text}", tmux=tmux),
    }
    return "".join(dict.fromkeys(sequences[way] for way in ways if way in sequences))


def _text(new: tuple[Occurrence, ...]) -> str:
    more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
    text = clean(new[0].text.encode(errors="replace")).replace(";", ",")
    room = _MOST - len(more)
    return (text if len(text) <= room else f"{text[: room - 1]}…") + more


def _osc(body: str, *, tmux: bool) -> str:
    whole = f"{_ESCAPE}]{body}{_BELL}"
    return f"{_ESCAPE}Ptmux;{whole.replace(_ESCAPE, _ESCAPE * 2)}{_END}" if tmux else whole
