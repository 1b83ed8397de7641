"""What single keys of the experiments' file, and the options of the same meaning, may hold.

Each check takes where the value stands (`sweep.toml: per_gpu`, `--per-gpu`) and the value, and returns it in the form
that the model has. Each raises `GmgError`, with one line, when the value cannot be meant so.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from gmg_tui.errors import GmgError
from gmg_tui.genesis.placeholders import JOB_NAMES, NAME, NAMES, as_text
from gmg_tui.model import Value

BUILT_IN = (*NAMES, *JOB_NAMES)
"""The placeholders that every job has without a value in the file."""

_PER_GPU = (1, 64)
_RETRIES = (0, 1000)
_LONGEST_S = 366 * 86400.0
_MOST_MIB = 1 << 30
_MAX_NAME = 80
_JOB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=,+-]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECONDS = re.compile(r"\d+(?:\.\d+)?")
_SPAN = re.compile(r"(?=\d)" + "".join(rf"(?:(?P<{unit}>\d+(?:\.\d+)?){unit})?" for unit in "dhms"))
_UNIT_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_WORDS = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a table"}
_SHOWN = 40
_INT64 = 1 << 63


def wrong(where: str, value: object, right: str) -> NoReturn:
    """Raise the error for a value of another kind, or out of range; `right` is what it should be."""
    raise GmgError(f"{where} is {shown(value)}; {right}")


def shown(value: object) -> str:
    """A value of the file, in a few words on one line."""
    if isinstance(value, list | dict):
        return "empty" if not value else _WORDS[type(value)]
    text = repr(value) if isinstance(value, str) else as_text(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def key(name: str) -> str:
    """A key of the file as the file has it: in quotes where it is no bare one."""
    return name if _BARE_KEY.fullmatch(name) else repr(name)


def nearest(word: str, known: Iterable[str]) -> str:
    """A clause that names the known word that `word` may have been meant to be; empty when none is near."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def text(where: str, value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        wrong(where, value, 'give a text in quotes, as in "abc"')
    return value


def flag(where: str, value: Any) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        wrong(where, value, "give true or false")
    return value


def args(where: str, value: Any) -> tuple[str, ...]:
    """A list of arguments; numbers and booleans in it are written as text."""
    if not isinstance(value, list):
        wrong(where, value, 'give a list, as in ["--lr", "{lr}"]')
    return tuple(_word(f"{where}[{number}]", one) for number, one in enumerate(value, 1))


def env(where: str, value: Any) -> dict[str, str]:
    """A table of variables; numbers and booleans in it are written as text."""
    if not isinstance(value, dict):
        wrong(where, value, 'give a table, as in { KEY = "value" }')
    for name in value:
        if not _VARIABLE.fullmatch(name):
            raise GmgError(f"{where}: {shown(name)} is no name of a variable; give letters, digits and '_'")
    return {name: _word(f"{where}.{name}", one) for name, one in value.items()}


def _word(where: str, value: Any) -> str:
    if isinstance(value, list | dict) or not isinstance(value, bool | int | float | str):
        wrong(where, value, "give a text in quotes")
    if isinstance(value, str) and "\0" in value:
        wrong(where, value, "no argument or variable can hold a zero byte")
    return as_text(value)


def gpus(where: str, value: Any) -> str:
    """What `--gpus` takes: `all`, a count, or a list of indices and UUIDs; a list of TOML becomes such a list."""
    right = 'give a list of indices or UUIDs, as in [0, 2], or what --gpus takes: "all", 4 (a count), "0,2"'
    match value:
        case bool():
            wrong(where, value, right)
        case int() if value >= 1:
            return str(value)
        case str() if value.strip():
            return value.strip()
        case list() if value and all(_is_card(one) for one in value):
            return ",".join(str(one).strip() for one in value) + ("," if len(value) == 1 else "")
        case _:
            wrong(where, value, right)


def _is_card(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and "," not in value
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def per_gpu(where: str, value: Any) -> int:
    """How many jobs may be on a card at once."""
    return _whole(where, value, _PER_GPU)


def retries(where: str, value: Any) -> int:
    """How often a failed job is run again."""
    return _whole(where, value, _RETRIES)


def _whole(where: str, value: Any, limits: tuple[int, int]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not limits[0] <= value <= limits[1]:
        wrong(where, value, f"give a whole number from {limits[0]} to {limits[1]}")
    return value


def min_free_mib(where: str, value: Any) -> float:
    """Mebibytes of a card's memory."""
    # Written so that NaN is outside.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_MIB:
        wrong(where, value, "give a number of mebibytes, 0 or more")
    return float(value)


def timeout_s(where: str, value: Any) -> float:
    """Seconds, from a number of them or a text such as `1h30m`; infinity for the text `none`."""
    seconds = value if isinstance(value, int | float) and not isinstance(value, bool) else _span_s(value)
    if seconds == math.inf and isinstance(value, str):
        return seconds
    if seconds is None or not 0 < seconds <= _LONGEST_S:
        wrong(where, value, 'give a time, as in "30m", "1h30m", "45s" or 90 (seconds), up to 366d, or "none"')
    return float(seconds)


def _span_s(value: Any) -> float | None:
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
    """What a placeholder stands for.

    Numbers that JSON lacks (`inf`, `nan`, whole ones beyond 64 bits) are kept as text: they are filled in the same, and
    the results can hold them.
    """
    match value:
        case bool():
            return value
        case int():
            return value if -_INT64 <= value < _INT64 else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case str() if "\0" not in value:
            return value
        case dict():
            wrong(where, value, 'give a text, a number or a boolean; a name with a dot is written in quotes, as "a.b"')
        case _:
            wrong(where, value, "give a text, a number or a boolean")


def value_name(where: str, name: str) -> str:
    """A name that a placeholder can have, and that none has already."""
    if name in BUILT_IN:
        raise GmgError(f"{where}: {{{name}}} is filled in by gmg-tui itself; take another name")
    if not NAME.fullmatch(name):
        raise GmgError(f"{where}: {shown(name)} can be no placeholder; give letters, digits, '_', '-' and '.'")
    return name


def job_name(where: str, name: Any) -> str:
    """A name that can be a file's."""
    if not isinstance(name, str) or not _JOB_NAME.fullmatch(name) or len(name) > _MAX_NAME:
        wrong(where, name, f"give up to {_MAX_NAME} letters, digits and '.', '_', '=', ',', '+', '-'")
    return name
