"""The grammar of the command line: options, then SCRIPT, then what belongs to the script; and its errors."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gmg_tui.config import Settings
from gmg_tui.errors import nearest
from gmg_tui.options import KEPT, RUN, SCREEN, SWEEP_ONLY, TUNE_ONLY, Form, Limits, Opt, Options, span_s

_ALL = "all"
"""The value of `--ddp` without a number."""
_SURE = 0.8
"""How like an option of ours a word has to be, not to be taken for the script's (difflib's ratio)."""
_OPTS = {opt.name: opt for opt in (*RUN, *SWEEP_ONLY, *TUNE_ONLY)}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT])(?:i?B)?", re.IGNORECASE)
_LEAST_BYTES = 1 << 20


OPTIONS, WORDS = "gmg_tui.options", "gmg_tui.words"
"""In `Context.meta`: a command's `Options`, and the words that it was called with."""


class _Value(click.ParamType):  # type: ignore[type-arg]
    """A value that `parse` makes of a text, or raises `ValueError` with what to give instead."""

    name = "value"

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(str(value))
        except ValueError as error:
            return self.fail(f"{value}: {error}", param, ctx)


def _number(text: str, limits: Limits) -> float:
    """A number within limits; NaN is in none."""
    kind, low, high, unit = limits
    try:
        number: float = kind(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise ValueError(f"give a number from {low:g} to {high:,.10g}{unit}")
    return number


def _span(text: str) -> float:
    """Seconds of a time such as 15m."""
    seconds = span_s(text)
    if not 1 <= seconds < math.inf:
        raise ValueError("give a time, such as 15m, 1h30m or 90 (seconds)")
    return seconds


def _size(text: str) -> int | None:
    """Bytes of a size such as 500M; None for `none`."""
    if text.strip().lower() == "none":
        return None
    match = _SIZE.fullmatch(text.strip())
    number = float(match[1]) * (1 << 10 * (1 + "KMGT".index(match[2].upper()))) if match else 0.0
    if not _LEAST_BYTES <= number < 1 << 60:
        raise ValueError("give a size of at least 1M, such as 500M or 2G, or none")
    return int(number)


def _type(opt: Opt) -> Any:
    match opt.kind:
        case Limits():
            return _Value(partial(_number, limits=opt.kind))
        case Form():
            return _Value(_size if opt.kind is Form.SIZE else _span)
        case tuple():
            return click.Choice(opt.kind)
    return opt.kind


def option(opt: Opt, *, hidden: bool = False) -> click.Option:
    """The option of a command that `opt` declares."""
    flag, default = opt.kind is bool, opt.default
    if isinstance(default, float) and default.is_integer():
        default = int(default)  # as the help prints it
    return click.Option(
        [opt.long, opt.name],
        type=_type(opt),
        is_flag=flag,
        multiple=opt.many,
        default=default,
        show_default=not flag and bool(default),
        metavar=None if flag else opt.metavar,
        help=opt.help,
        hidden=hidden,
    )


def screen_options(names: Sequence[str] = SCREEN) -> list[click.Parameter]:
    """The options of how the screen is drawn."""
    return [option(opt) for opt in RUN if opt.name in names]


class ScriptCommand(click.Command):
    """A command whose options stand before a script, and for which `config.toml` has defaults.

    Of its tables of options only the first is in its help.
    """

    allow_interspersed_args = False

    def __init__(self, *args: Any, tables: Sequence[Sequence[Opt]], **more: Any) -> None:
        super().__init__(*args, **{"options_metavar": "[OPTIONS]", **more})
        for table in tables:
            self.params += [option(opt, hidden=table is not tables[0] or KEPT in opt.marks) for opt in table]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words, explain an option that is the script's, and apply the settings beside what is given."""
        words = self._with_ddp_size(args)
        if self.name == "sweep":  # a FILE has no arguments that options after it could belong to
            ctx.allow_interspersed_args = "--script" not in args
        try:
            rest = super().parse_args(ctx, [*words])
        except click.NoSuchOption as error:
            raise click.UsageError(self._explained(error, words), ctx) from None
        if not ctx.resilient_parsing:
            ctx.meta.update({OPTIONS: self._options(ctx), WORDS: words})
        return rest

    def _with_ddp_size(self, args: Sequence[str]) -> list[str]:
        """`args` with `--ddp=all` where `--ddp` has no number: Click would take the script for its value."""
        words, position = list(args), 0
        takes_value = {name for opt in self.params if _has_value(opt) for name in opt.opts}
        while position < len(words) and words[position].startswith("-") and words[position] != "--":
            following = words[position + 1] if position + 1 < len(words) else ""
            if words[position] == "--ddp" and not following.isdecimal():
                words[position] = f"--ddp={_ALL}"
            position += 2 if words[position] in takes_value else 1
        return words

    def _explained(self, error: click.NoSuchOption, words: Sequence[str]) -> str:
        name = error.option_name
        hint = nearest(name, error.possibilities or (), _SURE)
        if hint or self.name == "demo":
            return f"there is no option {name}{hint or '; gmg-tui demo --help lists them'}"
        called = "gmg-tui" if self.name == "run" else f"gmg-tui {self.name}"
        position = next((number for number, word in enumerate(words) if word.startswith(name)), 0)
        script = next((number for number in range(position, len(words)) if Path(words[number]).is_file()), None)
        if script is None:
            return f"there is no option {name}; options of the script go after it: {called} SCRIPT {name} …"
        order = [*words[:position], words[script], *words[position:script], *words[script + 1 :]]
        return f"{name} is an option of the script, and goes after it: {called} {shlex.join(order)}"

    def _options(self, ctx: click.Context) -> Options:
        """The options, without settings that contradict the command line; the variables of `--env` add to those set."""

        def of(source: ParameterSource) -> dict[str, Any]:
            return {name: value for name, value in ctx.params.items() if ctx.get_parameter_source(name) is source}

        given, settings = of(ParameterSource.COMMANDLINE), of(ParameterSource.DEFAULT_MAP)
        beaten = {name for field in given if field in _OPTS for name in _OPTS[field].beats}
        beaten |= {name for name, opt in _OPTS.items() if opt.needs and not ctx.params.get(opt.needs)}
        if "resume" in given:
            beaten |= settings.keys() - {*SCREEN, "headless", "detach"}
        for param in self.params:
            if param.name in beaten & settings.keys():
                ctx.params[param.name] = param.default
                del settings[param.name]
        if (file := ctx.find_object(Settings)) is not None:
            if "env" in given and "resume" not in given:
                settings["env"] = file.options.get("env", ())
                ctx.params["env"] = (*settings["env"], *given["env"])
            for name in given:
                file.options.pop(name, None)  # an error about it is not the file's
        return Options(**ctx.params, given=given, below=settings)


def misplaced(command: click.Command, args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of gmg-tui among a script's arguments, with their values, and the other arguments.

    Short options are too common to be distinguished.
    """
    options = {name: opt for opt in command.params if isinstance(opt, click.Option) for name in opt.opts}
    ours, others, left = list[str](), list[str](), [*args]
    while left:
        word = left.pop(0)
        name, joined, _ = word.partition("=")
        if not name.startswith("--") or (name not in options and name != "--help"):
            others.append(word)
            continue
        ours.append(word)
        if name in options and not joined and not options[name].is_flag and left:
            ours.append(left.pop(0))
    return ours, others


def _has_value(opt: click.Parameter) -> bool:
    return isinstance(opt, click.Option) and not opt.is_flag
