"""The life of an engine: starts its parts, runs the workers, and ends when nobody needs it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from gmg_tui import sockets
from gmg_tui.engine.api.listener import Listener
from gmg_tui.engine.api.server import Server
from gmg_tui.engine.children import Children
from gmg_tui.engine.composition import assemble
from gmg_tui.engine.daemon_thread import in_daemon_thread
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.output.log_writer import LogWriter
from gmg_tui.engine.output.pump import Pump
from gmg_tui.engine.processes.process import adopt_orphans
from gmg_tui.engine.telling.command import NotifyCommands
from gmg_tui.engine.telling.occurrences import Occurrences, how_it_ended
from gmg_tui.engine.watchdog.client import WatchdogClient
from gmg_tui.gpu import egl
from gmg_tui.gpu.sampler import Sampler
from gmg_tui.model import GpuSample, OccurrenceKind, RunSpec

if TYPE_CHECKING:
    from gmg_tui.engine.nodes.fleet import Fleet

_log = logging.getLogger(__name__)

_FIRST_VISIT_S = 10.0
"""How long an engine whose workers have ended waits for a first client."""
_LAST_VISIT_S = 0.5
"""How long it waits for another client after the last has gone."""
_END_S = 20.0
"""How long workers and disk may take to let the engine end after a signal, beside the workers' own timeouts."""
_VIEWER_S = 1.0
"""How long the workers wait at most for an announced viewer."""


