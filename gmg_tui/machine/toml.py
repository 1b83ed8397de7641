"""Parses TOML, with limits on size, depth and integers."""

import re
import tomllib
from typing import Any

MAX_CHARACTERS = 16 << 20
MAX_DEPTH = 32
_DEEP_KEY = re.compile(rf"""(?<![\w"'.-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}""")
_INTEGERS = range(-(2**63), 2**63)


def parse(text: str) -> dict[str, Any]:
    """Parses the text of a TOML file. Raises `ValueError` if it is invalid or exceeds a limit."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"it is larger than {MAX_CHARACTERS >> 20} MiB")
    if _DEEP_KEY.search(text):
        raise ValueError(f"a key has more than {MAX_DEPTH} parts")
    try:
        content = tomllib.loads(text)
        _check(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return content


def _check(value: object) -> None:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check(item)
    elif isinstance(value, int) and value not in _INTEGERS:
        raise ValueError("an integer has more than 64 bits")
