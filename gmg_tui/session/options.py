"""The options of the commands that start a session.

The tables define the command line, `config.toml`, what `--resume` may change and `report` compares, and a guide page.
"""

import math
import re
import shlex
from collections.abc import Mapping
from enum import Flag, auto
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple, Self

import click
from click import Choice, IntRange

from gmg_tui.model import units


class Mark(Flag):
    """A property of an option."""

    NONE = 0
    CONFIG = auto()
    """Usually set in `config.toml`; not shown by `--help`."""
    LINE = auto()
    """Not allowed in `config.toml`."""
    COMPARED = auto()
    """Compared by `report` of several sessions."""
    SWEEP = auto()
    """Changeable by `sweep --resume`."""
    TUNE = auto()
    """Changeable by `tune --resume`."""


CONFIG, LINE, COMPARED, SWEEP, TUNE = Mark.CONFIG, Mark.LINE, Mark.COMPARED, Mark.SWEEP, Mark.TUNE
RESUMED = SWEEP | TUNE

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmgt])(?:i?b)?")
_MIN_BYTES = 1 << 20


def span(text: object) -> float:
    """Parses a time with a unit, such as 30m, into seconds. Raises `click.BadParameter`."""
    seconds = units.seconds(str(text), bare=False)
    if seconds is None or not 1 <= seconds < math.inf:
        raise click.BadParameter(f"{text}: give a time with a unit, such as 90s, 15m, 1h30m or 30d")
    return seconds


def size(text: object) -> int | None:
    """Parses a size such as 2G into bytes; returns None for `none`. Raises `click.BadParameter`."""
    word = str(text).strip().lower()
    if word == "none":
        return None
    match = _SIZE.fullmatch(word)
    number = float(match[1]) * (1 << 10 * (1 + "kmgt".index(match[2]))) if match else 0.0
    if not _MIN_BYTES <= number < 1 << 60:
        raise click.BadParameter(f"{text}: give a size of at least 1M, such as 500M or 2G, or none")
    return int(number)


def words(text: object) -> tuple[str, ...]:
    """Splits text into words as a shell does. Raises `click.BadParameter`."""
    if isinstance(text, tuple):  # a default, which Click converts again
        return text
    try:
        return tuple(shlex.split(str(text)))
    except ValueError as error:
        raise click.BadParameter(f"{text}: {str(error).lower()}; quote arguments as in a shell") from error


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Returns the names of sessions that begin with an incomplete word."""
    from gmg_tui import session as sessions  # only for completion

    return sorted(folder.name for folder in sessions.folders() if folder.name.startswith(incomplete))


class FloatRange(click.FloatRange):
    """A range of numbers that excludes NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parses a number. Raises `click.BadParameter`."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


class Seconds(FloatRange):
    """A range of seconds, given as a number or a time with a unit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parses seconds. Raises `click.BadParameter`."""
        seconds = units.seconds(str(value), bare=True)
        if seconds is None:
            self.fail(f"{value}: give seconds, or a time with a unit, such as 90s, 15m or 1h30m", param, ctx)
        return super().convert(seconds, param, ctx)


class ThemeName(Choice[str]):
    """The name of a built-in theme, or of one in the settings."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Checks the name. Raises `click.BadParameter`."""
        custom_themes = getattr(ctx.obj, "themes", ()) if ctx is not None else ()
        return str(value) if value in custom_themes else super().convert(value, param, ctx)


class Opt(click.Option):
    """An option's declaration; a repeatable option has a tuple as `default`.

    Its value sets `field` of `RunSpec` or `TuneSpec`, by default `name`. An option given without a value has the value
    `bare`, unless that is empty. `flag` is its name on the command line, if not `name` with dashes.
    """

    name: str
    help: str

    def __init__(
        self,
        name: str,
        kind: Any,
        metavar: str,
        help: str,  # noqa: A002
        marks: Mark = Mark.NONE,
        default: Any = None,
        field: str = "",
        flag: str = "",
        bare: str = "",
    ) -> None:
        self.marks, self.spec_field, self.bare = marks, field or name, bare
        self.long = flag or f"--{name.replace('_', '-')}"
        is_flag, several = kind is bool, isinstance(default, tuple)
        super().__init__(
            [self.long, name],
            type=kind,
            is_flag=is_flag,
            multiple=several,
            default=default,
            show_default=not is_flag and bool(default),
            metavar=metavar or None,
            help=help,
            hidden=CONFIG in marks,
            shell_complete=complete_session if name in {"resume", "add"} else None,
        )

    def accepts(self, word: str) -> bool:
        """True if `word` can be the value of this option, which may also be given without one."""
        if self.name == "wait":
            return units.seconds(word, bare=True) is not None
        return word.isdecimal() or word.startswith("{") or (isinstance(self.type, Choice) and word in self.type.choices)

    @property
    def setting(self) -> str:
        """The option's name in `config.toml`."""
        return self.long.removeprefix("--")


