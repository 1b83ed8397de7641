"""The values that keys of the experiments file, and the options of the same meaning, may have.

Each check takes where the value comes from (`sweep.toml: per_gpu`, `--per-gpu`) and the value, and returns what the model
stores for it, or raises `GmgError` with one line that says what would be right.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, NoReturn, get_args

import msgspec
from msgspec import Meta

from gmg_tui.errors import GmgError
from gmg_tui.genesis.placeholders import JOB_NAMES, NAME, NAMES, as_text
from gmg_tui.model import Value
from gmg_tui.sweep import names

BUILT_IN = (*NAMES, *JOB_NAMES)
"""The placeholders that every job has without a value in the file."""

# A type's description says what would be right where a value does not have that type.
Text = Annotated[str, Meta(pattern=r"^[^\0]*[^\s\0][^\0]*$", description='give a text in quotes, as in "abc"')]
Flag = Annotated[bool, Meta(description="give true or false")]
PerGpu = Annotated[int, Meta(ge=1, le=64, description="give a whole number from 1 to 64")]
Retries = Annotated[int, Meta(ge=0, le=1000, description="give a whole number from 0 to 1000")]
Repeat = Annotated[int, Meta(ge=1, le=1000, description="give a whole number from 1 to 1000")]
MinFreeMib = Annotated[float, Meta(ge=0, le=1 << 30, description="give a number of mebibytes, 0 or more")]
_Width = Annotated[int, Meta(ge=1, le=1024)]
_Plain = bool | int | float | Annotated[str, Meta(pattern=r"^[^\0]*$")]
_Word = Annotated[_Plain, Meta(description="give a text in quotes; it cannot contain a zero byte")]
_Scalar = Annotated[_Plain, Meta(description="give a text, a number or a boolean")]
_Args = Annotated[list[Any], Meta(description='give a list, as in ["--lr", "{lr}"]')]
_Env = Annotated[dict[str, Any], Meta(description='give a table, as in { KEY = "value" }')]
_Grid = Annotated[dict[str, Any], Meta(description="give a table of lists, as in [grid]")]
_GridValues = Annotated[list[Any], Meta(description="give a list of values, or write it under [defaults]")]
_Defaults = Annotated[dict[str, Any], Meta(description="give a table of values, as in [defaults]")]
Experiments = Annotated[list[dict[str, Any]], Meta(description="write [[experiment]], in two brackets, before each")]
Presets = Annotated[dict[str, Any], Meta(description="give each a table of its own, as in [preset.quick]")]

_LONGEST_S = 366 * 86400.0
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECONDS = re.compile(r"\d+(?:\.\d+)?")
_SPAN = re.compile(r"(?=\d)" + "".join(rf"(?:(?P<{unit}>\d+(?:\.\d+)?){unit})?" for unit in "dhms"))
_UNIT_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_SHOWN = 40
_INT64 = 1 << 63


def wrong(where: str, value: object, right: str) -> NoReturn:
    """Raise the error for a value of the wrong type or out of range; `right` says what it should be."""
    raise GmgError(f"{where} is {shown(value)}; {right}")


def of_type(kind: Any) -> Callable[[str, Any], Any]:
    """The check whether a value has the type `kind`, one of the annotated types of this module."""
    return lambda where, value: convert(where, value, kind)


def convert(where: str, value: Any, kind: Any) -> Any:
    """`value` as the annotated type `kind`. Raises `GmgError` with the type's description where it is not one."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        wrong(where, value, next(meta.description for meta in get_args(kind)[1:] if meta.description))


