"""Runs calls that may block forever, such as to a driver or a disk, in threads that do not delay the process's exit."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

_THREAD_RETRY_S = 0.2
_P = ParamSpec("_P")
_T = TypeVar("_T")


def begin(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
    """Runs `function` in a new daemon thread. Returns its future. Raises `RuntimeError` if no thread can be started."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()  # cancelling a waiter does not cancel the call

    def run() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # raised by `future.result`
            future.set_exception(error)

    threading.Thread(target=run, name=f"daemon {getattr(function, '__name__', '')}", daemon=True).start()
    return future


async def in_daemon_thread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Runs `function` in a new daemon thread, once one can be started. Returns its result or raises its exception.

    `asyncio.to_thread` does not suit a hung driver: `asyncio.run` waits for its threads before it returns.
    """
    import asyncio  # late: `gmg-tui gpus` runs no event loop

    while True:
        try:
            future = begin(function, *args, **kwargs)
        except RuntimeError:  # for example, a script has used up the container's process limit
            await asyncio.sleep(_THREAD_RETRY_S)
        else:
            return await asyncio.wrap_future(future)
