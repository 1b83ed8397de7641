"""The options of the commands that start a session: each is declared only here.

The command line, the settings in `config.toml`, `--resume`, `report` of several sessions and the guide's reference are made
from these tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, Flag, auto
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple


class Mark(Flag):
    """What is special about an option."""

    NONE = 0
    KEPT = auto()
    """Set once and kept: `--help` leaves it out, `config.toml` and the guide have it."""
    LINE = auto()
    """`config.toml` may not set it."""
    COMPARED = auto()
    """`report` of several sessions compares it."""
    SWEEP = auto()
    """`sweep --resume` may change it."""
    TUNE = auto()
    """`tune --resume` may change it."""


KEPT, LINE, COMPARED, SWEEP, TUNE = Mark.KEPT, Mark.LINE, Mark.COMPARED, Mark.SWEEP, Mark.TUNE
RESUMED = SWEEP | TUNE


class Limits(NamedTuple):
    """The kind of a number that has limits."""

    kind: type
    low: float
    high: float
    unit: str = ""
    """In words, after a space."""


class Form(Enum):
    """The kind of a text that stands for a number."""

    SIZE = auto()
    """Bytes, as in 2G."""
    SPAN = auto()
    """Seconds, as in 30m."""


@dataclass(frozen=True)
class Opt:
    """An option as it is declared."""

    name: str
    """Of its value in `Options`; on the command line with dashes."""
    kind: type | tuple[str, ...] | Limits | Form
    """`str`, `int`, `float` or `bool`; several texts to choose from; a number within limits; or the form of a text."""
    metavar: str
    help: str
    marks: Mark = Mark.NONE
    default: Any = None
    field: str = ""
    """The field of `RunSpec` (of `TuneSpec` for options of `tune` alone) that it sets, where it has another name."""
    flag: str = ""
    """Its name on the command line, where it is not made from `name`."""
    beats: tuple[str, ...] = ()
    """Options whose settings do not count beside this one on the command line."""
    needs: str = ""
    """An option without which its setting does not count."""

    @property
    def spec_field(self) -> str:
        """The field that it would set."""
        return self.field or self.name

    @property
    def many(self) -> bool:
        """Whether it may be repeated."""
        return isinstance(self.default, tuple)

    @property
    def long(self) -> str:
        """Its name on the command line: `--stuck-after`."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def setting(self) -> str:
        """Its name in `config.toml`."""
        return self.long.removeprefix("--")


def _s(low: float, high: float) -> Limits:
    return Limits(float, low, high, " seconds")


_DAY_S = 86400
_GPUS, _COUNT = Limits(int, 1, 64, " GPUs"), Limits(int, 1, 1e6)
_SLOTS = ("gpus", "cpu", "simulate", "nodes")
THEMES = ("dark", "light", "ansi", "contrast")
_STARTS, _RESTARTS = ("gated", "together", "staggered"), ("never", "startup", "failure", "always")
_WHERE, _USUAL = COMPARED | SWEEP, KEPT | RESUMED
RUN = (
    Opt("gpus", str, "WHAT", "'all', a count, or indices or UUIDs: 0,2,5.", _WHERE, beats=("cpu",)),
    Opt("cpu", Limits(int, 1, 4096), "N", "N CPU slots instead of GPUs.", _WHERE, beats=_SLOTS),
    Opt("name", str, "NAME", "Session name. [default: script and number]", LINE),
    Opt("python", str, "PATH", "Interpreter. [default: active environment]", _WHERE),
    Opt("env", str, "KEY=VALUE", "Set an environment variable; repeatable.", SWEEP, ()),
    Opt("start", _STARTS, "MODE", "Start workers gated, together or staggered.", COMPARED | RESUMED),
    Opt("restart", _RESTARTS, "POLICY", "Restart after: never, startup, failure, always.", RESUMED, "startup"),
    Opt("max_restarts", Limits(int, 0, 1e6), "N", "Maximum consecutive restarts.", RESUMED, 3),
    Opt(
        "stuck_after", _s(2, _DAY_S), "S", "Silence without CPU time that means stuck.", RESUMED, 60.0, "stuck_after_s"
    ),
    Opt("restart_stuck", bool, "", "Restart stuck workers.", RESUMED, False),
    Opt("pattern", str, "REGEX", "How to parse the script's progress lines.", SWEEP, (), "patterns"),
    Opt("no_probe", bool, "", "Do not count steps inside the script.", default=False),
    Opt("headless", bool, "", "Print lines instead of a screen.", RESUMED, False, beats=("detach",)),
    Opt("detach", bool, "", "Start, print the session's name, return.", RESUMED, False, beats=("headless", "summary")),
    Opt("summary", str, "FILE", "Also write the summary (JSON) to FILE.", RESUMED),
    Opt("notify", str, "HOW", "Report failures and the end: bell, osc9, osc777 or a command.", RESUMED, ()),
    Opt("simulate", _GPUS, "N", "Simulate N GPUs and run the bundled script.", LINE | COMPARED, beats=_SLOTS),
    Opt("interval", _s(0.2, 60), "S", "Seconds between two samples of the GPUs.", _USUAL, 1.0, "interval_s"),
    Opt("sigint_wait", _s(0, 3600), "S", "Seconds from SIGINT to SIGTERM.", _USUAL, 15.0, "sigint_wait_s"),
    Opt("sigterm_wait", _s(0, 3600), "S", "Seconds from SIGTERM to SIGKILL.", _USUAL, 10.0, "sigterm_wait_s"),
    Opt("log_max", Form.SIZE, "SIZE", "Cut the middle out of a longer log: 500M, 2G.", _USUAL, field="log_max_bytes"),
    Opt("nodes", str, "WHERE", "Several machines: slurm[:JOB], ray[:ADDRESS], ssh:HOSTS.", COMPARED, beats=_SLOTS),
    Opt("orphan_wait", _s(1, _DAY_S), "S", "Grace period before orphaned workers stop.", KEPT, 60.0),
    Opt("ddp", str, "[N]", "Groups of N ranks, as torchrun starts them.", COMPARED, beats=("start",)),
    Opt("virtual_local_rank", bool, "", "Each rank sees only its GPU.", SWEEP, False, needs="ddp"),
    Opt("theme", THEMES, "NAME", "Colour theme: dark, light, ansi or contrast.", _USUAL),
    Opt("ascii_only", bool, "", "Draw with ASCII characters only.", _USUAL, False, flag="--ascii"),
    Opt("no_mouse", bool, "", "Leave the mouse to the terminal.", _USUAL, False),
)
"""Those of `run`, which `demo`, `tune` and `sweep` have too."""

