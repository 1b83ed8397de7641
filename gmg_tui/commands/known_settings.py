"""What may stand in the file of settings: click's options, the one table of keys, the themes, the check of patterns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import click

from gmg_tui.settings.known import KeyAction, Known, Option

_ELSEWHERE: Final = {
    "theme": "the theme stands above all tables: theme = …",
    "pattern": 'patterns stand in [patterns], by script: "*" = … is for all',
}
_ONCE: Final = frozenset(
    {"name", "resume", "retry-failed", "yes", "gone", "stop", "facts", "dry-run", "json", "csv", "html"}
    | {"script", "module", "set", "args", "preset", "all", "simulate"}
)
"""What is said of one run, or to a program that reads what is printed."""
_MEANT_ELSE: Final = {"doctor": frozenset({"nodes"})}
"""Options of commands that mean something else than those of a run, and do not follow them."""
_EXAMPLES: Final[dict[str, Any]] = {
    "gpus": "0,1",
    "cpu": 2,
    "python": "/usr/bin/python3",
    "env": ["WANDB_MODE=offline"],
    "nodes": "ssh:n1,n2",
    "min-nodes": 2,
    "slurm": "--time=4:00:00",
    "start": "gated",
    "log-max": "500M",
    "summary": "summary.json",
    "notify": ["bell"],
    "ddp": "all",
    "per-gpu": 1,
    "retries": 0,
    "repeat": 1,
    "timeout": "none",
    "min-free-mib": 2048.0,
    "out-dir": "runs/{name}",
    "results": "results",
    "best": "fps",
    "budget": "2h",
    "group": "users",
    "listen": "127.0.0.1:9400",
    "textfile": "gmg.prom",
    "lines": 100,
    "time": "4:00:00",
    "partition": "gpu",
    "sbatch": ["--account=robots"],
}
"""Of options without a default a value that they might have."""


def known(group: click.Group, commands: Collection[str]) -> Known:
    """All that may stand in the file, of options those of `commands`; all else is imported only when asked for."""
    of_group = {name: command for name, command in group.commands.items() if name in commands}
    options = {name: found for name, command in of_group.items() if (found := _options(name, command))}
    return Known(options, _refused, _keys, _wrong_keys, _themes, _check_pattern)


def long_name(option: click.Option) -> str:
    """An option's name as the settings have it; empty where it has only a short one."""
    return max((one for one in option.opts if one.startswith("--")), key=len, default="").removeprefix("--")


def _options(name: str, command: click.Command) -> dict[str, Option]:
    less = _MEANT_ELSE.get(name, ())
    found = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    return {
        long: Option(
            option.name or "",
            " ".join((option.help or "").split()),
            _example(long, option),
            _check(option),
            option.multiple,
        )
        for option in found
        if (long := long_name(option)) and not _refused(long) and long not in less
    }


def _refused(name: str) -> str:
    return _ELSEWHERE.get(name, "it is said on the command line, each time" if name in _ONCE else "")


def _example(name: str, option: click.Option) -> Any:
    default = option.to_info_dict().get("default")
    if isinstance(default, bool | int | float | str):
        return default
    return False if option.is_flag else _EXAMPLES.get(name, "")


def _check(option: click.Option) -> Callable[[object], str]:
    """What is wrong with a value of `option`: the kind of it, or what click's type says."""

    def check(value: object) -> str:
        if option.is_flag:
            return "" if isinstance(value, bool) else "give true or false"
        many: Sequence[object] = value if isinstance(value, list) and option.multiple else [value]
        for one in many:
            if isinstance(one, bool) or not isinstance(one, str | int | float):
                return f"give {'one or several of ' if option.multiple else ''}{option.metavar or 'a value'}"
            if isinstance(one, str) and isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
                return f"give a number, {option.metavar}, without quotes"
            if isinstance(one, float) and isinstance(option.type, click.types.IntParamType):
                return "give a whole number"
            try:
                option.type.convert(one, option, None)
            except click.BadParameter as error:
                return error.message.rstrip(".")
        return ""

    return check


def _keys() -> Mapping[str, KeyAction]:
    from gmg_tui.ui import remapping

    return {name: KeyAction(tuple(remapping.written(key)), key.help) for name, key in remapping.actions().items()}


def _wrong_keys(choice: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    from gmg_tui.ui import remapping

    return remapping.wrong(choice)


def _themes() -> tuple[str, ...]:
    from gmg_tui.ui.drawing.themes import NAMES

    return NAMES


def _check_pattern(given: tuple[str, ...], where: str) -> object:
    from gmg_tui.readers import patterns

    return patterns.check(given, where)
