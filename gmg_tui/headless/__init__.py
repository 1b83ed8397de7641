"""Reports a session on standard output: the workers' lines with a prefix, state changes and a status line."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.headless.output import Output
from gmg_tui.headless.reporter import Reporter
from gmg_tui.model import Session, Snapshot
from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Bye, Lines, Update

_TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGXCPU)
_MAX_JOBS_PER_REQUEST = 200
_INTERRUPTED_STATUS = 130
_EXIT_TIMEOUT_S = 8
"""Maximum time from the last output to the exit, after SIGTERM or SIGXCPU."""
_LAST_LINES_TIMEOUT_S = 2.0
"""Maximum time to write the last lines after SIGTERM or SIGXCPU."""


def run(socket: Path, *, on_ready: Callable[[], object] = lambda: None) -> int:
    """Reports the session whose engine listens at `socket` until all its workers have ended; returns the exit status.

    Omits workers' progress lines, and in a tuning run all of their lines. Calls `on_ready` once signals are handled.

    The first ctrl+c (or SIGTERM) stops the workers, the next ctrl+c kills them. If standard output fails (a lost SSH
    connection, a full disk), raises `GmgError` while the session continues. Also raises `GmgError` if the engine died.
    """
    return asyncio.run(_report(socket, on_ready))


async def _report(socket: Path, on_ready: Callable[[], object]) -> int:
    client = await EngineClient.connect(socket)
    headless = _Headless(client)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, headless.interrupt)
    for number in _TERMINATION_SIGNALS:
        loop.add_signal_handler(number, headless.terminate)
    try:
        on_ready()
        try:
            await headless.follow()
        finally:
            await client.close()
        await headless.conclude()
    finally:
        for number in (signal.SIGINT, *_TERMINATION_SIGNALS):
            loop.remove_signal_handler(number)
    if headless.terminated:  # exit soon, even if a write blocks: the sender of SIGTERM may not read the output
        signal.signal(signal.SIGALRM, lambda *_: os._exit(_INTERRUPTED_STATUS))
        signal.alarm(_EXIT_TIMEOUT_S)
    return headless.status


class _Headless:
    """Connects an engine's client to standard output, standard error and signals."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._session = client.welcome.session
        self._snapshot = client.welcome.snapshot
        self._reporter = Reporter(self._session)
        self._quiet = self._snapshot.tuning is not None
        """True if the workers' output is not printed, as in a tuning run."""
        self._out = Output(sys.stdout, self._output_failed)
        self._err = Output(sys.stderr)
        self._output_error: OSError | None = None
        self._interrupts = 0
        self._interrupted = asyncio.Event()
        self.terminated = False
        """True after SIGTERM or SIGXCPU."""
        self._complete = asyncio.Event()
        """Set once nothing more is expected from the engine."""
        self._job_reports: asyncio.Task[None] | None = None
        """The task that requests and reports ended jobs."""
        self._requests: list[asyncio.Task[None]] = []
        self._render_end: Callable[[Session, Snapshot], list[str]]

    @property
    def status(self) -> int:
        """The exit status; after an interrupt, failed workers do not count."""
        return _INTERRUPTED_STATUS if self._interrupts else self._snapshot.exit_status

    async def follow(self) -> None:
        """Reports the engine's events until all workers have ended. Raises `GmgError`."""
        await self._client.watch(lines=not self._quiet)
        receiving = asyncio.create_task(self._receive())
        self._show(self._snapshot)
        from gmg_tui.results.report_text import render_end  # it loads Rich; an upgrade may have replaced it at the end

        self._render_end = render_end
        try:
            while not receiving.done() and not self._complete.is_set():
                complete = asyncio.create_task(self._complete.wait())
                await asyncio.wait((receiving, complete), return_when=asyncio.FIRST_COMPLETED)
                complete.cancel()
        finally:
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
                    self._out.write(*lines)  # if skipped, the worker's next line is preceded by their number
                case Update():
                    self._show(event.snapshot)
                case Bye() if self._snapshot.ended:
                    return
                case Bye():
                    raise GmgError(sessions.engine_lost_text(self._session, event.reason), 1)

    def _show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if not self._out.full:  # else a later snapshot's changes since the last report follow
            self._out.write(*self._reporter.report_changes(snapshot))
            if snapshot.tuning is not None:
                self._out.write(*self._reporter.report_trials(snapshot.tuning))
        if snapshot.tuning is None:
            if snapshot.queue is not None and (self._job_reports is None or self._job_reports.done()):
                self._job_reports = asyncio.create_task(self._report_jobs())
                self._job_reports.add_done_callback(lambda _: self._check_complete())
            if not self._out.full and (status := self._reporter.status_line(snapshot)) is not None:
                self._out.write(status)
        self._check_complete()

    async def _report_jobs(self) -> None:
        """Requests and reports the ended jobs in batches."""
        reporter = self._reporter
        while (queue := self._snapshot.queue) is not None and (first := reporter.jobs_reported) < queue.done:
            try:
                ended = await self._client.queue(first, _MAX_JOBS_PER_REQUEST)
            except GmgError:
                break  # `_receive` reports the loss of the connection
            self._out.write(*reporter.report_jobs(ended, queue.jobs))
            if reporter.jobs_reported == first:
                break  # fewer jobs have ended than this snapshot says: wait for the next one

    def _check_complete(self) -> None:
        """Sets `_complete` after the last snapshot, which follows all lines, once all jobs are reported.

        Another client may continue the session in that moment.
        """
        if not self._snapshot.ended and self._output_error is None:
            self._complete.clear()
        elif self._job_reports is None or self._job_reports.done():
            self._complete.set()

    async def conclude(self) -> None:
        """Prints the session's results, and waits until they are written or another signal arrives."""
        skipped = () if self._quiet else self._reporter.report_skipped(self._snapshot)
        changes = self._reporter.report_changes(self._snapshot)
        self._out.write(*skipped, *changes, *self._render_end(self._session, self._snapshot))
        self._interrupted.clear()
        interrupted = asyncio.create_task(self._interrupted.wait())
        drained = asyncio.create_task(self._drain())
        timeout_s = _LAST_LINES_TIMEOUT_S if self.terminated else None
        await asyncio.wait((interrupted, drained), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        drained.cancel()
        self._check_output()

    async def _drain(self) -> None:
        await self._out.drain()
        await self._err.drain()

    def interrupt(self) -> None:
        """Stops the workers; kills them, or gives up unwritten results, if called again."""
        self._interrupts += 1
        self._interrupted.set()
        kill = self._interrupts > 1
        self._requests.append(asyncio.create_task(self._end(kill=kill)))
        if self._snapshot.is_saving:
            self._err.write("giving up unwritten results" if kill else "ctrl+c again gives up unwritten results")
        else:
            self._err.write("killing the workers" if kill else "stopping the workers (ctrl+c again kills them)")

    def terminate(self) -> None:
        """Stops the workers unless an interrupt has done so."""
        self.terminated = True
        self._interrupted.set()
        if not self._interrupts:
            self.interrupt()

    def _output_failed(self, error: OSError) -> None:
        self._output_error = error
        # While the session is ending, this process may be all that keeps its container alive.
        if not self._interrupts:
            self._complete.set()

    def _check_output(self) -> None:
        """Raises `GmgError` if standard output failed, unless ctrl+c has ended its reader as well."""
        if self._output_error is None or self._interrupts:
            return
        name = self._session.spec.name
        hint = f"the session keeps running: gmg-tui attach {name}"
        if self._snapshot.ended:
            hint = f"for the results: gmg-tui report {name}"
        raise GmgError(f"cannot write standard output: {self._output_error.strerror}; {hint}", 1)

    async def _end(self, *, kill: bool) -> None:
        with suppress(GmgError):  # `_receive` reports the loss of the engine
            await self._client.end(kill=kill)
