"""A whole file of settings with nothing set in it, made of what may stand there."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gmg_tui.settings.known import Known, Option
from gmg_tui.settings.reading import said

_HEAD = """\
Settings of gmg-tui. What stands here is a default: the command line wins over it, and an experiments file does.
Remove the # before a line to set it, and the # before the [table] above it. gmg-tui config --check reads the file."""
_THEME = """\
Colour theme: {themes}. It wins at each start over the one chosen on the screen, which is remembered and
counts where no theme is set here; --theme wins over both."""
_OPTIONS = """\
Options of several commands, for all that have them. A list is replaced by the command line as a whole."""
_OF_COMMAND = "Options of {command} alone; the options above may stand here too, and win here."
_KEYS_OF = "Keys {table}, as the help has them under its own heading."
_KEYS = """\
Keys of the main screen and where else they do the same: a key, or a list of keys. Written as R, ?, ctrl+x, f5, enter,
pageup, space, comma. Below are the built-in ones; a key can do one thing only. ctrl+c always quits."""
_PATTERNS = """\
How the progress lines of scripts without Genesis are read, as by --pattern, which wins: a script's name, path or glob,
and a regular expression, or a list of them, with the groups fps, n_envs, done, total and metric_NAME."""
_WIDTH = 118


def example(known: Known) -> str:
    """The text. Lines that begin with `# ` explain; those that begin with `#` alone are settings."""
    return "\n".join(_lines(known)) + "\n"


def _lines(known: Known) -> Iterator[str]:
    themes = known.themes()
    yield from (*_comment(_HEAD), "", *_comment(_THEME.format(themes=", ".join(themes))), f"#theme = {said(themes[0])}")
    yield from ("", *_comment(_OPTIONS), "#[options]")
    shared = _shared(known)
    for name, (option, commands) in shared.items():
        yield from _setting(name, option.example, f"{option.help} ({', '.join(commands)})")
    for command, options in known.options.items():
        own = {name: one for name, one in options.items() if name not in shared or shared[name][0].help != one.help}
        if own:
            yield from ("", *_comment(_OF_COMMAND.format(command=command)), f"#[options.{command}]")
        for name, option in own.items():
            yield from _setting(name, option.example, option.help)
    yield from ("", *_comment(_KEYS), "#[keys]")
    last = ""
    for name, key in known.keys().items():
        table, _, action = name.rpartition(".")
        if table != last:
            yield from ("", *_comment(_KEYS_OF.format(table=table)), f"#[keys.{table}]")
            last = table
        yield from _setting(action, key.keys[0] if len(key.keys) == 1 else key.keys, key.help)
    yield from ("", *_comment(_PATTERNS), "#[patterns]")
    yield from ("# For all scripts with such names.", """#"train_*.py" = '(?P<fps>[\\d.]+) steps/s'""")


def _shared(known: Known) -> dict[str, tuple[Option, Sequence[str]]]:
    """The options that several commands have, of the same meaning, with these commands."""
    found: dict[str, tuple[Option, list[str]]] = {}
    for command, options in known.options.items():
        for name, option in options.items():
            first, commands = found.setdefault(name, (option, []))
            if first.help == option.help:
                commands.append(command)
    return {name: (option, commands) for name, (option, commands) in found.items() if len(commands) > 1}


def _setting(name: str, value: object, text: str) -> Iterator[str]:
    yield f"# {text}"
    yield f"#{name} = {said(value)}"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), _WIDTH)]