_DAY_S = 86400
_MAX_COUNT = 1_000_000
THEMES = ("dark", "light", "ansi", "contrast")
_START_MODES = Choice(("gated", "together", "staggered"))
_POLICIES = Choice(("never", "startup", "failure", "always"))
_PLACEMENT, _SETTING = COMPARED | SWEEP, CONFIG | RESUMED
_STUCK_HELP = "Seconds without output or CPU time before a worker is stuck."
_KNEE_HELP = "Recommend the smallest value within PCT % of the fastest."
_SETTLE_HELP = "Seconds to measure a trial; up to three times as long while its rate drifts."
RUN = (
    Opt("gpus", str, "WHAT", "'all', a count, indices or UUIDs (0,2,5), 'free' or 'free:4'.", _PLACEMENT),
    Opt("wait", span, "[T]", "With --gpus free: wait for free GPUs, at most T.", SWEEP, None, "wait_s", bare="365d"),
    Opt("cpu", IntRange(1, 4096), "N", "Use N CPU slots instead of GPUs.", _PLACEMENT),
    Opt("name", str, "NAME", "Session name. [default: script and number]", LINE),
    Opt("python", str, "PATH", "Interpreter. [default: active environment]", _PLACEMENT),
    Opt("env", str, "KEY=VALUE", "Set an environment variable; repeatable.", SWEEP, ()),
    Opt("start", _START_MODES, "MODE", "Start workers gated, together or staggered.", COMPARED | RESUMED),
    Opt("restart", _POLICIES, "POLICY", "When to restart: never, startup, failure or always.", RESUMED, "startup"),
    Opt("max_restarts", IntRange(0, _MAX_COUNT), "N", "Maximum consecutive restarts.", RESUMED, 3),
    Opt("stuck_after", Seconds(2, _DAY_S), "S", _STUCK_HELP, RESUMED, 60, "stuck_after_s"),
    Opt("resume_args", words, "ARGS", "Arguments that continue from {checkpoint}.", SWEEP),
    Opt("on", str, "ALERT=ACTION", "When an alert is raised: show, notify, stop or restart; repeatable.", RESUMED, ()),
    Opt("pattern", str, "REGEX", "Regex for the script's progress lines; repeatable.", SWEEP, (), "patterns"),
    Opt("no_probe", bool, "", "Do not count steps inside the script.", default=False),
    Opt("no_pin", bool, "", "Do not pin workers to the CPU cores near their GPU.", COMPARED | RESUMED, False, "pin"),
    Opt("headless", bool, "", "Print lines instead of opening the screen.", RESUMED, False),
    Opt("detach", bool, "", "Start, print the session's name, and return.", RESUMED, False),
    Opt("summary", str, "FILE", "Also write the summary (JSON) to FILE.", RESUMED),
    Opt("notify", str, "HOW", "Report failures and the end: bell, osc9, osc777 or a command.", RESUMED, ()),
    Opt("simulate", IntRange(1, 64), "N", "Simulate N GPUs and run the bundled script.", LINE | COMPARED),
    Opt("free_mib", FloatRange(0, _MAX_COUNT), "MIB", "Maximum memory in use on a free GPU.", _SETTING, 500.0),
    Opt("interval", Seconds(0.2, 60), "S", "Seconds between GPU samples.", _SETTING, 1, "interval_s"),
    Opt("sigint_wait", Seconds(0, 3600), "S", "Seconds from SIGINT to SIGTERM.", _SETTING, 15, "sigint_wait_s"),
    Opt("sigterm_wait", Seconds(0, 3600), "S", "Seconds from SIGTERM to SIGKILL.", _SETTING, 10, "sigterm_wait_s"),
    Opt("log_max", size, "SIZE", "Cut the middle out of a log over SIZE, such as 2G.", _SETTING, field="log_max_bytes"),
    Opt("nodes", str, "WHERE", "Use machines of slurm, ray[:ADDRESS] or ssh:HOSTS.", COMPARED),
    Opt("orphan_wait", Seconds(1, _DAY_S), "S", "Seconds until workers without an engine stop.", CONFIG, 60),
    Opt("ddp", str, "[N]", "Start groups of N ranks, as torchrun does.", COMPARED, bare="all"),
    Opt("virtual_local_rank", bool, "", "Each rank sees only its GPU.", SWEEP, False),
    Opt("theme", ThemeName(THEMES), "NAME", "Colour theme: dark, light, ansi, contrast, or your own.", _SETTING),
    Opt("show_env", bool, "", "Show the values of variables named like secrets.", _SETTING, False),
    Opt("ascii_only", bool, "", "Draw with ASCII characters only.", _SETTING, False, flag="--ascii"),
    Opt("no_mouse", bool, "", "Leave the mouse to the terminal.", _SETTING, False),
)
"""Options of `run`, `demo`, `tune` and `sweep`."""

