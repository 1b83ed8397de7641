"""Reading the experiments' file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.genesis.placeholders import NAME
from gmg_tui.model import Value
from gmg_tui.sweep import checks
from gmg_tui.sweep.settings import Experiment, Settings

_LARGEST_BYTES = 64 << 20


class Sheet(NamedTuple):
    """An experiments' file, read and checked as far as that goes without the command line."""

    path: str
    """As given."""
    settings: Settings
    presets: dict[str, Settings]
    """What each says for itself, in the file's order."""


def read(path: str) -> Sheet:
    """Read an experiments' file.

    Raises:
        GmgError: It cannot be read, is no TOML, or says something that cannot be meant so.
    """
    tree = _tree(path)
    presets = tree.pop("preset", {})
    if not isinstance(presets, dict):
        checks.wrong(f"{path}: preset", presets, "give each a table of its own, as in [preset.quick]")
    settings = _settings(path, "", tree)
    return Sheet(path, settings, {name: _preset(path, name, table) for name, table in presets.items()})


def _preset(path: str, name: str, table: Any) -> Settings:
    where = f"{path}: preset.{name}"
    checks.job_name(f"{path}: preset {checks.shown(name)}", name)
    if not isinstance(table, dict):
        checks.wrong(where, table, f"give it a table of its own, as in [preset.{name}]")
    if "preset" in table:
        raise GmgError(f"{where}.preset: there are no presets in a preset; write [preset.NAME] for each")
    return _settings(path, f"preset.{name}.", table)


def _tree(path: str) -> dict[str, Any]:
    file = Path(path)
    try:
        if not file.exists():
            raise GmgError(f"no experiments' file {path}; give a TOML file, or --script SCRIPT and --set KEY=V1,V2")
        if not file.is_file():
            raise GmgError(f"{path} is no regular file; give the path of a TOML file")
        if file.suffix == ".py":
            raise GmgError(f"{path} is no experiments' file; without one: --script {path} --set KEY=V1,V2")
        if file.stat().st_size > _LARGEST_BYTES:
            raise GmgError(f"{path} is larger than {_LARGEST_BYTES >> 20} MiB; that is no experiments' file")
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise GmgError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is no UTF-8'}") from error
    except tomllib.TOMLDecodeError as error:
        raise GmgError(f"{path} is no TOML: {error}") from error
    except ValueError as error:
        raise GmgError(f"cannot read {path}: {error}") from error
    except RecursionError as error:
        raise GmgError(f"{path} is no TOML that can be meant: its lists or tables are nested too deep") from error


def _settings(path: str, above: str, table: Mapping[str, Any]) -> Settings:
    said: dict[str, Any] = {}
    places = {}
    for key, raw in table.items():
        where = f"{path}: {above}{checks.key(key)}"
        if key not in _KEYS:
            raise GmgError(
                f"{path}: unknown key {above}{checks.key(key)}{checks.nearest(key, (*_KEYS, 'preset')) or _as_value(key)}"
            )
        field, check = _KEYS[key]
        said[field] = check(where, raw)
        places[field] = where
        if field == "env":
            places |= {f"env.{name}": f"{where}.{name}" for name in said[field]}
    if said.get("script") is not None:
        said["script"] = _found(path, said["script"], module=said.get("module") or False)
    return Settings(**said, places=places)


def _as_value(key: str) -> str:
    if not NAME.fullmatch(key):
        return f"; there are: {', '.join(_KEYS)}, preset"
    return f"; if {{{key}}} is a placeholder, its value belongs under [defaults] or [grid]"


def _found(path: str, script: str, *, module: bool) -> str:
    """The script as it can be opened from the current folder: there, or beside the file."""
    beside = Path(path).parent / script
    try:
        return str(beside) if not module and not Path(script).exists() and beside.exists() else script
    except OSError:
        return script  # no path that can be; what is wrong with it is said where the script is checked


def _grid(where: str, raw: Any) -> dict[str, tuple[Value, ...]]:
    if not isinstance(raw, dict):
        checks.wrong(where, raw, "give a table of lists, as in [grid]")
    grid = {}
    for name, values in raw.items():
        place = f"{where}.{checks.key(name)}"
        checks.value_name(place, name)
        if not isinstance(values, list):
            checks.wrong(place, values, "give a list of values, or write it under [defaults]")
        if not values:
            raise GmgError(f"{place} is empty; give it at least one value, or leave it out")
        grid[name] = tuple(checks.value(f"{place}[{number}]", one) for number, one in enumerate(values, 1))
    return grid


def _defaults(where: str, raw: Any) -> dict[str, Value]:
    if not isinstance(raw, dict):
        checks.wrong(where, raw, "give a table of values, as in [defaults]")
    values = {}
    for name, one in raw.items():
        place = f"{where}.{checks.key(name)}"
        checks.value_name(place, name)
        if isinstance(one, list):
            checks.wrong(place, one, "a job has one value; lists belong under [grid]")
        values[name] = checks.value(place, one)
    return values


def _experiments(where: str, raw: Any) -> tuple[Experiment, ...]:
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw):
        checks.wrong(where, raw, "write [[experiment]], in two brackets, before each")
    return tuple(_experiment(f"{where}[{number}]", one) for number, one in enumerate(raw, 1))


def _experiment(where: str, raw: dict[str, Any]) -> Experiment:
    values = dict(raw)
    name = checks.job_name(f"{where}.name", values.pop("name")) if "name" in values else None
    return Experiment(_defaults(where, values), name)


_KEYS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "script": ("script", checks.text),
    "module": ("module", checks.flag),
    "args": ("args", checks.args),
    "env": ("env", checks.env),
    "gpus": ("gpus", checks.gpus),
    "per_gpu": ("per_gpu", checks.per_gpu),
    "min_free_mib": ("min_free_mib", checks.min_free_mib),
    "retries": ("retries", checks.retries),
    "timeout": ("timeout_s", checks.timeout_s),
    "out_dir": ("out_dir", checks.text),
    "name": ("name", checks.text),
    "best": ("best", checks.text),
    "grid": ("grid", _grid),
    "defaults": ("defaults", _defaults),
    "experiment": ("experiments", _experiments),
}
"""The keys of the file and of its presets, with the field that holds each, and its check."""
