"""Parses TOML, with limits on size, depth and integers."""

import re
import tomllib
from pathlib import Path
from typing import Any

from gmg_tui.machine.files import open_for_reading

MAX_CHARACTERS = 16 << 20
MAX_DEPTH = 32
_TOO_LARGE = f"it is larger than {MAX_CHARACTERS >> 20} MiB"
_DEEP_KEY = re.compile(rf"""(?<![\w"'.-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}""")
_INTEGERS = range(-(2**63), 2**63)


def read(path: Path) -> dict[str, Any]:
    """Reads and parses a TOML file, of which never more than the limit is in memory. Raises `OSError`, `ValueError`."""
    with open_for_reading(path) as file:
        data = file.read(MAX_CHARACTERS + 1)
    if len(data) > MAX_CHARACTERS:
        raise ValueError(_TOO_LARGE)
    return parse(data.decode("utf-8-sig"))


def parse(text: str) -> dict[str, Any]:
    """Parses the text of a TOML file. Raises `ValueError` if it is invalid or exceeds a limit."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(_TOO_LARGE)
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
