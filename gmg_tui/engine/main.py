"""An engine from its start to its end: the parts put together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from pathlib import Path

from gmg_tui.engine.assembly import assemble
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.logs import Logs
from gmg_tui.engine.process import adopt_orphans
from gmg_tui.engine.pump import Pump
from gmg_tui.engine.server import Server
from gmg_tui.engine.warden_line import WardenLine
from gmg_tui.gpu import egl
from gmg_tui.gpu.sampler import Sampler
from gmg_tui.model import GpuReading, RunSpec

_log = logging.getLogger(__name__)

_FIRST_VISIT_S = 10.0
"""How long an engine whose workers have all ended waits for a first client."""
_LAST_VISIT_S = 0.5
"""How long it waits for another one after the last has gone."""
_VIEWER_S = 1.0
"""How long the workers wait at most for the viewer that was announced."""


class Engine:
    """Runs a session on `hardware`.

    Args:
        spec: What to run.
        hardware: Where.
        logs: Write the workers' output; closed by the caller.
        viewer_comes: Whether a screen is being opened on the session. Its first frame is drawn before the workers are
            started, at the latest `_VIEWER_S` after the engine listens: a dozen interpreters that start at once would
            take the cores from it, and the workers have hours.
    """

    def __init__(self, spec: RunSpec, hardware: Hardware, logs: Logs, *, viewer_comes: bool = False) -> None:
        self._spec = spec
        self._hardware = hardware
        self._logs = logs
        self._viewer_comes = viewer_comes
        self._enough = asyncio.Event()
        """A signal has said that clients need not be waited for."""

    async def start(self) -> None:
        """Begin to listen, and put all parts together. Raises `OSError`."""
        adopt_orphans()
        self._loop = asyncio.get_running_loop()
        self._measured = False
        self._sampling = self._sampler()  # cards take their time to answer; a first frame without their figures is none
        self._pump = Pump()
        self._begun = asyncio.Event()
        self._egl = asyncio.create_task(self._probe_egl())
        self._warden = WardenLine()
        self._supervisor, self._store = assemble(
            self._spec,
            self._hardware,
            self._pump,
            self._logs,
            self._warden,
            self._egl,
            self._changed,
            self._store_trouble,
        )
        self._server = Server(self._supervisor, Path(self._spec.socket))
        self._server.start()
        # Whoever is told that the session has begun must find it: `gmg-tui --detach sim.py && gmg-tui attach`.
        self._supervisor.keeper.write(self._supervisor.snapshot())
        self._listen_to_signals()

    async def run(self) -> None:
        """Run the workers until they have ended and no client is left."""
        living = asyncio.create_task(self._live())
        done = asyncio.create_task(self._done())
        try:
            await asyncio.wait([living, done], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (living, done, self._egl):
                task.cancel()
            failures = await asyncio.gather(living, done, return_exceptions=True)
            if await asyncio.to_thread(self._sampling.stop) and self._hardware.nvml is not None:
                self._hardware.nvml.close()
            await self._store.close()
            await self._supervisor.keeper.end()
            self._server.close("the session has ended")
            self._pump.close()
            await self._warden.close()
        for failure in failures:
            if isinstance(failure, BaseException) and not isinstance(failure, asyncio.CancelledError):
                raise failure

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._work())
            tasks.create_task(self._server.run())

    async def _work(self) -> None:
        """Run the workers, once the viewer that comes has had its first frame; what watches over them comes first."""
        if self._viewer_comes:
            await _any(self._server.watched, timeout_s=_VIEWER_S)
        self._begun.set()
        await self._warden.start(self._spec.name)
        self._store.start()
        await self._supervisor.run()

    async def _done(self) -> None:
        """Return when the workers have ended, and the clients have seen it."""
        supervisor, server = self._supervisor, self._server
        while True:
            await supervisor.all_ended.wait()
            if self._enough.is_set():
                return
            grace_s = _LAST_VISIT_S if server.visited.is_set() else _FIRST_VISIT_S
            await _any(self._enough, server.busy, timeout_s=grace_s)
            if not self._enough.is_set() and server.busy.is_set():
                await _any(self._enough, server.idle)
            elif supervisor.all_ended.is_set():
                return

    def _store_trouble(self, text: str | None) -> None:
        """The store's thread has trouble with the disk, or (None) has it no more."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the engine has ended meanwhile
            self._loop.call_soon_threadsafe(self._supervisor.note, "store", text)

    def _changed(self) -> None:
        self._supervisor.changed()
        self._server.soon()

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_end, number)
        # The engine has no terminal; a hang-up that reaches it all the same is no reason to end a day's work. It is
        # caught rather than ignored, because workers would inherit that.
        loop.add_signal_handler(signal.SIGHUP, _log.info, "SIGHUP came, and changes nothing")

    def _told_to_end(self, number: signal.Signals) -> None:
        """First signal: stop all workers in order. Second: kill them."""
        _log.info("%s came: the session ends", number.name)
        self._supervisor.end(kill=self._enough.is_set())
        self._enough.set()

    def _sampler(self) -> Sampler:
        loop = asyncio.get_running_loop()

        def deliver(readings: tuple[GpuReading, ...], error: str | None) -> None:
            # By way of the loop, which has nothing else to do before all parts are there.
            loop.call_soon_threadsafe(self._take_readings, readings, error)

        sampler = Sampler(self._hardware.gpus, self._spec.interval_s, deliver, nvml=self._hardware.nvml)
        if self._hardware.gpus:
            sampler.start()
        return sampler

    def _take_readings(self, readings: tuple[GpuReading, ...], error: str | None) -> None:
        self._supervisor.take_readings(readings, error)
        if not self._measured:
            self._measured = True
            self._server.soon()

    async def _probe_egl(self) -> egl.EglMap:
        """Ask EGL for its devices when the workers begin; on CPU slots nobody wants to know."""
        await self._begun.wait()
        return await egl.probe() if self._hardware.gpus else egl.EglMap(())


async def _any(*events: asyncio.Event, timeout_s: float | None = None) -> None:
    """Wait until one of the events is set, or for so long."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
