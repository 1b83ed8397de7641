r"""The one place that knows a line of Genesis, rsl_rl, tqdm or the benchmark scripts: every expression is here.

All work on bytes as the worker wrote them, colours included. Texts and versions: Genesis 0.2.1 to 0.4.5 and 1.4.5
(`engine/scene.py`, `logging/logger.py`, `utils/tools.py`), rsl_rl (`utils/logger.py`, `runners/on_policy_runner.py`),
tqdm (`std.py`). No expression crosses the end of a line, and each takes time linear in what it reads.
"""

from __future__ import annotations

import re
from typing import Final

from gmg_tui.model import Phase
from gmg_tui.text import strip_ansi

# What follows a repetition here never begins as the repetition goes on, so that the possessive forms (`++`) find the
# same and need not remember where they could step back to.
NUMBER: Final = rb"\d{1,24}+(?:,\d{3}){0,8}+(?:\.\d{1,6}+)?+"
"""A number as Genesis writes it, with thousands commas."""
CLOCK: Final = re.compile(rb"(?<!\d)\d\d:\d\d:\d\d(?!\d)")
"""The time of day in the head of a line of Genesis's logger."""
_COLOUR = rb"(?:\x1b\[[\d;]{0,16}+m){0,4}+"
_OPEN = _COLOUR + rb"(?:~{1,4}<)?+"
_CLOSE = rb"(?:>~{1,4})?+" + _COLOUR

FPS: Final = re.compile(
    rb"Running at " + _COLOUR + rb"(~{1,4}<)?(" + NUMBER + rb")" + _CLOSE + rb" FPS"
    rb"(?: \("
    + _OPEN
    + NUMBER
    + _CLOSE
    + rb" FPS per env, "
    + _OPEN
    + rb"(\d{1,9}(?:,\d{3}){0,2})"
    + _CLOSE
    + rb" envs\))?\."
)
"""A progress line: the marker of the raw form, the rate over all environments, and their number where there are any.

The raw form, `Running at ~<1,989.47>~ FPS`, is the same line again through the root logger (up to 0.4.5).
"""

PER_ENVIRONMENT: Final = re.compile(NUMBER + rb"(?=" + _CLOSE + rb" FPS per env, )")
"""The rate of one environment in a progress line."""

OTHER: Final = re.compile(rb"\[Genesis(?:\] \[[^\]\r\n]{8,24}\] \[[A-Z]{1,8}\]| [^\]\r\n]{8,40}\]) (?!Running at )")
"""The head of a line of Genesis's logger that is no progress line."""

_PREFIX = re.compile(
    rb"\[Genesis(?:\] \[(?:\d\d-\d\d-\d\d )?\d\d:\d\d:\d\d(?:\.\d{3})?\] \[(?P<level>[A-Z]+)\]"
    rb"| (?:\d\d-\d\d-\d\d )?\d\d:\d\d:\d\d(?:\.\d{3})?(?: (?P<raw_level>[A-Z]+))?\]) (?P<text>.*)",
    re.DOTALL,
)
"""A line of Genesis's logger: all themes, with and without the verbose time."""

TRIGGERS: Final = (
    b"Learning iteration ",
    b"steps/s (",
    b"Steps per second:",
    b"%|",
    b" FPS\n",
    b" FPS\r",
    b".lock failed",
    b"falling back to CPU",
)
"""A block without one of these, and without `OTHER`, has nothing to be read but progress lines."""

PHASES: Final = (
    (b"Running on ", Phase.INITIALISING),
    (b"Scene <", Phase.CREATING),
    (b"Adding <", Phase.ADDING),
    (b"Running convex decomposition", Phase.MESHES),
    (b"Preprocessing ", Phase.MESHES),
    (b"Sampling particles with ", Phase.MESHES),
    (b"Tetrahedralization with ", Phase.MESHES),
    (b"Convert mesh to skeleton", Phase.MESHES),
    (b"Building scene <", Phase.BUILDING),
    (b"Compiling simulation kernels", Phase.COMPILING),
    (b"Building visualizer", Phase.VISUALIZER),
    (b"Viewer created.", Phase.RUNNING),
)
"""How a line begins, and the phase that begins with it. The same words from 0.2.1 to 1.4.5."""

