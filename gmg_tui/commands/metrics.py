"""`metrics`: tell what running sessions do, for Prometheus."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
from contextlib import nullcontext

from gmg_tui import recovery
from gmg_tui import session as sessions
from gmg_tui.commands.messages import tell
from gmg_tui.errors import GmgError

LISTEN = "127.0.0.1:9400"
_INTERRUPTED = 130
_LIBRARY = "prometheus_client"


def metrics(names: tuple[str, ...], *, listen: str | None, textfile: str | None, dcgm_names: bool) -> int:
    """Tell of the running sessions, or those that are named, until a signal ends it.

    Returns:
        The exit status: 130 after ctrl+c, else 0; with names it also ends when those sessions have.

    Raises:
        GmgError: An option is wrong, a session is not running, or the place is taken.
    """
    if listen is not None and textfile is not None:
        raise GmgError("--listen and --textfile are mutually exclusive; give one of them")
    if importlib.util.find_spec(_LIBRARY) is None:
        raise GmgError("metrics needs prometheus_client; get it with: pip install 'gmg-tui[metrics]'", 1)
    recovery.clear(tell)
    for name in names:
        sessions.find(name, running=True, command="metrics")
    return asyncio.run(_tell(names, LISTEN if listen is None else listen, textfile, dcgm_names=dcgm_names))


async def _tell(names: tuple[str, ...], listen: str, textfile: str | None, *, dcgm_names: bool) -> int:
    from prometheus_client import CollectorRegistry

    from gmg_tui.metrics import listening
    from gmg_tui.metrics.collector import SessionsCollector
    from gmg_tui.metrics.following import Following
    from gmg_tui.metrics.textfile import EVERY_S, Textfile, check

    stopped = asyncio.get_running_loop().create_future()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopped, number)
    following = Following(names, tell)
    registry = CollectorRegistry()
    registry.register(SessionsCollector(following, dcgm_names=dcgm_names))
    file = Textfile(check(textfile), registry) if textfile is not None else None
    if textfile is not None and not textfile.endswith(".prom"):
        tell(f"gmg-tui: --textfile {textfile}: node_exporter reads files that end in .prom only")
    with listening.listening(listening.parse(listen), registry) if file is None else nullcontext("") as where:
        tasks = [asyncio.create_task(following.run())]
        await asyncio.wait(
            [asyncio.ensure_future(following.found.wait()), tasks[0], stopped], return_when="FIRST_COMPLETED"
        )
        tell(
            f"gmg-tui: metrics at {where}" if file is None else f"gmg-tui: metrics in {textfile}, every {EVERY_S:.0f} s"
        )
        if file is not None:
            tasks.append(asyncio.create_task(file.run()))
        await asyncio.wait([*tasks, stopped], return_when="FIRST_COMPLETED")
        failures = [task.exception() for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for failure in failures:
        if failure is not None:
            raise failure
    return _INTERRUPTED if stopped.done() and stopped.result() == signal.SIGINT else 0


def _stop(stopped: asyncio.Future[int], number: int) -> None:
    if not stopped.done():
        stopped.set_result(number)
