"""Runs what may block forever beside the event loop, so that it delays neither the loop nor the engine's end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def in_daemon_thread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run `function` in a daemon thread of its own; returns or raises what it does.

    `asyncio.to_thread` will not do for a driver that hangs: `asyncio.run` waits for its threads before it returns.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: BaseException | None) -> None:
        if future.done():
            return  # the caller has been cancelled
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type] # None only beside an error, or when it is the result

    def run() -> None:
        result, failure = None, None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:  # passed on to the caller, whatever it is
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the engine has ended meanwhile
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name=f"daemon {getattr(function, '__name__', '')}", daemon=True).start()
    return await future