EXIT: Final = b"Exiting Genesis and caching compiled kernels"
CORRUPTED_CACHE: Final = b"Ignoring corrupted cache."
SOFTWARE_RENDERING: Final = b"Software rendering context detected"

DEVICE: Final = re.compile(rb"Running on \[(?P<name>.*)\] with backend <?(?:gs\.)?(?P<backend>\w{1,20})")
VERSION: Final = re.compile(rb"Genesis initialized\..*?version: (?P<version>[\w.+-]{1,40})")
NO_BACKEND: Final = re.compile(
    rb"Backend <?(?:gs\.)?\w+>? not available on this machine\. Falling back to CPU|falling back to CPU"
)
LOCK: Final = re.compile(rb"Lock (?P<path>\S{1,400}\.lock) failed")

RSL_ITERATION: Final = re.compile(rb"Learning iteration (?P<done>\d{1,12})/(?P<total>\d{1,12})")
RSL_RATE: Final = re.compile(
    rb"Computation:\s{1,40}(?P<old>\d{1,15}) steps/s \(|Steps per second:\s{1,40}(?P<new>\d{1,15})"
)
"""rsl_rl up to 3.1 and from 3.2."""
BENCHMARK: Final = re.compile(rb"total *: (?P<rate>" + NUMBER + rb") FPS")
"""The second of the two lines of genesis-speed-benchmark's scripts, a whole line; the first is `per env: … FPS`."""

TQDM: Final = re.compile(
    rb"\d{1,3}%\|[^|\r\n]{0,600}\| {0,20}(?P<done>[\d.]{1,20}[kMGTPEZY]?)/(?P<total>[\d.]{1,20}[kMGTPEZY]?)"
    rb" \[[^<\]\r\n]{1,20}<(?P<left>[^,\]\r\n]{1,20})(?:, {0,10}(?P<pace>[^,\]\r\n]{1,40}))?"
)
"""A bar of tqdm with a known total: ` 43%|████▎     | 43/100 [00:04<00:05, 10.20it/s]`."""
TQDM_PACE: Final = re.compile(rb"(?:\?|[\d.]{1,20}) {0,3}(?:[kMGTPEZY]?s/ ?(?P<slow>\w{1,20})|(?P<fast>\w{1,20})/s)")
"""The pace in a bar: `1.20kit/s`, `3.40s/it`, `?it/s`; its unit, which in the fast form may begin with a scale."""

_LIBRARY = re.compile(
    rb"\[[TDIWEC] \d\d/\d\d/\d\d \d\d:\d\d:\d\d"  # Quadrants' and Taichi's native logger
    rb"|\[(?:Quadrants|GsTaichi|Taichi)\] "  # their greeting at import
    rb"|\[\d{4}-\d\d-\d\d [\d:.]+\] \[CoACD\]"
    rb"|\s|libEGL|libGL|MESA|INFO:genesis:|WARNING:genesis:"
    rb"|.{0,500}?\w{0,60}(?:Warning|warning):"  # Python's warnings; the line of source under one is indented
)
"""Lines that libraries print while Genesis starts: they say nothing of the script itself."""


_MARKUP = re.compile(rb"~{1,4}<|>~{1,4}")


def unmarked(text: bytes) -> bytes:
    """`text` without the marks by which Genesis highlights, which stand in the text of its exceptions."""
    return _MARKUP.sub(b"", text) if b"~" in text else text


def plain(line: bytes) -> bytes:
    """`line` without colours and other escape sequences, and without white space at its ends."""
    return strip_ansi(line).strip(b" \t\r\n")


def message(line: bytes) -> tuple[bytes, bytes] | None:
    """Level and text of a plain line of Genesis's logger; None where it is not one."""
    start = line.find(b"[Genesis")
    match = _PREFIX.match(line, start) if start >= 0 else None
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
