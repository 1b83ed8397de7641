"""The settings of a sweep, from the experiments file or the command line."""

import math
import os
import re
import shlex
import stat
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta, Struct, structs

from gmg_tui.jobs.argument_placeholders import JOB_NAMES, NAME_PATTERN, WORKER_NAMES, as_text
from gmg_tui.machine import toml
from gmg_tui.machine.ownership import owners, public_components, user_name
from gmg_tui.model import Value, units
from gmg_tui.model.errors import GmgError, suggest

BUILT_IN = (*WORKER_NAMES, *JOB_NAMES)
"""Placeholders that need no value in the settings."""
Table = dict[str, Value]
Text = Annotated[str, Meta(min_length=1)]

MAX_NAME_BYTES = 80
"""Maximum length of a job's name, which is part of file names (limited to 255 bytes on Linux)."""
_UNSAFE = re.compile(r"[^\w.=,+-]+")
_LIST_ITEM = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,"'])+""")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`")


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One level of settings. The fields are the keys of the file; None if not set."""

    script: Text | None = None
    """A path, relative to the current folder, or a module's name."""
    module: bool | None = None
    args: tuple[Value, ...] | None = None
    resume_args: tuple[Value, ...] | str | None = None
    """Additional arguments of attempts that continue from a checkpoint; a string is split like a shell command."""
    env: Table = {}
    gpus: str | int | tuple[int | str, ...] | None = None
    """A value of `--gpus`, or a list of indices and UUIDs."""
    per_gpu: Annotated[int, Meta(ge=1, le=64)] | None = None
    ddp: Annotated[int, Meta(ge=1, le=1024)] | str | None = None
    """Number of ranks of each job, or a placeholder for it, such as `{ranks}`."""
    timeout: str | float | None = None
    """A time with a unit, such as `1h30m`, or `none`."""
    best: Text | None = None
    on: dict[str, str] = {}
    grid: dict[str, Annotated[tuple[Value, ...], Meta(min_length=1)]] | None = None
    defaults: Table = {}
    experiment: tuple[Table, ...] | None = None

    def __post_init__(self) -> None:
        """Validates the fields beyond their types. Raises `ValueError`."""
        if self.timeout is not None and not self.timeout_s:
            raise ValueError(f'timeout {self.timeout}: give a time with a unit, as in "30m" or "1h30m", or "none"')
        self.resume_words  # noqa: B018 - raises if a quote is not closed
        for variable in self.env:
            if not (variable.isascii() and variable.isidentifier()):
                raise ValueError(f"env: {variable} is not a variable name")
        lists = [self.args or (), self.env.values(), self.defaults.values(), *(self.grid or {}).values()]
        lists += [table.values() for table in self.experiment or ()]
        for value in (value for values in lists for value in values if isinstance(value, str) and "\0" in value):
            raise ValueError(f"{value!r} contains a NUL character; remove it")
        ranks = self.ddp
        if isinstance(ranks, str) and not (ranks[:1] + ranks[-1:] == "{}" and NAME_PATTERN.fullmatch(ranks[1:-1])):
            raise ValueError(f"ddp {ranks}: give a number, or a placeholder for one, as in '{{ranks}}'")
        for name in (*(self.grid or ()), *self.defaults, *(key for table in self.experiment or () for key in table)):
            if name != "name" or name in self.defaults or name in (self.grid or ()):
                check_placeholder(name)
        for number, table in enumerate(self.experiment or (), 1):
            if "name" in table and not is_job_name(as_text(table["name"])):
                allowed = f"up to {MAX_NAME_BYTES} letters, digits and '.', '_', '=', ',', '+', '-'"
                raise ValueError(f"experiment {number}: the name {table['name']} must be {allowed}")

    @property
    def timeout_s(self) -> float | None:
        """The time limit of an attempt in seconds; infinity for no limit, None if invalid."""
        return units.seconds(str(self.timeout), bare=False)

    @property
    def resume_words(self) -> tuple[str, ...] | None:
        """`resume_args` as words, with placeholders. Raises `ValueError`."""
        if isinstance(self.resume_args, str):
            return tuple(shlex.split(self.resume_args))
        return None if self.resume_args is None else tuple(map(as_text, self.resume_args))

    @property
    def gpus_text(self) -> str | None:
        """The value for `--gpus`; None if not set."""
        if isinstance(self.gpus, tuple):
            return ",".join(map(str, self.gpus)) + ("," if len(self.gpus) == 1 else "")
        return None if self.gpus is None else str(self.gpus)

    def overridden_by(self, upper: Self) -> Self:
        """Returns this level overridden by `upper`: defaults, variables and actions by entry, other keys as a whole."""
        changes = {key: value for key in Settings.__struct_fields__ if (value := getattr(upper, key)) is not None}
        merged = {"defaults": {**self.defaults, **upper.defaults}, "env": {**self.env, **upper.env}}
        merged["on"] = {**self.on, **upper.on}
        return structs.replace(self, **{**changes, **merged})


def read(path: str) -> Settings:
    """Reads an experiments file. A script that is not next to the file is looked up in the current folder.

    Raises `GmgError` if it cannot be read, is not TOML, or has an invalid key or value, which the message names.
    """
    file = Path(path)
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise GmgError(f"{path} is not a regular file; give the path of a TOML file")
        if file.suffix == ".py":
            raise GmgError(f"{path} is not an experiments file; without one: --set KEY=V1,V2 --script {path}")
        tree = toml.read(file)
    except FileNotFoundError as error:
        hint = "give a TOML file, or --set KEY=V1,V2 --script SCRIPT"
        raise GmgError(f"there is no experiments file {path}; {hint}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise GmgError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from error
    except ValueError as error:
        raise GmgError(f"{path} is not TOML: {error}") from error
    settings = _convert(path, tree)
    if settings.script is not None and not (settings.module or settings.script.startswith("/")):
        beside = file.parent / settings.script
        folder = file.parent if os.path.exists(beside) else Path()
        _check_planted(file, folder, settings.script)
        return structs.replace(settings, script=str(folder / settings.script))
    return settings


def _check_planted(file: Path, folder: Path, script: str) -> None:
    """Raises `GmgError` if another user could have put the script where the file names it.

    That is, in a folder such as `/tmp`, or in the current folder if the script is not beside the file.
    """
    trusted = {os.getuid(), 0}
    with suppress(OSError):
        trusted.add(file.stat().st_uid)
    find = owners if folder == Path() else public_components  # nobody has named the current folder
    for component, owner in {*find(folder / script)} - {*find(folder)}:
        if owner is not None and owner not in trusted:
            by = f"belongs to {user_name(owner)}, who may have put it where {file.name} names it"
            raise GmgError(f"{component} {by}; give the script's full path")


def from_options(options: Mapping[str, Any]) -> Settings:
    """Returns the settings from command-line options. Raises `GmgError`."""
    given = {key: value for key, value in options.items() if value is not None}
    if (width := given.get("ddp")) == "all":
        raise GmgError("--ddp: a sweep needs the number of ranks per job, as in --ddp 2")
    if isinstance(width, str) and (ranks := units.natural(width)) is not None:
        given["ddp"] = ranks
    for key, value in given.items():
        _convert(f"--{key.replace('_', '-')}", {key: value})
    return Settings(**given)


def parse_sets(words: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """Parses `--set KEY=V1,V2`. Numbers and booleans are as in TOML; all other values are text, including quoted ones.

    Raises `GmgError` if a word is not `KEY=V1,V2`, its key cannot be a placeholder, or a key is repeated.
    """
    values: dict[str, tuple[Value, ...]] = {}
    for word in words:
        name, sign, rest = word.partition("=")
        if word.encode(errors="replace").decode() != word:
            raise GmgError(f"--set {name}: the values are not UTF-8")
        if not sign or not name:
            raise GmgError(f"--set {word}: give KEY=VALUE or KEY=VALUE,VALUE, as in --set n_envs=1024,4096")
        if name in values:
            raise GmgError(f"--set {word}: {name} is given twice; separate its values by commas, as in {name}=1,2")
        items = _LIST_ITEM.findall(rest)
        if not all(item.strip() for item in items or ("",)) or ",".join(items) != rest:
            raise GmgError(f"--set {word}: a value is missing, or a quote is not closed; for an empty value, give ''")
        if any(item.count("[") != item.count("]") for item in items if item.strip()[0] not in "\"'"):
            raise GmgError(f"--set {word}: remove the brackets, or quote a value that contains commas")
        try:
            check_placeholder(name)
        except ValueError as error:
            raise GmgError(f"--set {word}: {error}") from error
        values[name] = tuple(_parse_value(item.strip()) for item in items)
    return values


def as_storable(value: Value) -> Value:
    """Returns the value in a form that JSON and SQLite can store: numbers out of range become text."""
    if isinstance(value, bool | str):
        return value
    fits = math.isfinite(value) and (isinstance(value, float) or -(1 << 63) <= value < 1 << 63)
    return value if fits else str(value)


def _parse_value(text: str) -> Value:
    try:
        value = toml.parse(f"value = {text}")["value"] if "\n" not in text else text
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float | str) else text


def safe_name(text: str) -> str:
    """Returns `text` with each run of characters but letters, digits and `._=,+-` as a dash, or removed at either end.

    Letters are composed (NFC), because some file systems treat composed and decomposed letters as the same.
    """
    return "-".join(filter(None, _UNSAFE.split(unicodedata.normalize("NFC", text))))


def is_job_name(name: str) -> bool:
    """Returns True if an experiment may have this name."""
    unchanged = unicodedata.normalize("NFC", name) == safe_name(name)
    return unchanged and not name.startswith(tuple(".-=,+")) and 0 < len(name.encode()) <= MAX_NAME_BYTES


def check_placeholder(name: str) -> None:
    """Raises `ValueError` unless a sweep's placeholder can have this name."""
    if name in BUILT_IN and name != "seed":  # a sweep may set the seed
        raise ValueError(f"{{{name}}} is filled in by gmg-tui itself; choose another name")
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError(f"{name} cannot be a placeholder; use letters, digits, '_', '-' and '.'")


def _convert(source: str, tree: dict[str, Any]) -> Settings:
    """Converts settings. Raises `GmgError` with `source` and the invalid key, such as `sweep.toml: grid.lr[0]`."""
    try:
        return msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        path = path.strip("`.")
        table, unnamed, rest = path.partition("[...]")  # `[...]` stands for an unnamed key
        for key, value in tree.get(table, {}).items() if unnamed else ():
            with suppress(msgspec.ValidationError):
                msgspec.convert({table: {key: value}}, Settings)
                continue
            path = f"{table}.{key}{rest}"
            break
        if unknown := _UNKNOWN_FIELD.fullmatch(text):
            keys = Settings.__struct_fields__
            hint = f"; a placeholder's value belongs under [defaults] or [grid]; valid keys: {', '.join(keys)}"
            text = f"unknown key {unknown[1]}{suggest(unknown[1], keys) or hint}"
        elif text.startswith("Expected"):
            text = text[0].lower() + text[1:].replace("`", "")
        prefix = "" if source.startswith("--") or not path else f"{path}: "
        raise GmgError(f"{source}: {prefix}{text}") from error
