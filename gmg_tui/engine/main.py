"""An engine from its start to its end: the parts put together."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Self

from gmg_tui.engine.aside import aside
from gmg_tui.engine.gate import Gate
from gmg_tui.engine.launch import Launcher
from gmg_tui.engine.process import adopt_orphans
from gmg_tui.engine.pump import Pump
from gmg_tui.engine.server import Server
from gmg_tui.engine.supervisor import PHASE_TIMES, Supervisor
from gmg_tui.engine.warden_line import WardenLine
from gmg_tui.genesis import caches
from gmg_tui.genesis.phase_times import PhaseTimes
from gmg_tui.gpu import egl, select
from gmg_tui.gpu.nvml import Nvml, NvmlUnavailable
from gmg_tui.gpu.sampler import Sampler
from gmg_tui.model import Gpu, GpuReading, Phase, RunSpec, Slot, StartWay
from gmg_tui.session import sessions_folder

_log = logging.getLogger(__name__)

_FIRST_VISIT_S = 10.0
"""How long an engine whose workers have all ended waits for a first client."""
_LAST_VISIT_S = 0.5
"""How long it waits for another one after the last has gone."""


class Hardware:
    """The slots of a session, and the NVML handle that found them; None for CPU slots."""

    def __init__(self, slots: tuple[Slot, ...], nvml: Nvml | None) -> None:
        self.slots = slots
        self.nvml = nvml

    @classmethod
    def find(cls, spec: RunSpec) -> Self:
        """The slots that `spec` asks for.

        Raises:
            GmgError: There is no card, or not the cards asked for.
        """
        if spec.cpu is not None:
            return cls(select.cpu_slots(spec.cpu), None)
        try:
            nvml = Nvml.open()
            cards = nvml.cards()
        except NvmlUnavailable as error:
            raise select.no_gpu(str(error)) from error
        return cls(select.slots(cards, spec.gpus, os.environ.get("CUDA_VISIBLE_DEVICES")), nvml)

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The cards of the slots."""
        return tuple(slot.gpu for slot in self.slots if slot.gpu is not None)


class Engine:
    """Runs a session on `hardware`."""

    def __init__(self, spec: RunSpec, hardware: Hardware) -> None:
        self._spec = spec
        self._hardware = hardware
        self._enough = asyncio.Event()
        """A signal has said that clients need not be waited for."""

    async def start(self) -> None:
        """Begin to listen, and put all parts together. Raises `OSError`."""
        adopt_orphans()
        self._pump = Pump()
        self._egl = asyncio.create_task(self._probe_egl())
        slots = self._hardware.slots
        self._warden = WardenLine()
        await self._warden.start(self._spec.name)
        phase_times = PhaseTimes.load(sessions_folder().parent / PHASE_TIMES, _script_key(self._spec, slots[0]))
        gate = Gate(self._spec.start or _way(phase_times), slots[0].name)
        launcher = Launcher(self._spec, len(slots), self._pump, self._index_of, self._egl, gate, self._warden)
        self._supervisor = Supervisor(self._spec, slots, launcher, phase_times, self._changed)
        self._server = Server(self._supervisor, Path(self._spec.socket))
        self._server.start()
        # Whoever is told that the session has begun must find it: `gmg-tui --detach sim.py && gmg-tui attach`.
        self._supervisor.keeper.write(self._supervisor.snapshot())
        self._listen_to_signals()

    async def run(self) -> None:
        """Run the workers until they have ended and no client is left."""
        sampler = self._sampler()
        living = asyncio.create_task(self._live())
        done = asyncio.create_task(self._done())
        try:
            await asyncio.wait([living, done], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (living, done, self._egl):
                task.cancel()
            failures = await asyncio.gather(living, done, return_exceptions=True)
            if await asyncio.to_thread(sampler.stop) and self._hardware.nvml is not None:
                self._hardware.nvml.close()
            self._supervisor.keeper.write(self._supervisor.snapshot(), ended=True)
            self._server.close("the session has ended")
            self._pump.close()
            await self._warden.close()
        for failure in failures:
            if isinstance(failure, BaseException) and not isinstance(failure, asyncio.CancelledError):
                raise failure

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._supervisor.run())
            tasks.create_task(self._server.run())

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

    def _changed(self) -> None:
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
            loop.call_soon_threadsafe(self._supervisor.take_readings, readings, error)

        sampler = Sampler(self._hardware.gpus, self._spec.interval_s, deliver, nvml=self._hardware.nvml)
        if self._hardware.gpus:
            sampler.start()
        return sampler

    async def _probe_egl(self) -> egl.EglMap:
        """Ask EGL for its devices; on CPU slots nobody wants to know."""
        return await egl.probe() if self._hardware.gpus else egl.EglMap(())

    async def _index_of(self, gpu: Gpu) -> int:
        nvml = self._hardware.nvml
        return await aside(nvml.index_of, gpu.parent_uuid or gpu.uuid) if nvml is not None else gpu.index


def _script_key(spec: RunSpec, slot: Slot) -> str:
    """What the phases' times are kept under: a script takes other times on a card than on the CPU."""
    script = spec.script if spec.module else str(Path(spec.cwd, spec.script).resolve())
    return f"{script} on {slot.kind}"


def _way(phase_times: PhaseTimes) -> StartWay:
    """How to start where nobody has said: gated, unless this script has compiled before and its caches are there."""
    warm = phase_times.usual(Phase.COMPILING) is not None and caches.exist(os.environ)
    return StartWay.TOGETHER if warm else StartWay.GATED


async def _any(*events: asyncio.Event, timeout_s: float | None = None) -> None:
    """Wait until one of the events is set, or for so long."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
