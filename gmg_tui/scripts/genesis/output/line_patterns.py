"""The regular expressions for lines of Genesis 0.2.1 to 0.4.5 and 1.4.5.

They match raw bytes, colours included (`engine/scene.py`, `logging/logger.py`, `utils/tools.py`), never cross the end of a
line, and take linear time.
"""

import re
from typing import Final

from gmg_tui.model import Phase
from gmg_tui.model.text import visible
from gmg_tui.scripts.genesis.output.log_text import HEAD

# Possessive repetitions (`++`) never backtrack, and lose no match here: none is followed by what it repeats.
NUMBER: Final = rb"\d{1,24}+(?:,\d{3}){0,8}+(?:\.\d{1,6}+)?+"
"""A number as Genesis writes it, with thousands commas."""
_COLOUR = rb"(?:\x1b\[[\d;]{0,16}+m){0,4}+"
_OPEN = _COLOUR + rb"(?:~{1,4}<)?+"
_CLOSE = rb"(?:>~{1,4})?+" + _COLOUR

_RATE = rb"Running at " + _COLOUR + rb"(~{1,4}<)?(" + NUMBER + rb")" + _CLOSE + rb" FPS"
_PER_ENV = (
    rb"\(" + _OPEN + NUMBER + _CLOSE + rb" FPS per env, " + _OPEN + rb"(\d{1,9}(?:,\d{3}){0,2})" + _CLOSE + rb" envs\)"
)

FPS: Final = re.compile(_RATE + rb"(?: " + _PER_ENV + rb")?\.")
"""A progress line. Groups: the raw form's marker, the rate over all environments, and the number of environments, if any.

Up to 0.4.5 the root logger repeats the line in its raw form, `Running at ~<1,989.47>~ FPS`.
"""

_HEAD = rb"(?:\[Genesis[^\]\r\n]{0,40}\](?: \[[^\]\r\n]{1,40}\]){0,2} |INFO:genesis:)"
FPS_ALONE: Final = re.compile(_HEAD + rb"?+" + FPS.pattern + rb"\s*")
"""A line that holds only a rate."""
AROUND_FPS: Final = re.compile(rb"(?:\s|\x1b\[[\d;]{0,16}+m|" + _HEAD + rb")*+")
"""The text around a rate on such a line."""

OTHER: Final = re.compile(rb"\[Genesis(?:\] \[[^\]\r\n]{8,24}\] \[[A-Z]{1,8}\]| [^\]\r\n]{8,40}\]) (?!Running at )")
"""The beginning of a line of Genesis' logger that is not a progress line."""
_LOGGED = re.compile(HEAD.encode() + rb"(?P<text>.*)", re.DOTALL)

TRIGGERS: Final = (rb"\.lock failed", rb"alling back to CPU")
"""If a block matches neither these nor `OTHER`, all of Genesis' lines in it are progress lines."""

PHASES: Final = (
    (b"Running on ", Phase.INITIALISING),
    (b"Scene <", Phase.CREATING),
    (b"Building scene <", Phase.BUILDING),
    (b"Compiling simulation kernels", Phase.COMPILING),
    (b"Viewer created.", Phase.RUNNING),
    ("💤 Exiting Genesis and caching compiled kernels".encode(), Phase.SAVING),
    (b"Exiting Genesis and caching compiled kernels", Phase.SAVING),
)
"""The first words of lines, and the phases that they begin; the same from 0.2.1 to 1.4.5."""

CORRUPTED_CACHE: Final = b"Ignoring corrupted cache."
SOFTWARE_RENDERING: Final = b"Software rendering context detected"

DEVICE: Final = re.compile(rb"Running on \[(?P<name>.*)\] with backend <?(?:gs\.)?(?P<backend>\w{1,20})")
VERSION: Final = re.compile(rb"Genesis initialized\..*?version: (?P<version>[\w.+-]{1,40})")
MODE: Final = re.compile(rb"(debug|precision|performance): (\w{1,20})")
"""The options, in the line of `VERSION`, that change the computation of a step, such as 1.4's performance mode."""
NO_BACKEND: Final = re.compile(
    rb"Backend <?(?:gs\.)?\w+>? not available on this machine\. Falling back to CPU|falling back to CPU"
)
LOCK: Final = re.compile(rb"Lock (?P<path>\S{1,400}\.lock) failed")

COMPILER: Final = re.compile(rb"\[[TDIWEC] \d\d/\d\d/\d\d \d\d:\d\d:\d\d")
"""A line of Quadrants' or Taichi's native logger."""

LIBRARY: Final = re.compile(
    COMPILER.pattern + rb"|\[(?:Quadrants|GsTaichi|Taichi)\] "  # their banners on import
    rb"|\[\d{4}-\d\d-\d\d [\d:.]+\] \[CoACD\]"
    rb"|\s|libEGL|libGL|MESA|INFO:genesis:|WARNING:genesis:"
    rb"|.{0,500}?\w{0,60}(?:Warning|warning):"  # Python's warnings; the source line below is indented
)
"""The beginning of a plain line, with its indentation, that a library rather than the script prints during startup."""

REPORTED: Final = "gmg:fps "
"""The beginning of a line of `gmg_tui.report_fps`."""
_BAR = re.compile(r"(\d{1,3})%\|[^|\r\n]{0,600}\| {0,20}[\d.]{1,20}[kMGTPEZY]?/[\d.]")

USAGE: Final = re.compile(rb"[Uu]sage: {1,4}\S")
"""Prefix of the message with which argparse and click exit."""

MARKUP: Final = re.compile(rb"~{1,4}<|>~{1,4}")
"""Genesis' highlighting marks, which its exceptions contain."""


def plain(line: bytes) -> bytes:
    """Returns `line` as a terminal shows it, stripped."""
    return visible(line).strip(b" \t\r\n")


def message(line: bytes) -> tuple[bytes, bytes] | None:
    """Returns level and text of a plain line of Genesis' logger; None for other lines."""
    start = line.find(b"[Genesis")
    match = _LOGGED.match(line, start) if start >= 0 else None
    if match is None:
        return None
    return match["level"] or match["raw_level"] or b"INFO", match["text"]


def number(raw: bytes) -> float:
    """Returns the value of a `NUMBER`."""
    return float(raw.replace(b",", b""))


def is_progress_only(text: str) -> bool:
    """True if a cleaned line holds only a rate or an unfinished tqdm bar."""
    if text.startswith(REPORTED):
        return True
    if "Running at " in text:
        return FPS_ALONE.fullmatch(text.encode(errors="replace")) is not None
    bar = _BAR.search(text) if "%|" in text else None
    return bar is not None and bar[1] != "100"
