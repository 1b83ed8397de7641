"""Who is at the other end of a connection, and what of a session another user does not get to see."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, Final, TypeVar, cast

from msgspec import Struct, structs

from gmg_tui.model import Details

HIDDEN: Final = "(hidden)"
"""Stands for the value of a variable of the environment."""
_CREDENTIALS: Final = struct.Struct("3i")
_ENVIRONMENTS: Final = frozenset({"env", "extra_env"})
"""Fields with variables that the owner has given by `--env` or edited, among which passwords and keys may be."""

T = TypeVar("T")


def user_of(writer: asyncio.StreamWriter) -> int:
    """The user ID of the process that has connected, as the kernel says it (`SO_PEERCRED`, unix(7)).

    Raises:
        OSError: The connection is gone.
    """
    connection: socket.socket = writer.get_extra_info("socket")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return int(user)


def without_values(thing: T) -> T:
    """`thing` for another user: without the values of the environment that the owner has given.

    The names stay. Arguments stay too: any user of a machine can see those of all processes (`ps`).
    """
    if isinstance(thing, Details):
        own = set(thing.extra_env).union(*(settings.env for settings in thing.settings))
        env = {name: HIDDEN if name in own else value for name, value in thing.env.items()}
        return cast("T", structs.replace(_hide(structs.replace(thing, env={})), env=env))
    return cast("T", _hide(thing))


def _hide(thing: Any) -> Any:
    if isinstance(thing, tuple):
        return tuple(map(without_values, thing))
    if not isinstance(thing, Struct):
        return thing
    changes: dict[str, object] = {}
    for name in thing.__struct_fields__:
        value = getattr(thing, name)
        if name in _ENVIRONMENTS and isinstance(value, dict):
            changes[name] = dict.fromkeys(value, HIDDEN)
        elif isinstance(value, Struct | tuple) and (fresh := without_values(value)) != value:
            changes[name] = fresh
    return structs.replace(thing, **changes) if changes else thing