class Engine:
    """Runs a session on `hardware`.

    `logs` is closed by the caller. If `viewer_comes`, a screen is being opened on the session, and its first frame is
    drawn before the workers start, or for `_VIEWER_S` at most: a dozen interpreters that start at once would take the
    cores from it, and the workers have hours.
    """

    def __init__(self, spec: RunSpec, hardware: Hardware, logs: LogWriter, *, viewer_comes: bool = False) -> None:
        self._spec = spec
        self._hardware = hardware
        self._logs = logs
        self._viewer_comes = viewer_comes
        self.enough = asyncio.Event()
        """Set by a signal: clients are not waited for."""
        self._reason = "the session has ended"
        """What clients are told when the engine leaves."""
        self._fleet: Fleet | None = None
        self._given_up = asyncio.Event()
        """Set long after a signal: what has not ended is not waited for, because the kernel does not end it."""

    async def start(self, say: Callable[[str], None] | None = None) -> str:
        """Begin to listen, and put all parts together; `say` is told how far that is, where it takes long.

        Returns:
            The path of the socket, which may be another than was asked for.

        Raises:
            OSError: It cannot listen.
            GmgError: It cannot listen, or the store of a sweep cannot be read.
        """
        adopt_orphans()
        self._loop = asyncio.get_running_loop()
        if self._spec.nodes is not None:
            from gmg_tui.engine.nodes.fleet import Fleet  # most sessions have one machine, and start the sooner

            self._fleet = Fleet(self._spec, self._spec.nodes)
            await self._fleet.gather(say or _log.info)
            self._hardware = self._fleet.hardware
        self._measured = False
        self._sampling = self._sampler()  # first: GPUs are slow to answer, and the first frame needs their metrics
        self._pump = Pump(lambda: self._server.tell_lines())
        self._egl = egl.EglProbe()
        self._children = Children()
        self._watchdog = WatchdogClient(self._children)
        self._notify = NotifyCommands(self._spec, self._children, self._notify_trouble)
        # Trials that run out of memory are how a tuning finds the largest value that runs.
        expected = {OccurrenceKind.JOB_FAILED} if self._spec.tune is not None else set[OccurrenceKind]()
        self._occurrences = Occurrences(self._notify.tell, leave_out=expected)
        self._listener = Listener(sockets.candidates(self._spec))
        self._spec = structs.replace(self._spec, socket=str(self._listener.path))
        try:
            self._supervisor, self._store = assemble(
                self._spec,
                self._hardware,
                self._pump,
                self._logs,
                self._children,
                self._watchdog,
                self._egl,
                self._changed,
                self._store_trouble,
                self._occurrences,
                self._fleet,
            )
        except BaseException:
            self._listener.close()
            if self._fleet is not None:
                await self._fleet.end(kill=True)
            raise
        self._server = Server(self._supervisor, self._listener)
        if self._fleet is not None:
            self._fleet.changed, self._fleet.printed = self._changed, self._server.tell_lines
            self._fleet.over = self._on_end_of_nodes
        self._listen_to_signals()
        # Whoever hears that the session has begun must find it: `gmg-tui --detach sim.py && gmg-tui attach`.
        self._supervisor.session_files.write(self._supervisor.snapshot())
        return self._spec.socket

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know of the choice of slots, a line each."""
        idle = self._supervisor.session.idle_text
        return (*self._hardware.warnings, *([idle] if idle else []))

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
            if self._fleet is not None:
                await self._fleet.end(kill=self._given_up.is_set())
            await self._store.close()
            await self._supervisor.session_files.end()
            await self._notify.finish()
            await self._close()
        if self._supervisor.agent is not None and self._supervisor.agent.collected:
            await in_daemon_thread(shutil.rmtree, self._spec.folder, ignore_errors=True)
        for failure in failures:
            if isinstance(failure, BaseException) and not isinstance(failure, asyncio.CancelledError):
                raise failure

    async def cancel(self, *, fresh: bool) -> None:
        """End instead of running anything.

        Args:
            fresh: Whether the session's folder was made for this engine, and is removed; another one counts as ended.
        """
        _log.info("the launcher is gone before the session has begun")
        self._egl.cancel()
        if self._fleet is not None:
            await self._fleet.end(kill=True)
        if fresh:
            await in_daemon_thread(shutil.rmtree, self._spec.folder, ignore_errors=True)
        else:
            await self._supervisor.session_files.end()
        await self._close()

    async def _close(self) -> None:
        nvml = self._hardware.nvml
        if nvml is not None and (self._sampling is None or await asyncio.to_thread(self._sampling.stop)):
            nvml.close()
        self._server.close(self._reason)
        self._pump.close()
        await self._watchdog.close()

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._work())
            tasks.create_task(self._server.run())

    async def _work(self) -> None:
        """Start the watchdog and then the workers, once an announced viewer has had its first frame."""
        if self._viewer_comes:
            await any_of(self._server.watched, timeout_s=_VIEWER_S)
        if self._hardware.gpus:
            self._egl.begin()
        at_last = self._fleet.at_last if self._fleet is not None else ()
        await self._watchdog.start(self._supervisor.session.id, at_last)
        self._store.start()
        await self._supervisor.run(self._pump.read, self._server.tell)

    async def _done(self) -> None:
        """Return when the workers have ended, and the clients have seen it."""
        supervisor, server = self._supervisor, self._server
        while True:
            await any_of(supervisor.all_ended, self._given_up)
            if self.enough.is_set() or self._spec.agent is not None:
                return
            grace_s = _LAST_VISIT_S if server.visited.is_set() else _FIRST_VISIT_S
            await any_of(self.enough, server.busy, timeout_s=grace_s)
            if not self.enough.is_set() and server.busy.is_set():
                await any_of(self.enough, server.idle)
            elif supervisor.all_ended.is_set():
                return

    def _store_trouble(self, text: str | None) -> None:
        """The store's thread has trouble with the disk, or (None) no longer has."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the engine has ended meanwhile
            self._loop.call_soon_threadsafe(self._supervisor.note, "store", text)

    def _notify_trouble(self, text: str | None) -> None:
        self._supervisor.note("notify", text)

    def _changed(self) -> None:
        ended = self._supervisor.all_ended.is_set()
        self._supervisor.changed()
        if self._supervisor.all_ended.is_set() and not ended:
            text = f"{self._spec.name} has ended: {how_it_ended(self._supervisor.snapshot())}"
            self._occurrences.add(OccurrenceKind.ENDED, text)
        self._server.soon()

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU):
            loop.add_signal_handler(number, self._on_signal, number)
        for number in (signal.SIGUSR1, signal.SIGUSR2):  # what Slurm's --signal sends before an allocation ends
            loop.add_signal_handler(number, self._supervisor.pass_on, number)
        # The engine has no terminal, and a stray hang-up must not end a day's work. The signal is caught rather than
        # ignored, because workers would inherit that.
        loop.add_signal_handler(signal.SIGHUP, _log.info, "SIGHUP received and ignored")

    def _on_signal(self, number: signal.Signals) -> None:
        """First signal: stop all workers gracefully. Second: kill them; but SIGXCPU may come every second."""
        _log.info("%s received: the session ends", number.name)
        kill = self.enough.is_set() and number is not signal.SIGXCPU
        self._end(f"the session was ended by {number.name}", kill=kill)

    def _on_end_of_nodes(self, why: str) -> None:
        """No node is left, nor comes back: there is nothing to wait for."""
        _log.warning("%s: the session ends", why)
        if not self.enough.is_set():
            self._end(f"the session has ended: {why}", kill=False)

    def _end(self, reason: str, *, kill: bool) -> None:
        self._reason = reason
        self._supervisor.end(kill=kill, reason=self._reason)
        if kill:
            self._notify.drop()
        self.enough.set()
        waits_s = 0.0 if kill else self._spec.sigint_wait_s + self._spec.sigterm_wait_s
        self._loop.call_later(waits_s + _END_S, self._given_up.set)

    def _sampler(self) -> Sampler | None:
        loop, nvml = asyncio.get_running_loop(), self._hardware.nvml
        if nvml is None:
            return None

        def deliver(samples: tuple[GpuSample, ...], error: str | None) -> None:
            # Through the loop, which runs nothing else before all parts are there.
            loop.call_soon_threadsafe(self._take_samples, samples, error)

        sampler = Sampler(self._hardware.gpus, self._spec.interval_s, deliver, nvml)
        sampler.start()
        return sampler

    def _take_samples(self, samples: tuple[GpuSample, ...], error: str | None) -> None:
        self._supervisor.take_samples(samples, error)
        if not self._measured:
            self._measured = True
            self._server.soon()


async def any_of(*events: asyncio.Event, timeout_s: float | None = None) -> None:
    """Wait until one of the events is set, or the time-out has passed."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
