"""The session without a screen: prefixed lines, state changes and a status line on standard output."""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.headless.output import Output
from gmg_tui.headless.reporter import Reporter
from gmg_tui.model import Snapshot
from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Bye, Lines, Update

_TERMINATING = (signal.SIGTERM, signal.SIGXCPU)
_JOBS_PER_REQUEST = 200
_INTERRUPTED = 130
"""Exit status."""
_LEAVE_TIMEOUT_S = 8
"""Timeout for the engine's end and the last output after SIGTERM."""
_LAST_LINES_S = 2.0
"""Timeout for writing the last lines after SIGTERM."""


def run(socket: Path, *, on_ready: Callable[[], object] = lambda: None) -> int:
    """Reports the session whose engine listens at `socket` until all its workers have ended; returns the exit status.

    Progress lines of workers are not printed; in a tuning, no lines are. Calls `on_ready` once it handles signals.

    The first ctrl+c (or SIGTERM) stops the workers, the next ctrl+c kills them. If the reader of standard output is
    gone (`| head`), the session is stopped and the exit status is 1. If standard output fails for another reason (a
    full disk), the session continues without this client. Raises `GmgError`, including when the engine died.
    """
    return asyncio.run(_report(socket, on_ready))


async def _report(socket: Path, on_ready: Callable[[], object]) -> int:
    client = await EngineClient.connect(socket)
    headless = _Headless(client)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, headless.interrupt)
    for number in _TERMINATING:
        loop.add_signal_handler(number, headless.terminate)
    try:
        on_ready()
        try:
            await headless.follow()
        finally:
            await client.close()
        await headless.conclude()
    finally:
        for number in (signal.SIGINT, *_TERMINATING):
            loop.remove_signal_handler(number)
    if headless.terminated:  # exit soon, whatever blocks: the sender of SIGTERM does not read the output
        signal.signal(signal.SIGALRM, lambda *_: os._exit(_INTERRUPTED))
        signal.alarm(_LEAVE_TIMEOUT_S)
    return headless.status


class _Headless:
    """Connects an engine's client with standard output, standard error and signals."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._session = client.welcome.session
        self._snapshot = client.welcome.snapshot
        self._reporter = Reporter(self._session)
        self._quiet = self._snapshot.tuning is not None
        """True in a tuning, whose workers' output is not printed."""
        self._out = Output(sys.stdout, self._output_failed)
        self._err = Output(sys.stderr)
        self._output_error: OSError | None = None
        self._interrupts = 0
        self._interrupted = asyncio.Event()
        self.terminated = False
        """True after SIGTERM or SIGXCPU."""
        self._complete = asyncio.Event()
        """Set once nothing more is expected from the engine."""
        self._reporting: asyncio.Task[None] | None = None
        """Requests and reports ended jobs."""
        self._requests: list[asyncio.Task[None]] = []

    @property
    def status(self) -> int:
        """The exit status; after an interrupt, failed workers do not count."""
        return 1 if self._output_error else _INTERRUPTED if self._interrupts else self._snapshot.exit_status

    @property
    def _stopped_by_reader(self) -> bool:
        """True if the reader of standard output is gone."""
        return self._output_error is not None and self._output_error.errno == errno.EPIPE

    async def follow(self) -> None:
        """Reports the engine's events until all workers have ended."""
        await self._client.watch(lines=not self._quiet)
        receiving = asyncio.create_task(self._receive())
        complete = asyncio.create_task(self._complete.wait())
        self._show(self._snapshot)
        try:
            await asyncio.wait((receiving, complete), return_when=asyncio.FIRST_COMPLETED)
        finally:
            complete.cancel()
            receiving.cancel()
            (error,) = await asyncio.gather(receiving, return_exceptions=True)
        if isinstance(error, Exception):
            raise error
        self._check_output()

    async def _receive(self) -> None:
        async for event in self._client.events():
            match event:
                case Lines():
                    lines = list(self._reporter.report_output(event)) if not self._out.full else []
                    self._out.write(*lines)  # the next line reports how many were skipped
                case Update():
                    self._show(event.snapshot)
                case Bye() if self._snapshot.ended:
                    return
                case Bye():
                    raise GmgError(sessions.engine_lost_text(self._session, event.reason), 1)

    def _show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._out.write(*self._reporter.report_changes(snapshot))
        if snapshot.tuning is not None:
            self._out.write(*self._reporter.report_trials(snapshot.tuning))
        else:
            if snapshot.queue is not None and (self._reporting is None or self._reporting.done()):
                self._reporting = asyncio.create_task(self._report_jobs())
                self._reporting.add_done_callback(lambda _: self._check_complete())
            if not self._out.full and (status := self._reporter.status_line(snapshot)) is not None:
                self._out.write(status)
        self._check_complete()

    async def _report_jobs(self) -> None:
        """Requests and reports the ended jobs in batches."""
        reporter = self._reporter
        while (queue := self._snapshot.queue) is not None and (before := reporter.jobs_reported) < queue.done:
            try:
                ended = await self._client.queue(before, _JOBS_PER_REQUEST)
            except GmgError:
                break  # `_receive` reports the loss of the connection
            self._out.write(*reporter.report_jobs(ended, queue.jobs))
            if reporter.jobs_reported == before:
                break  # the queue has shrunk; the next snapshot will show it

    def _check_complete(self) -> None:
        """Stops waiting for the engine once nothing more is expected from it: lines arrive before the last snapshot."""
        if self._snapshot.ended and (self._reporting is None or self._reporting.done()):
            self._complete.set()

    async def conclude(self) -> None:
        """Prints the session's results, and waits until they are written or another signal arrives."""
        from gmg_tui.results.report_text import render_end  # not before the end: it loads Rich

        missed = () if self._quiet else self._reporter.report_skipped(self._snapshot)
        self._out.write(
            *missed, *self._reporter.report_changes(self._snapshot), *render_end(self._session, self._snapshot)
        )
        self._interrupted.clear()
        leave = asyncio.create_task(self._interrupted.wait())
        written = asyncio.create_task(self._written())
        timeout_s = _LAST_LINES_S if self.terminated else None
        await asyncio.wait((leave, written), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        leave.cancel()
        written.cancel()
        self._check_output()

    async def _written(self) -> None:
        await self._out.written()
        await self._err.written()

    def interrupt(self) -> None:
        """Stops the workers; the second time, kills them."""
        self._interrupts += 1
        self._interrupted.set()
        kill = self._interrupts > 1
        self._requests.append(asyncio.create_task(self._end(kill=kill)))
        self._err.write("killing the workers" if kill else "stopping the workers (ctrl+c again kills them)")

    def terminate(self) -> None:
        """Stops the workers, once."""
        self.terminated = True
        self._interrupted.set()
        if not self._interrupts:
            self.interrupt()

    def _output_failed(self, error: OSError) -> None:
        self._output_error = error
        if self._stopped_by_reader:
            self._requests.append(asyncio.create_task(self._end(kill=False)))
        else:
            self._complete.set()

    def _check_output(self) -> None:
        if self._output_error is None or self._stopped_by_reader:
            return
        name = self._session.spec.name
        hint = f"the session keeps running: gmg-tui attach {name}"
        if self._snapshot.ended:
            hint = f"for the results: gmg-tui report {name}"
        raise GmgError(f"cannot write standard output: {self._output_error.strerror}; {hint}", 1)

    async def _end(self, *, kill: bool) -> None:
        with suppress(GmgError):  # `_receive` reports the engine's loss
            await self._client.end(kill=kill)
