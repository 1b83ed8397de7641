"""What the command line says of a sweep, in the form in which the file says it."""

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
    """The options that `sweep` has beside those of `run`, as the command line gives them."""

    script: str | None = None
    module: bool = False
    sets: tuple[str, ...] = ()
    """`KEY=V1,V2` each."""
    args: str | None = None
    """As a shell would read them."""
    words: tuple[str, ...] | None = None
    """What stands after `--`."""
    per_gpu: int | None = None
    retries: int | None = None
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


def overlay(options: SweepOptions, *, gpus: str | None, env: dict[str, str]) -> Settings:
    """What the command line says, as the level of settings above the file's.

    Args:
        options: The sweep's own.
        gpus: `--gpus`.
        env: `--env`.

    Raises:
        GmgError: An option cannot be meant so.
    """
    said: dict[str, Any] = {
        "script": options.script,
        "args": _args(options),
        "gpus": gpus,
        "best": options.best,
        "out_dir": None if options.out_dir is None else checks.text("--out-dir", options.out_dir),
        **_limits(options),
    }
    if options.script is not None or options.module:
        said["module"] = options.module
    if env:
        said["env"] = env
    places = {
        "script": "--script",
        "module": "--module",
        "args": "--args" if options.args is not None else "after --",
        "out_dir": "--out-dir",
    }
    known = {field: place for field, place in places.items() if said.get(field) is not None}
    return Settings(**said, places={**known, **{f"env.{name}": f"--env {name}" for name in env}})


def _limits(options: SweepOptions) -> dict[str, Any]:
    rules = (
        ("per_gpu", "--per-gpu", options.per_gpu, checks.per_gpu),
        ("retries", "--retries", options.retries, checks.retries),
        ("timeout_s", "--timeout", options.timeout, checks.timeout_s),
        ("min_free_mib", "--min-free-mib", options.min_free_mib, checks.min_free_mib),
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

    What TOML reads as a number or a boolean is one, all else is text; quotes keep a number or a comma as text.

    Raises:
        GmgError: One is no `KEY=V1,V2`, its key can be no placeholder, or a key comes twice.
    """
    found: dict[str, tuple[Value, ...]] = {}
    for word in words:
        name, sign, rest = word.partition("=")
        if not sign or not name:
            raise GmgError(f"--set {word}: give KEY=VALUE or KEY=VALUE,VALUE")
        checks.value_name(f"--set {word}", name)
        if name in found:
            raise GmgError(f"--set {word}: {name} comes twice; write its values after one another, as in {name}=1,2")
        found[name] = _values(word, rest)
    return found


def _values(word: str, text: str) -> tuple[Value, ...]:
    parts = _PART.findall(text)
    # What lies between the parts must be single commas: no quote that is left open, no value that is left out.
    if not all(part.strip() for part in parts or ("",)) or ",".join(parts) != text:
        raise GmgError(f"--set {word}: a value is left out, or a quote left open; give KEY=V1,V2 (an empty one as '')")
    if any(part.count("[") != part.count("]") for part in parts if part.strip()[0] not in "\"'"):
        raise GmgError(f"--set {word}: leave out the brackets, or put a value that has commas in quotes of its own")
    return tuple(_value(f"--set {word}", part.strip()) for part in parts)


def _value(where: str, text: str) -> Value:
    try:
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, RecursionError):
        return checks.value(where, text)
    return checks.value(where, value if isinstance(value, bool | int | float | str) else text)
