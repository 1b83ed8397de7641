"""Runs what may block forever beside the event loop, so that it delays neither the loop nor the engine's end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def in_daemon_thread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run `function` in a daemon thread of its own; returns or raises what it does.

    `asyncio.to_thread` will not do for a driver that hangs: `asyncio.run` waits for its threads before it returns.
    """
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()  # it goes on when the caller is cancelled

    def run() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # passed on to the caller, whatever it is
            future.set_exception(error)

    threading.Thread(target=run, name=f"daemon {getattr(function, '__name__', '')}", daemon=True).start()
    return await asyncio.wrap_future(future)