def shown(value: object) -> str:
    """A value of the file, in a few words on one line."""
    if isinstance(value, list | dict):
        return "empty" if not value else "a list" if isinstance(value, list) else "a table"
    text = repr(value) if isinstance(value, str) else as_text(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def key(name: str) -> str:
    """A key as the file has it: in quotes unless it is a bare key."""
    return name if _BARE_KEY.fullmatch(name) else repr(name)


def nearest(word: str, known: Iterable[str]) -> str:
    """A clause that suggests the known word that `word` may be a misspelling of; empty when none is close."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def args(where: str, value: Any) -> tuple[str, ...]:
    """A list of arguments; numbers and booleans in it are written as text."""
    words = convert(where, value, _Args)
    return tuple(as_text(convert(f"{where}[{number}]", one, _Word)) for number, one in enumerate(words, 1))


def env(where: str, value: Any) -> dict[str, str]:
    """A table of environment variables; numbers and booleans in it are written as text."""
    variables = convert(where, value, _Env)
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            raise GmgError(f"{where}: {shown(name)} is not a variable name; give letters, digits and '_'")
    return {name: as_text(convert(f"{where}.{name}", one, _Word)) for name, one in variables.items()}


def gpus(where: str, value: Any) -> str:
    """What `--gpus` takes: `all`, a count, or a list of indices and UUIDs, which may be a TOML list."""
    right = 'give a list of indices or UUIDs, as in [0, 2], or what --gpus takes: "all", 4 (a count), "0,2"'
    match value:
        case bool():
            wrong(where, value, right)
        case int() if value >= 1:
            return str(value)
        case str() if value.strip():
            return value.strip()
        case list() if value and all(_is_gpu(one) for one in value):
            return ",".join(str(one).strip() for one in value) + ("," if len(value) == 1 else "")
        case _:
            wrong(where, value, right)


def width(where: str, value: Any) -> int | str:
    """How many slots a job takes at once: a number, or the placeholder of one, as in `{ranks}`."""
    if isinstance(value, str) and not value.strip().isdecimal():
        name = value.strip()
        if names_in_braces(name):
            return name
    try:
        return msgspec.convert(int(value) if isinstance(value, str) else value, _Width)
    except (ValueError, msgspec.ValidationError):
        wrong(where, value, "give a whole number from 1 to 1024, or one value's placeholder, as in '{ranks}'")


def names_in_braces(text: str) -> bool:
    """Whether `text` is one placeholder, and nothing else."""
    return text.startswith("{") and text.endswith("}") and NAME.fullmatch(text[1:-1]) is not None


def _is_gpu(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and "," not in value
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def timeout_s(where: str, value: Any) -> float:
    """Seconds, from a number of them or a text such as `1h30m`; infinity for the text `none`."""
    seconds = value if isinstance(value, int | float) and not isinstance(value, bool) else span_s(value)
    if seconds == math.inf and isinstance(value, str):
        return seconds
    if seconds is None or not 0 < seconds <= _LONGEST_S:
        wrong(where, value, 'give a time, as in "30m", "1h30m", "45s" or 90 (seconds), up to 366d, or "none"')
    return float(seconds)


def span_s(value: Any) -> float | None:
    """Seconds, from a text such as `1h30m` or `90`; infinity for `none`, None for what is neither."""
    if not isinstance(value, str):
        return None
    word = value.strip().lower()
    if word == "none":
        return math.inf
    if _SECONDS.fullmatch(word):
        return float(word)
    parts = _SPAN.fullmatch(word)
    return sum(float(part) * _UNIT_S[unit] for unit, part in parts.groupdict("0").items()) if parts else None


def value(where: str, value: Any) -> Value:
    """A placeholder's value.

    Numbers that JSON lacks (`inf`, `nan`, integers beyond 64 bits) become text, which the results can store and which
    is filled in the same.
    """
    if isinstance(value, dict):
        wrong(where, value, 'give a text, a number or a boolean; a name with a dot needs quotes, as in "a.b"')
    one: Value = convert(where, value, _Scalar)
    in_json = isinstance(one, bool | str) or (-_INT64 <= one < _INT64 if isinstance(one, int) else math.isfinite(one))
    return one if in_json else str(one)


def grid(where: str, table: Any) -> dict[str, tuple[Value, ...]]:
    """The values of each placeholder of the grid."""
    found: dict[str, tuple[Value, ...]] = {}
    for name, raw in convert(where, table, _Grid).items():
        place = f"{where}.{key(name)}"
        value_name(place, name)
        values = convert(place, raw, _GridValues)
        if not values:
            raise GmgError(f"{place} is empty; give it at least one value, or leave it out")
        found[name] = tuple(value(f"{place}[{number}]", one) for number, one in enumerate(values, 1))
    return found


def defaults(where: str, table: Any) -> dict[str, Value]:
    """The value of each placeholder."""
    found = {}
    for name, raw in convert(where, table, _Defaults).items():
        place = f"{where}.{key(name)}"
        value_name(place, name)
        if isinstance(raw, list):
            wrong(place, raw, "a job has one value; lists belong under [grid]")
        found[name] = value(place, raw)
    return found


def value_name(where: str, name: str) -> str:
    """A name that a placeholder can have and that is not built in."""
    if name in BUILT_IN:
        raise GmgError(f"{where}: {{{name}}} is filled in by gmg-tui itself; choose another name")
    if not NAME.fullmatch(name):
        raise GmgError(f"{where}: {shown(name)} cannot be a placeholder; give letters, digits, '_', '-' and '.'")
    return name


def job_name(where: str, name: Any) -> str:
    """A name that can be part of a file name, its letters composed (NFC)."""
    checked = names.given(name) if isinstance(name, str) else None
    if checked is None:
        wrong(where, name, f"give up to {names.MAX_BYTES} letters, digits and '.', '_', '=', ',', '+', '-'")
    return checked
