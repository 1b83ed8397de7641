r"""Every regular expression for lines of Genesis.

All work on bytes as the worker wrote them, colours included. Texts and versions: Genesis 0.2.1 to 0.4.5 and 1.4.5
(`engine/scene.py`, `logging/logger.py`, `utils/tools.py`). No expression crosses the end of a line, and each takes linear time.
"""

from __future__ import annotations

import re
from typing import Final

from gmg_tui.genesis.output.log_text import HEAD
from gmg_tui.model import Phase
from gmg_tui.text import strip_ansi

# What follows a repetition here never begins like the repeated part, so possessive forms (`++`) match the same without
# backtracking.
NUMBER: Final = rb"\d{1,24}+(?:,\d{3}){0,8}+(?:\.\d{1,6}+)?+"
"""A number as Genesis writes it, with thousands commas."""
_COLOUR = rb"(?:\x1b\[[\d;]{0,16}+m){0,4}+"
_OPEN = _COLOUR + rb"(?:~{1,4}<)?+"
_CLOSE = rb"(?:>~{1,4})?+" + _COLOUR

_RATE = rb"Running at " + _COLOUR + rb"(~{1,4}<)?(" + NUMBER + rb")" + _CLOSE + rb" FPS"
_EACH = (
    rb"\(" + _OPEN + NUMBER + _CLOSE + rb" FPS per env, " + _OPEN + rb"(\d{1,9}(?:,\d{3}){0,2})" + _CLOSE + rb" envs\)"
)

FPS: Final = re.compile(_RATE + rb"(?: " + _EACH + rb")?\.")
"""A progress line: the marker of the raw form, the rate over all environments, and their number where there are any.

The raw form, `Running at ~<1,989.47>~ FPS`, is the same line again through the root logger (up to 0.4.5).
"""

FPS_ALONE: Final = re.compile(
    rb"(?:\[Genesis[^\]\r\n]{0,40}\](?: \[[^\]\r\n]{1,40}\]){0,2} |INFO:genesis:)?+" + FPS.pattern + rb"\s*"
)
"""A whole line with only the rate: as Genesis's logger writes it, as the root logger repeats it, or bare."""

OTHER: Final = re.compile(rb"\[Genesis(?:\] \[[^\]\r\n]{8,24}\] \[[A-Z]{1,8}\]| [^\]\r\n]{8,40}\]) (?!Running at )")
"""The head of a line of Genesis's logger that is no progress line."""

_LOGGED = re.compile(HEAD.encode() + rb"(?P<text>.*)", re.DOTALL)
"""A line of Genesis's logger."""

TRIGGERS: Final = (b".lock failed", b"falling back to CPU")
"""A block without one of these, and without `OTHER`, contains nothing of Genesis but progress lines."""

PHASES: Final = (
    (b"Running on ", Phase.INITIALISING),
    (b"Scene <", Phase.CREATING),
    (b"Building scene <", Phase.BUILDING),
    (b"Compiling simulation kernels", Phase.COMPILING),
    (b"Viewer created.", Phase.RUNNING),
    ("💤 Exiting Genesis and caching compiled kernels".encode(), Phase.SAVING),
    (b"Exiting Genesis and caching compiled kernels", Phase.SAVING),
)
"""How a line begins, and the phase that begins with it. The same words from 0.2.1 to 1.4.5; the probe sees more."""

CORRUPTED_CACHE: Final = b"Ignoring corrupted cache."
SOFTWARE_RENDERING: Final = b"Software rendering context detected"

DEVICE: Final = re.compile(rb"Running on \[(?P<name>.*)\] with backend <?(?:gs\.)?(?P<backend>\w{1,20})")
VERSION: Final = re.compile(rb"Genesis initialized\..*?version: (?P<version>[\w.+-]{1,40})")
NO_BACKEND: Final = re.compile(
    rb"Backend <?(?:gs\.)?\w+>? not available on this machine\. Falling back to CPU|falling back to CPU"
)
LOCK: Final = re.compile(rb"Lock (?P<path>\S{1,400}\.lock) failed")

COMPILER: Final = re.compile(rb"\[[TDIWEC] \d\d/\d\d/\d\d \d\d:\d\d:\d\d")
"""A line of Quadrants' or Taichi's native logger, which speaks from its initialisation on, not while it is imported."""

_LIBRARY = re.compile(
    COMPILER.pattern + rb"|\[(?:Quadrants|GsTaichi|Taichi)\] "  # their greeting at import
    rb"|\[\d{4}-\d\d-\d\d [\d:.]+\] \[CoACD\]"
    rb"|\s|libEGL|libGL|MESA|INFO:genesis:|WARNING:genesis:"
    rb"|.{0,500}?\w{0,60}(?:Warning|warning):"  # Python's warnings; the line of source under one is indented
)
"""Lines that libraries print while Genesis starts, rather than the script."""

REPORTED: Final = "gmg:fps "
"""How a line of `gmg_tui.report_fps` begins."""
_BAR = re.compile(r"(\d{1,3})%\|[^|\r\n]{0,600}\| {0,20}[\d.]{1,20}[kMGTPEZY]?/[\d.]")

USAGE: Final = re.compile(rb"[Uu]sage: {1,4}\S")
"""How argparse and click begin when they refuse the arguments, or are asked for help; the script ends then."""


_MARKUP = re.compile(rb"~{1,4}<|>~{1,4}")


def unmarked(text: bytes) -> bytes:
    """`text` without the marks by which Genesis highlights, which stand in the text of its exceptions."""
    return _MARKUP.sub(b"", text) if b"~" in text else text


def plain(line: bytes) -> bytes:
    """`line` without colours and other escape sequences, and without white space at its ends."""
    return strip_ansi(line).strip(b" \t\r\n")


def message(line: bytes) -> tuple[bytes, bytes] | None:
    """Level and text of a plain line of Genesis's logger; None for other lines."""
    start = line.find(b"[Genesis")
    match = _LOGGED.match(line, start) if start >= 0 else None
    if match is None:
        return None
    return match["level"] or match["raw_level"] or b"INFO", match["text"]


def from_library(line: bytes) -> bool:
    """Whether a plain line, with its indentation, is a library's remark rather than the script's own output."""
    return _LIBRARY.match(line) is not None


def phase_of(text: bytes) -> Phase | None:
    """The phase that begins with this text of Genesis's logger."""
    return next((phase for start, phase in PHASES if text.startswith(start)), None)


def number(raw: bytes) -> float:
    """A number as Genesis writes it, with thousands commas."""
    return float(raw.replace(b",", b""))


def is_mere(text: str) -> bool:
    """Whether a line of output, cleaned, has only a rate, or is a bar of tqdm that is not yet full.

    rsl_rl's iterations are no such lines: they are the heads of its tables.
    """
    if text.startswith(REPORTED):
        return True
    if "Running at " in text:
        return FPS_ALONE.fullmatch(text.encode(errors="replace")) is not None
    bar = _BAR.search(text) if "%|" in text else None
    return bar is not None and bar[1] != "100"