SCREEN = ("theme", "ascii_only", "no_mouse")
"""The names of those in `RUN` for how the screen is drawn, which `attach` has too."""

SWEEP_ONLY = (
    Opt("sets", str, "KEY=V1,V2", "Values of a key of the grid; repeatable.", LINE, (), flag="--set"),
    Opt("per_gpu", int, "N", "Jobs on one GPU at once. [default: 1]", SWEEP),
    Opt("timeout", str, "T", "Time limit of an attempt: 30m, 1h30m.", SWEEP),
    Opt("best", str, "COLUMN", "Sort the final table by COLUMN; -COLUMN: smallest first.", SWEEP),
    Opt("dry_run", bool, "", "List the jobs without running them.", LINE | SWEEP, False),
    Opt("resume", str, "NAME", "Continue a sweep that has ended.", LINE | RESUMED),
    Opt("retry_failed", bool, "", "With --resume: run failed jobs again.", LINE | SWEEP, False),
)
"""Those that only `sweep` has."""

_HEADROOM_PCT, _KNEE_PCT = Limits(float, 0, 90, " percent"), Limits(float, 0, 50, " percent")
_SETTLE = "Seconds a trial is measured; up to three times as long while its rate drifts."
TUNE_ONLY = (
    Opt("var", str, "NAME=LOW..HIGH", "The number to tune, {NAME} in ARGS.", LINE, "n_envs=64.."),
    Opt("metric", str, "KEY", "fps, or a number the script reports, of which more is better.", default="fps"),
    Opt("headroom", _HEADROOM_PCT, "PCT", "VRAM in percent that stays free.", TUNE, 10.0, "headroom_pct"),
    Opt("knee", _KNEE_PCT, "PCT", "Recommend the smallest value within PCT of the fastest.", TUNE, 3.0, "knee_pct"),
    Opt("settle", _s(1, 3600), "S", _SETTLE, TUNE, 20.0, "settle_s"),
    Opt("trial_time", Form.SPAN, "T", "Time limit of a trial with its start.", TUNE, "15m", "trial_time_s"),
    Opt("budget", Form.SPAN, "T", "Time limit of the search: 30m, 2h.", TUNE, None, "budget_s"),
    Opt("resume", str, "NAME", "Continue a tuning that has stopped.", LINE | RESUMED),
)
"""Those that only `tune` has."""


class Options(SimpleNamespace):
    """The values of a command's options, as attributes; a size in bytes, a span in seconds.

    Attributes:
        given: Those of the command line, by name.
        below: Those of `config.toml` that the command line does not contradict, by name.
    """

    given: Mapping[str, Any] = MappingProxyType({})
    below: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def of(cls, options: Iterable[Opt], **values: Any) -> Options:
        """The defaults of `options`, but for `values`."""
        return cls(**{**{opt.name: opt.default for opt in options}, **values})

    def replace(self, **values: Any) -> Options:
        """These values, but for `values`."""
        return Options(**{**vars(self), **values})


class Program(NamedTuple):
    """What the workers run."""

    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    """Whether the script is a module, as for `python -m`."""
    own_options: tuple[str, ...] = ()
    """Options among `args` that gmg-tui has too."""


_SPAN = re.compile(r"(?=\d)" + "".join(rf"(?:(?P<{unit}>\d+(?:\.\d+)?){unit})?" for unit in "dhms"))
_UNIT_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def span_s(text: str) -> float:
    """Seconds of a text such as `1h30m` or `90`; infinity for `none`, NaN for what is neither."""
    word = text.strip().lower()
    if word == "none":
        return math.inf
    if parts := _SPAN.fullmatch(word):
        return sum(float(part) * _UNIT_S[unit] for unit, part in parts.groupdict("0").items())
    return float(word) if re.fullmatch(r"\d+(\.\d+)?", word) else math.nan
