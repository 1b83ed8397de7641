"""What the command line sets of a sweep, as settings that override the file's."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any, NamedTuple

from gmg_tui.errors import GmgError
from gmg_tui.model import Value
from gmg_tui.sweep import checks
from gmg_tui.sweep.settings import Settings

_PART = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,"'])+""")


class SweepOptions(NamedTuple):
    """The options that only `sweep` has, as the command line gives them."""

    script: str | None = None
    module: bool = False
    sets: tuple[str, ...] = ()
    """`KEY=V1,V2` each."""
    args: str | None = None
    """To be split as a shell would."""
    words: tuple[str, ...] | None = None
    """The words after `--`."""
    per_gpu: int | None = None
    retries: int | None = None
    repeat: int | None = None
    every_gpu: bool = False
    timeout: str | None = None
    min_free_mib: float | None = None
    out_dir: str | None = None
    results: str | None = None
    best: str | None = None
    presets: tuple[str, ...] = ()
    all_presets: bool = False
    dry_run: bool = False
    resume: str | None = None
    retry_failed: bool = False


def overrides(options: SweepOptions, *, gpus: str | None, env: dict[str, str], ddp: str | None = None) -> Settings:
    """What the command line sets, as the level of settings above the file.

    Raises:
        GmgError: An option has an invalid value.
    """
    said: dict[str, Any] = {
        "script": options.script,
        "args": _args(options),
        "gpus": gpus,
        "ddp": None if ddp is None else checks.width("--ddp", ddp),
        "best": options.best,
        "out_dir": None if options.out_dir is None else checks.convert("--out-dir", options.out_dir, checks.Text),
        "every_gpu": options.every_gpu or None,
        **_limits(options),
    }
    if options.script is not None or options.module:
        said["module"] = options.module
    if env:
        said["env"] = env
    places = {
        "script": "--script",
        "module": "--module",
        "ddp": "--ddp",
        "args": "--args" if options.args is not None else "after --",
        "out_dir": "--out-dir",
    }
    known = {field: place for field, place in places.items() if said.get(field) is not None}
    return Settings(**said, places={**known, **{f"env.{name}": f"--env {name}" for name in env}})


def _limits(options: SweepOptions) -> dict[str, Any]:
    rules = (
        ("per_gpu", "--per-gpu", options.per_gpu, checks.of_type(checks.PerGpu)),
        ("retries", "--retries", options.retries, checks.of_type(checks.Retries)),
        ("repeat", "--repeat", options.repeat, checks.of_type(checks.Repeat)),
        ("timeout_s", "--timeout", options.timeout, checks.timeout_s),
        ("min_free_mib", "--min-free-mib", options.min_free_mib, checks.of_type(checks.MinFreeMib)),
    )
    return {field: None if given is None else check(option, given) for field, option, given, check in rules}


def _args(options: SweepOptions) -> tuple[str, ...] | None:
    if options.args is None:
        return options.words
    if options.words is not None:
        raise GmgError("the arguments are given twice, by --args and after --; give them once")
    try:
        return tuple(shlex.split(options.args))
    except ValueError as error:
        raise GmgError(f"--args {options.args}: {str(error).lower()}; quote it as for a shell") from error


def sets(words: tuple[str, ...]) -> dict[str, tuple[Value, ...]]:
    """The values of each `--set KEY=V1,V2`.

    What TOML reads as a number or a boolean is one, anything else is text; quotes make a number or a comma text.

    Raises:
        GmgError: A word is not `KEY=V1,V2`, its key cannot be a placeholder, or a key is repeated.
    """
    found: dict[str, tuple[Value, ...]] = {}
    for word in words:
        name, sign, rest = word.partition("=")
        if not sign or not name:
            raise GmgError(f"--set {word}: give KEY=VALUE or KEY=VALUE,VALUE")
        checks.value_name(f"--set {word}", name)
        if name in found:
            raise GmgError(f"--set {word}: {name} is given twice; separate its values by commas, as in {name}=1,2")
        found[name] = _values(word, rest)
    return found


def _values(word: str, text: str) -> tuple[Value, ...]:
    parts = _PART.findall(text)
    # Nothing but single commas between the parts: no unclosed quote, no missing value.
    if not all(part.strip() for part in parts or ("",)) or ",".join(parts) != text:
        raise GmgError(
            f"--set {word}: a value is missing, or a quote is not closed; give KEY=V1,V2 (an empty one as '')"
        )
    if any(part.count("[") != part.count("]") for part in parts if part.strip()[0] not in "\"'"):
        raise GmgError(f"--set {word}: leave out the brackets, or quote a value that contains commas")
    return tuple(_value(f"--set {word}", part.strip()) for part in parts)


def _value(where: str, text: str) -> Value:
    try:
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, RecursionError):
        return checks.value(where, text)
    return checks.value(where, value if isinstance(value, bool | int | float | str) else text)