EXCLUSIVE = (("gpus", "cpu", "simulate"), ("headless", "detach"), ("ddp", "start"))
"""Mutually exclusive options: one on the command line overrides the others in `config.toml`."""

SCREEN = tuple(opt for opt in RUN if opt.name in {"theme", "ascii_only", "no_mouse", "show_env"})
"""Options of `RUN` for the screen, also options of `attach`."""

SWEEP_ONLY = (
    Opt("sets", str, "KEY=V1,V2", "Try each value of KEY; repeatable.", LINE, (), flag="--set"),
    Opt("add", str, "NAME", "Add the jobs to a running sweep.", LINE),
    Opt("per_gpu", int, "N", "Number of jobs that share a GPU. [default: 1]", SWEEP),
    Opt("timeout", str, "T", "Time limit of an attempt, such as 30m or 1h30m.", SWEEP),
    Opt("best", str, "COLUMN", "Sort the final table by COLUMN; -COLUMN: smallest first.", SWEEP),
    Opt("dry_run", bool, "", "List the jobs without running them.", LINE, False),
    Opt("resume", str, "NAME", "Continue a sweep that has ended.", LINE | RESUMED),
    Opt("retry_failed", bool, "", "With --resume: run failed jobs again.", LINE | SWEEP, False),
)
"""Options of `sweep` alone."""

TUNE_ONLY = (
    Opt("var", str, "NAME=LOW..HIGH", "The number to tune, {NAME} in ARGS.", LINE, "n_envs=64.."),
    Opt("metric", str, "KEY", "Metric to maximise: fps, or one that the script reports.", default="fps"),
    Opt("headroom", FloatRange(0, 90), "PCT", "Percent of VRAM to keep free.", TUNE, 10, "headroom_pct"),
    Opt("knee", FloatRange(0, 50), "PCT", _KNEE_HELP, TUNE, 3, "knee_pct"),
    Opt("settle", Seconds(1, 3600), "S", _SETTLE_HELP, TUNE, 20, "settle_s"),
    Opt("trial_time", span, "T", "Time limit of a trial, including its start.", TUNE, "15m", "trial_time_s"),
    Opt("budget", span, "T", "Time limit of the search, such as 2h.", TUNE, None, "budget_s"),
    Opt("resume", str, "NAME", "Continue a tuning run that has stopped.", LINE | RESUMED),
)
"""Options of `tune` alone."""

TABLES: Mapping[str, tuple[tuple[Opt, ...], ...]] = {
    "run": (RUN,),
    "demo": (RUN,),
    "tune": (TUNE_ONLY, RUN),
    "sweep": (SWEEP_ONLY, RUN),
    "attach": (SCREEN,),
}
"""Options of the commands that read `config.toml`; their `--help` lists only the first table."""


class Options(SimpleNamespace):
    """The values of a command's options, as attributes.

    Attributes:
        readers: The tables `[readers.NAME]` of `config.toml`.
        given: Values from the command line, by name.
        configured: Values from `config.toml` that the command line does not override, by name.
    """

    readers: Mapping[str, Any] = MappingProxyType({})
    given: Mapping[str, Any] = MappingProxyType({})
    configured: Mapping[str, Any] = MappingProxyType({})

    def replace(self, **values: Any) -> Self:
        """Returns a copy with `values` replaced."""
        return type(self)(**{**vars(self), **values})


class Program(NamedTuple):
    """The program that the workers run."""

    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    """True if the script is a module, as for `python -m`."""
    own_options: tuple[str, ...] = ()
    """Options of gmg-tui among `args`."""
