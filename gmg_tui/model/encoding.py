"""Encodes messages and records that may contain text that is not Unicode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


def encoded(encode: Callable[[Any], bytes], value: Any) -> bytes:
    """Returns `encode(value)`, with `?` for surrogates, as in file names that are not UTF-8."""
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(_as_unicode(msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=False)))


def _as_unicode(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_as_unicode(key): _as_unicode(each) for key, each in value.items()}
    return [_as_unicode(each) for each in value] if isinstance(value, list | tuple | set | frozenset) else value
