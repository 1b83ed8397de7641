"""Reads the experiments file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.genesis.placeholders import NAME
from gmg_tui.sweep import checks
from gmg_tui.sweep.settings import Experiment, Settings

_LARGEST_BYTES = 64 << 20


class ExperimentsFile(NamedTuple):
    """An experiments file, checked as far as possible without the command line."""

    path: str
    """As given."""
    settings: Settings
    presets: dict[str, Settings]
    """What each sets by itself, in the file's order."""


def read(path: str) -> ExperimentsFile:
    """Read an experiments file.

    Raises:
        GmgError: It cannot be read, is not TOML, or has an invalid key or value.
    """
    tree = _tree(path)
    presets = checks.convert(f"{path}: preset", tree.pop("preset", {}), checks.Presets)
    settings = _settings(path, "", tree)
    return ExperimentsFile(path, settings, {name: _preset(path, name, table) for name, table in presets.items()})


def _preset(path: str, name: str, table: Any) -> Settings:
    where = f"{path}: preset.{name}"
    checks.job_name(f"{path}: preset {checks.shown(name)}", name)
    if not isinstance(table, dict):
        checks.wrong(where, table, f"give it a table of its own, as in [preset.{name}]")
    if "preset" in table:
        raise GmgError(f"{where}.preset: a preset cannot contain presets; write [preset.NAME] for each")
    return _settings(path, f"preset.{name}.", table)


def _tree(path: str) -> dict[str, Any]:
    file = Path(path)
    try:
        if not file.exists():
            raise GmgError(
                f"there is no experiments file {path}; give a TOML file, or --script SCRIPT and --set KEY=V1,V2"
            )
        if not file.is_file():
            raise GmgError(f"{path} is not a regular file; give the path of a TOML file")
        if file.suffix == ".py":
            raise GmgError(f"{path} is not an experiments file; without one: --script {path} --set KEY=V1,V2")
        if file.stat().st_size > _LARGEST_BYTES:
            raise GmgError(f"{path} is larger than {_LARGEST_BYTES >> 20} MiB; it cannot be an experiments file")
        return tomllib.loads(file.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise GmgError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from error
    except tomllib.TOMLDecodeError as error:
        raise GmgError(f"{path} is not TOML: {error}") from error
    except ValueError as error:
        raise GmgError(f"cannot read {path}: {error}") from error
    except RecursionError as error:
        raise GmgError(f"{path} is not TOML: its lists or tables are nested too deep") from error


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
        return f"; the keys are: {', '.join(_KEYS)}, preset"
    return f"; if {{{key}}} is a placeholder, its value belongs under [defaults] or [grid]"


def _found(path: str, script: str, *, module: bool) -> str:
    """The script's path from the current folder, where it is looked for first, then beside the file."""
    beside = Path(path).parent / script
    try:
        return str(beside) if not module and not Path(script).exists() and beside.exists() else script
    except OSError:
        return script  # not a valid path; the check of the script reports it


def _experiments(where: str, raw: Any) -> tuple[Experiment, ...]:
    tables = checks.convert(where, raw, checks.Experiments)
    return tuple(_experiment(f"{where}[{number}]", one) for number, one in enumerate(tables, 1))


def _experiment(where: str, values: dict[str, Any]) -> Experiment:
    name = checks.job_name(f"{where}.name", values.pop("name")) if "name" in values else None
    return Experiment(checks.defaults(where, values), name)


_KEYS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "script": ("script", checks.of_type(checks.Text)),
    "module": ("module", checks.of_type(checks.Flag)),
    "args": ("args", checks.args),
    "env": ("env", checks.env),
    "gpus": ("gpus", checks.gpus),
    "per_gpu": ("per_gpu", checks.of_type(checks.PerGpu)),
    "ddp": ("ddp", checks.width),
    "gpus_per_job": ("gpus_per_job", checks.width),
    "min_free_mib": ("min_free_mib", checks.of_type(checks.MinFreeMib)),
    "retries": ("retries", checks.of_type(checks.Retries)),
    "repeat": ("repeat", checks.of_type(checks.Repeat)),
    "every_gpu": ("every_gpu", checks.of_type(checks.Flag)),
    "timeout": ("timeout_s", checks.timeout_s),
    "out_dir": ("out_dir", checks.of_type(checks.Text)),
    "name": ("name", checks.of_type(checks.Text)),
    "best": ("best", checks.of_type(checks.Text)),
    "grid": ("grid", checks.grid),
    "defaults": ("defaults", checks.defaults),
    "experiment": ("experiments", _experiments),
}
"""The keys of the file and of its presets: the field of `Settings` that each sets, and its check."""
