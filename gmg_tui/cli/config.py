"""`config.toml`: option defaults, keys, line formats and themes.

Top-level keys are long option names and apply to every command; a table named after a command applies to it alone.
`[keys]` remaps the screen's keys, `[readers.NAME]` describes lines of output, `[themes.NAME]` sets colours.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from gmg_tui.machine.folders import config_folder
from gmg_tui.model.errors import GmgError, suggest
from gmg_tui.session.options import LINE, TABLES, Opt

_OTHER_TABLES = ("keys", "readers", "themes")


class Settings(NamedTuple):
    """The settings of one command."""

    path: Path
    options: dict[str, Any]
    """Values by option name, not yet converted by Click."""
    keys: dict[str, tuple[str, ...]]
    readers: dict[str, Any]
    themes: dict[str, dict[str, str]]


def path() -> Path | None:
    """Returns `$XDG_CONFIG_HOME/gmg-tui/config.toml`, which may not exist; None for a user without a home folder."""
    folder = config_folder()
    return folder / "gmg-tui" / "config.toml" if folder is not None else None


def read(file: Path, command: str) -> Settings:
    """Returns the settings in `file` for `command`. Raises `GmgError` if it cannot be read or is invalid."""
    import msgspec  # only if there is a file

    from gmg_tui.machine import toml

    class _Tables(msgspec.Struct):
        keys: dict[str, str | tuple[str, ...]] = {}
        readers: dict[str, dict[str, Any]] = {}
        themes: dict[str, dict[str, str]] = {}

    try:
        data = toml.read(file)
        tables = msgspec.convert({name: data[name] for name in _OTHER_TABLES if name in data}, _Tables)
    except OSError as error:
        raise GmgError(f"cannot be read: {error.strerror}") from error
    except msgspec.ValidationError as error:
        raise GmgError(str(error)) from error
    except ValueError as error:
        raise GmgError(f"is not TOML: {error}") from error
    options_by_command = {name: [opt for table in tables for opt in table] for name, tables in TABLES.items()}
    all_options = [opt for options in options_by_command.values() for opt in options]
    command_options = {opt.name for opt in options_by_command[command]}
    shared, specific = dict[str, Any](), dict[str, Any]()
    for name, value in data.items():
        if name in options_by_command and isinstance(value, dict):
            values = _values(value, options_by_command[name], f"[{name}] ")
            specific |= values if name == command else {}
        elif name not in _OTHER_TABLES:
            shared |= _values({name: value}, all_options, "", (*options_by_command, *_OTHER_TABLES))
    shared = {name: value for name, value in shared.items() if name in command_options}
    if "env" in specific:
        specific["env"] = (*shared.get("env", ()), *specific["env"])  # the last value of a variable wins
    keys = {name.replace("_", "-"): (key,) if isinstance(key, str) else key for name, key in tables.keys.items()}
    return Settings(file, shared | specific, keys, tables.readers, tables.themes)


def _values(table: dict[str, Any], options: Iterable[Opt], prefix: str, tables: Iterable[str] = ()) -> dict[str, Any]:
    """Returns the values of a table by option name; `prefix` begins error messages. Raises `GmgError`."""
    by_name = {opt.setting: opt for opt in options}
    values = {}
    for name, value in table.items():
        dashed = name.replace("_", "-")
        opt = by_name.get(dashed)
        if opt is None:
            settable = [setting for setting, candidate in by_name.items() if LINE not in candidate.marks]
            hint = f"; it is a table: [{name}]" if name in tables else suggest(dashed, [*settable, *tables])
            raise GmgError(f"{prefix}{name} is not a setting{hint}")
        if LINE in opt.marks:
            raise GmgError(f"{prefix}{name} is not a setting; give --{dashed} on the command line")
        if "\0" in "".join(map(str, value if isinstance(value, list) else (value,))):
            raise GmgError(f"{prefix}{name} contains a NUL character; remove it")
        if value is True and opt.bare:
            value = opt.bare
        if isinstance(value, bool) is not opt.is_flag:
            raise GmgError(f"{prefix}{name} = {value!r}: give {'true or false' if opt.is_flag else 'a value'}")
        if name == "python" and "/" in str(value) and not str(value).startswith(("/", "~")):
            raise GmgError(
                f"{prefix}{name} = {value!r}: give an absolute path; the current folder may be another user's"
            )
        if isinstance(value, float):
            value = str(value)  # Click would cut off the fraction for an integer option
        values[opt.name] = (tuple(value) if isinstance(value, list) else (value,)) if opt.multiple else value
    return values
