"""The engine's life cycle: it starts its parts, runs the workers, and exits once no client is left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

import gmg_tui
from gmg_tui import session as sessions
from gmg_tui.engine.api.server import Listener, Server
from gmg_tui.engine.attempts.local_host import LocalHost
from gmg_tui.engine.attempts.process import adopt_orphans
from gmg_tui.engine.clock import any_of
from gmg_tui.engine.faults import Faults
from gmg_tui.engine.hardware import Hardware
from gmg_tui.engine.notify import Notifications, describe_result
from gmg_tui.engine.observer import Observer
from gmg_tui.engine.output.logs import LogWriter
from gmg_tui.engine.output.pipes import Pipes
from gmg_tui.engine.records.recorder import Recorder
from gmg_tui.engine.scheduling.packing import Packing
from gmg_tui.engine.scheduling.queue_scheduler import QueueScheduler
from gmg_tui.engine.scheduling.scheduler import PlainScheduler
from gmg_tui.engine.scheduling.slot_board import SlotBoard
from gmg_tui.engine.scheduling.trial_source import TrialSource, restore_search
from gmg_tui.engine.supervisor import Supervisor
from gmg_tui.engine.workers.slot import EngineSlot
from gmg_tui.jobs.job_queue import restore_queue
from gmg_tui.machine.blocking_calls import begin, in_daemon_thread
from gmg_tui.machine.folders import OpenFolder, remove_own
from gmg_tui.machine.gpu import egl
from gmg_tui.machine.gpu.sampler import Sampler
from gmg_tui.model import GpuSample, OccurrenceKind, RunSpec, Session
from gmg_tui.model.tried import TriedArguments
from gmg_tui.results.json_csv_export import export
from gmg_tui.scripts import torchrun
from gmg_tui.scripts.interpreter import commit_of, versions
from gmg_tui.session import socket_candidates
from gmg_tui.session.store.writer import StoreWriter

if TYPE_CHECKING:
    from gmg_tui.engine.attempts.attempt import Workplace
    from gmg_tui.engine.nodes.agent import Agent
    from gmg_tui.engine.nodes.fleet import Fleet
    from gmg_tui.engine.supervisor import Scheduler

_log = logging.getLogger(__name__)

_END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU)
_ID_BYTES = 8
_FIRST_CLIENT_WAIT_S = 10.0
"""Seconds to wait for a first client after the workers have ended."""
_NEXT_CLIENT_WAIT_S = 0.5
"""Seconds to wait for another client after the last one has gone."""
_MAX_VIEWER_WAIT_S = 1.0
"""Maximum time that workers wait for an expected viewer."""
_NVML_CLOSE_TIMEOUT_S = 4.0
_COMMIT_TIMEOUT_S = 5.0
_MAX_UNREAD = 16
"""Maximum number of unread sets of samples; older ones are dropped."""


class Engine:
    """Runs a session on `hardware`.

    The caller closes `logs`. With `expect_viewer` the workers wait up to `_MAX_VIEWER_WAIT_S` for a screen's first
    frame: a dozen interpreters starting at once would take all cores.
    """

    def __init__(self, spec: RunSpec, hardware: Hardware, logs: LogWriter, *, expect_viewer: bool = False) -> None:
        self._spec, self._hardware, self._logs, self._expect_viewer = spec, hardware, logs, expect_viewer
        self.shutdown_requested = asyncio.Event()
        """Set once the session must end without waiting for clients, such as by a signal."""
        self._reason = "the session has ended"
        """The reason for the session's end, for clients."""
        self._fleet: Fleet | None = None

    async def start(self, report: Callable[[str], None] = _log.info) -> str:
        """Assembles all parts, and listens. Returns the socket's path, which may differ from the requested one.

        `report` gets the progress. Raises `OSError` or `GmgError`, and `CancelledError` after a signal to end.
        """
        adopt_orphans()
        script = Path(self._spec.cwd, self._spec.script)
        commit = begin(commit_of, self._spec.cwd if self._spec.module else str(script.parent))
        self._loop, starting = asyncio.get_running_loop(), asyncio.current_task()
        assert starting is not None
        for number in _END_SIGNALS:  # until all parts exist
            self._loop.add_signal_handler(number, starting.cancel)
        async with contextlib.AsyncExitStack() as undo:  # a failure leaves no agents and no socket behind
            if self._spec.nodes is not None:
                from gmg_tui.engine.nodes.fleet import Fleet  # only for several machines

                self._fleet = Fleet(self._spec, self._spec.nodes)
                undo.push_async_callback(self._fleet.end, kill=True)
                await self._fleet.start(report)
                self._hardware = self._fleet.hardware
            self._has_samples = False
            self._unread_samples: deque[tuple[float, tuple[GpuSample, ...], str | None]] = deque(maxlen=_MAX_UNREAD)
            """Unread sets of samples with their times, monotonic seconds."""
            script_commit = None
            with contextlib.suppress(OSError, TimeoutError):  # the session needs no commit
                script_commit = await asyncio.wait_for(asyncio.wrap_future(commit), _COMMIT_TIMEOUT_S)
            # No await until all parts exist, or samples would be lost.
            self._sampler = self._start_sampler()  # early: the first frame shows even a slow GPU's metrics
            self._pipes = Pipes(self._logs.is_full)
            self._egl = egl.EglProbe()
            self._notifications = Notifications(self._spec, lambda text: self._supervisor.note("notify", text))
            self._listener = Listener(socket_candidates(self._spec))
            undo.callback(self._listener.close)
            self._spec = structs.replace(self._spec, socket=str(self._listener.path))
            self._assemble(script_commit)
            undo.pop_all()
        self._server = Server(self._supervisor, self._observer, self._listener)
        self._pipes.on_read = self._server.send_lines
        self._supervisor.on_saved = self._server.request_snapshot
        if self._fleet is not None:
            self._fleet.changed, self._fleet.on_output = self._changed, self._server.send_lines
            self._fleet.on_all_gone = self._on_all_nodes_gone
        self._listen_to_signals()
        # The session must be listed before its start is reported: `gmg-tui --detach sim.py && gmg-tui attach`.
        files = self._observer.session_files
        self._supervisor.faults.guard("the session's files", lambda: files.write(self._observer.snapshot()))
        return self._spec.socket

    def _assemble(self, commit: str | None) -> None:
        """Assembles the session. Raises `StoreError` if the store of a sweep cannot be read."""
        spec, hardware, fleet = self._spec, self._hardware, self._fleet
        earlier = sessions.read_record(Path(spec.folder))
        session = Session(
            spec,
            hardware.slots,
            os.getpid(),
            time.time(),
            gmg_tui.__version__,
            id=fleet.session_id if fleet is not None else os.urandom(_ID_BYTES).hex(),
            idle=hardware.idle,
            versions=versions(spec.python),
            commit=commit,
            before=earlier[0].session.began if earlier is not None else None,
        )
        count = len(hardware.slots)
        slots = {slot.name: EngineSlot(slot, index, count) for index, slot in enumerate(hardware.slots)}
        host = LocalHost(session, count, self._pipes, self._logs, hardware.nvml, self._egl)
        self._watchdog = host.watchdog
        workplace: Workplace = host
        if fleet is not None:
            fleet.begin(session, slots)
            workplace = fleet
        folder = Path(spec.folder)
        files = partial(export, session) if spec.agent is None else None
        self._store = StoreWriter(
            folder / sessions.STORE, lambda text: self._supervisor.report_store(text), export=files
        )
        tried, faults = TriedArguments(), Faults()
        self._loop.set_exception_handler(faults.handle)
        recorder = Recorder(self._store, self._changed, tried, self._notifications, faults)
        agent: Agent | None = None
        scheduler: Scheduler
        if spec.agent is not None:
            from gmg_tui.engine.nodes.agent import Agent  # only for agents

            scheduler = agent = Agent(slots, workplace, recorder, self._changed)
            agent.on_orphaned = lambda reason: self._end(reason, kill=False)
        elif spec.sweep is None:
            scheduler = PlainScheduler(slots, workplace, recorder)
        else:
            board = SlotBoard(slots, restore_queue(folder / sessions.STORE, spec.sweep, count, self._store, tried))
            if hardware.awaited is not None:
                board.set_awaited(hardware.awaited.acquire())
            scheduler = QueueScheduler(board, workplace, recorder, self._changed)
            if spec.tune is not None:
                scheduler.source = TrialSource(restore_search(spec, spec.tune, hardware), spec, scheduler, recorder)
            for job, left_slots in board.queue.left.items():
                left_s = fleet.left_s(left_slots, board.queue.left_at) if fleet is not None else 0.0
                if left_s > 0:
                    board.hold_back(job, left_s, "it may still be running on a node that has not answered")
                    self._loop.call_later(left_s, scheduler.wake)
            if spec.sweep.per_gpu > 1:
                scheduler.packing = Packing(spec.sweep.per_gpu, lambda text: self._supervisor.note("packing", text))
        self._supervisor = Supervisor(session, slots, scheduler, self._store, faults)
        self._supervisor.fleet, self._supervisor.agent = fleet, agent
        self._supervisor.on_kill = self._notifications.drop
        self._observer = Observer(self._supervisor, recorder, host.scans, host.script_times.save)
        if host.warning is not None:
            self._supervisor.note("patterns", host.warning)
        if fleet is None and hardware.warnings:
            self._supervisor.note("gpus", "; ".join(hardware.warnings))
        if torchrun.is_torchrun(spec.script, module=spec.module) and spec.sweep is None:
            self._supervisor.note("torchrun", torchrun.advice(spec.script))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the choice of slots."""
        idle = self._supervisor.session.idle_text
        return (*self._hardware.warnings, *([idle] if idle else []))

    async def run(self) -> None:
        """Runs the workers until they have ended and no client is left."""
        session_task = asyncio.create_task(self._run_session())
        end_task = asyncio.create_task(self._wait_until_done())
        try:
            await asyncio.wait([session_task, end_task], return_when=asyncio.FIRST_COMPLETED)
            if self._fleet is not None and not session_task.done():  # clients still see the delay
                await self._fleet.end(kill=not self._supervisor.all_ended.is_set())
        finally:
            for task in (session_task, end_task, self._egl):
                task.cancel()
            failures = await asyncio.gather(session_task, end_task, return_exceptions=True)
            await self._conclude()
        if self._supervisor.agent is not None and await self._supervisor.agent.logs.all_sent():
            await in_daemon_thread(remove_own, Path(self._spec.folder))
        for failure in failures:
            if isinstance(failure, BaseException) and not isinstance(failure, asyncio.CancelledError):
                raise failure

    async def _conclude(self) -> None:
        steps: list[Callable[[], Awaitable[object]]] = [
            self._store.close,
            self._observer.session_files.end,
            self._notifications.finish,
            self._close_nvml,
            self._close_server,
            self._watchdog.close,
        ]
        if (fleet := self._fleet) is not None:
            steps.insert(0, lambda: fleet.end(kill=not self._supervisor.all_ended.is_set()))
        for step in steps:
            try:
                await step()
            except Exception:
                _log.exception("a part of the engine failed to end cleanly")
        self._pipes.close_all()
        for number in _END_SIGNALS:  # a late one would kill the engine once the loop is closed
            self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    async def cancel(self, new_folder: OpenFolder | None) -> None:
        """Ends without running anything. Removes the folder of a new session; records any other as ended."""
        _log.info("the session is cancelled: the launcher is gone, or a signal came first")
        self._egl.cancel()
        await self._conclude()
        if new_folder is not None:
            await in_daemon_thread(new_folder.remove)

    async def _close_nvml(self) -> None:
        """Shuts NVML down, unless the driver hangs."""
        nvml = self._hardware.nvml
        if nvml is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NVML_CLOSE_TIMEOUT_S):
                if self._sampler is None or await in_daemon_thread(self._sampler.stop):
                    await in_daemon_thread(nvml.close)

    async def _close_server(self) -> None:
        self._server.close(self._reason)

    async def _run_session(self) -> None:
        """Waits for an expected viewer's first frame, then runs the watchdog and the workers until cancelled."""
        async with _alongside(self._supervisor.faults.keep_running("clients", self._server.run)):
            if self._expect_viewer:
                await any_of(self._server.watched, timeout_s=_MAX_VIEWER_WAIT_S)
            if self._hardware.gpus:
                self._egl.begin()
            max_hang_s = self._spec.agent.max_hang_s if self._spec.agent is not None else None
            await self._watchdog.start(self._supervisor.session.id, max_hang_s)
            self._store.start()
            async with _alongside(self._observer.run(self._read, self._server.send)), _alongside(self._add_gpus()):
                await self._supervisor.run()

    async def _add_gpus(self) -> None:
        """Acquires the GPUs that were in use at the start of a sweep, as they become free."""
        jobs, gpus, faults = self._supervisor.queue, self._hardware.awaited, self._supervisor.faults
        if jobs is not None and gpus is not None:
            await faults.keep_running("free GPUs", lambda: jobs.collect(gpus, self._spec.wait_s or 0.0))

    async def _wait_until_done(self) -> None:
        """Waits until the work is saved or overdue and, unless shutdown is requested, no client is left."""
        supervisor, server = self._supervisor, self._server
        while True:
            await any_of(supervisor.saved, supervisor.overdue)
            if supervisor.all_ended.is_set():
                await supervisor.saved.wait()
            if self.shutdown_requested.is_set() or supervisor.overdue.is_set():
                break
            if not supervisor.saved.is_set():
                continue  # a worker was restarted at the last moment
            grace_s = _NEXT_CLIENT_WAIT_S if server.visited.is_set() else _FIRST_CLIENT_WAIT_S
            await any_of(self.shutdown_requested, server.busy, timeout_s=grace_s)
            if not self.shutdown_requested.is_set() and server.busy.is_set():
                await any_of(self.shutdown_requested, server.idle)
            elif supervisor.saved.is_set():
                break
        supervisor.concluded = True  # at once: later commands would be accepted and lost

    def _changed(self) -> None:
        supervisor, ended = self._supervisor, self._supervisor.all_ended.is_set()
        supervisor.changed()
        if supervisor.all_ended.is_set() and not ended:
            supervisor.faults.guard("notifications", self._notify_of_end)
        if self._hardware.nvml is not None:
            supervisor.faults.guard("leases", supervisor.update_leases, self._hardware.update_leases)
        self._server.request_snapshot()
        self._observer.session_files.changed()

    def _notify_of_end(self) -> None:
        text = f"{self._spec.name} has ended: {describe_result(self._observer.snapshot())}"
        self._notifications.add(OccurrenceKind.ENDED, text)

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _END_SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        for number in (signal.SIGUSR1, signal.SIGUSR2):  # sent by Slurm's --signal before an allocation ends
            loop.add_signal_handler(number, self._supervisor.forward_signal, number)
        # The engine has no terminal, and a stray hang-up must not end a day's work. The signal is caught rather than
        # ignored: workers would inherit SIG_IGN.
        loop.add_signal_handler(signal.SIGHUP, _log.info, "SIGHUP received and ignored")

    def _on_signal(self, number: signal.Signals) -> None:
        """Stops all workers; a second signal kills them, unless it is SIGXCPU, which may repeat every second."""
        _log.info("%s received: the session ends", number.name)
        kill = self.shutdown_requested.is_set() and number is not signal.SIGXCPU
        self._end(f"the session was ended by {number.name}", kill=kill)

    def _on_all_nodes_gone(self, reason: str) -> None:
        """Ends the session, as no node will return."""
        _log.warning("%s: the session ends", reason)
        if not self.shutdown_requested.is_set():
            self._end(f"the session has ended: {reason}", kill=False)

    def _end(self, reason: str, *, kill: bool) -> None:
        self._reason = reason
        self._supervisor.end(kill=kill, reason=self._reason)
        self.shutdown_requested.set()

    def _start_sampler(self) -> Sampler | None:
        loop, nvml = asyncio.get_running_loop(), self._hardware.nvml
        if nvml is None:
            return None

        def deliver(samples: tuple[GpuSample, ...], error: str | None) -> None:
            self._unread_samples.append((time.monotonic(), samples, error))
            if not self._has_samples:  # later ones are read once a second: waking up is expensive
                loop.call_soon_threadsafe(self._read_samples)

        sampler = Sampler(self._hardware.gpus, self._spec.interval_s, deliver, nvml)
        sampler.start()
        return sampler

    def _read(self) -> None:
        self._pipes.read()  # first: energy is measured up to the newest count of steps
        self._read_samples()

    def _read_samples(self) -> None:
        while self._unread_samples:
            self._observer.update_samples(*self._unread_samples.popleft())
            if not self._has_samples:
                self._has_samples = True
                self._server.request_snapshot()


@contextlib.asynccontextmanager
async def _alongside(run: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `run` concurrently with the body, then cancels it."""
    running = asyncio.create_task(run)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
