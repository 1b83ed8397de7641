"""Runs what may block forever, such as a question to a driver or a disk, so that it does not delay the process's end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

RETRY_S = 0.2
_P = ParamSpec("_P")
_T = TypeVar("_T")


def begin(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
    """Runs `function` in a new daemon thread. Returns the future of its result. Raises `RuntimeError` if no thread can be started."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()  # cancelling a waiter does not cancel the call

    def run() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # raised where the result is taken, whatever it is
            future.set_exception(error)

    threading.Thread(target=run, name=f"daemon {getattr(function, '__name__', '')}", daemon=True).start()
    return future


async def in_daemon_thread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Runs `function` in a new daemon thread, once one can be started. Returns or raises what it does.

    `asyncio.to_thread` will not do for a driver that hangs: `asyncio.run` waits for its threads before it returns.
    """
    import asyncio  # late: `gmg-tui gpus` runs no event loop

    while True:
        try:
            begun = begin(function, *args, **kwargs)
        except RuntimeError:  # no thread can be started, as when a script has used up the processes of a container
            await asyncio.sleep(RETRY_S)
        else:
            return await asyncio.wrap_future(begun)
