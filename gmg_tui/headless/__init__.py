"""The session without a screen: prefixed lines, state changes and a status line on standard output."""

from __future__ import annotations

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
from gmg_tui.headless.reporter import Reporter, Trials
from gmg_tui.model import Snapshot
from gmg_tui.model.errors import GmgError
from gmg_tui.session.client import EngineClient
from gmg_tui.session.protocol import Bye, Lines, Update

_MAX_EARLIER_LINES = 1_000_000
"""Earlier lines to request: more than the engine keeps."""
_TERMINATING = (signal.SIGTERM, signal.SIGXCPU)
_JOBS_PER_REQUEST = 200
_INTERRUPTED = 130
"""The exit status."""
_LEAVE_S = 8
"""Seconds after SIGTERM, once the workers have ended, for the engine's end and the last output."""
_LAST_LINES_S = 2.0
"""Seconds to wait for the last lines after the snapshot with the end of all workers."""


def run(
    socket: Path,
    *,
    begun: Callable[[], object] = lambda: None,
) -> int:
    """Report the session whose engine listens at `socket` until all its workers have ended; the exit status.

    Lines of the workers with nothing but their progress are not printed, and in a tuning none at all. `begun` is called
    once the signals are handled here.

    The first ctrl+c (or SIGTERM) stops the workers, the next ctrl+c kills them. When the reader of standard output is
    gone (`| head`) the session is stopped and the exit status is 1. When standard output cannot be written for another
    reason (a full disk) the session continues without this client.

    Raises:
        GmgError: The engine does not answer or died, or standard output cannot be written.
    """
    return asyncio.run(_report(socket, begun))


async def _report(socket: Path, begun: Callable[[], object]) -> int:
    client = await EngineClient.connect(socket)
    headless = _Headless(client)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, headless.interrupt)
    for number in _TERMINATING:
        loop.add_signal_handler(number, headless.terminate)
    try:
        begun()
        try:
            await headless.follow()
        finally:
            await client.close()
        await headless.conclude()
    finally:
        for number in (signal.SIGINT, *_TERMINATING):
            loop.remove_signal_handler(number)
    if headless.terminated:  # in a moment, whatever is waited for then: whoever sent SIGTERM does not read the output
        signal.signal(signal.SIGALRM, lambda *_: os._exit(_INTERRUPTED))
        signal.alarm(_LEAVE_S)
    return headless.status


class _Headless:
    """The engine on one side; standard output, standard error and the signals on the other."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._session = client.welcome.session
        self._snapshot = client.welcome.snapshot
        self._reporter = Reporter(self._session)
        self._trials = Trials(self._reporter.line)
        self._quiet = self._snapshot.tuning is not None
        """True if the workers' output is not printed: the line of a trial has all that matters."""
        self._out = Output(sys.stdout, self._output_failed)
        self._err = Output(sys.stderr)
        self._output_error: OSError | None = None
        self._interrupts = 0
        self._interrupted = asyncio.Event()
        self.terminated = False
        """True once SIGTERM has come: only the workers are waited for."""
        self._complete = asyncio.Event()
        """Set once nothing more is expected from the engine."""
        self._last_lines: asyncio.TimerHandle | None = None
        self._reporting: asyncio.Task[None] | None = None
        """Requests the jobs that have ended."""
        self._requests: list[asyncio.Task[None]] = []

    @property
    def status(self) -> int:
        """The exit status; a worker that fails while it is stopped from here does not count as a failure."""
        return 1 if self._output_error else _INTERRUPTED if self._interrupts else self._snapshot.exit_status

    @property
    def _stopped_by_reader(self) -> bool:
        """True if the reader of standard output is gone."""
        return self._output_error is not None and self._output_error.errno == errno.EPIPE

    async def follow(self) -> None:
        """Report what the engine sends until all workers have ended and their last lines have arrived."""
        slots = () if self._quiet else self._session.slots
        await self._client.follow(*(slot.name for slot in slots), tail=_MAX_EARLIER_LINES)
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
                    lines = list(self._reporter.output(event)) if not self._out.full else []
                    self._out.write(*lines)  # those that are skipped are reported before those that follow
                    self._check_complete()
                case Update():
                    self._show(event.snapshot)
                case Bye() if self._snapshot.ended:
                    return
                case Bye():
                    raise GmgError(sessions.parting_text(self._session, event.reason), 1)

    def _show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._out.write(*self._reporter.events(snapshot))
        if snapshot.tuning is not None:
            self._out.write(*self._trials.events(snapshot.tuning))
        else:
            if snapshot.queue is not None and (self._reporting is None or self._reporting.done()):
                self._reporting = asyncio.create_task(self._report_jobs())
                self._reporting.add_done_callback(lambda _: self._check_complete())
            status = None if self._out.full else self._reporter.status(snapshot)
            self._out.write(*([status] if status is not None else []))
        self._check_complete()

    async def _report_jobs(self) -> None:
        """Report the jobs that have ended, which the engine sends in parts."""
        reporter = self._reporter
        while (queue := self._snapshot.queue) is not None and (before := reporter.jobs_reported) < queue.done:
            try:
                ended = await self._client.queue(before, _JOBS_PER_REQUEST)
            except GmgError:
                break  # the connection is lost, which is reported where its messages are read
            self._out.write(*reporter.job_ends(ended, queue.jobs))
            if reporter.jobs_reported == before:
                break  # the queue has become shorter, and the next snapshot has the change

    def _check_complete(self) -> None:
        """Stop waiting for the engine once nothing more is expected from it; the last lines must come soon."""
        if not self._snapshot.ended:
            return
        reporting = self._reporting is not None and not self._reporting.done()
        if not reporting and (self._quiet or self._reporter.has_all_lines(self._snapshot)):
            self._complete.set()
        elif self._last_lines is None:  # `missed` reports the lines that have not arrived
            self._last_lines = asyncio.get_running_loop().call_later(_LAST_LINES_S, self._complete.set)

    async def conclude(self) -> None:
        """Print the session's results, and wait until they are read; another signal leaves without waiting."""
        from gmg_tui.results.report_text import at_end  # not before the end: it loads Rich

        missed = () if self._quiet else self._reporter.missed(self._snapshot)
        self._out.write(*missed, *self._reporter.events(self._snapshot), *at_end(self._session, self._snapshot))
        self._interrupted.clear()
        leave = asyncio.create_task(self._interrupted.wait())
        written = asyncio.create_task(self._written())
        timeout_s = _LAST_LINES_S if self.terminated else None
        await asyncio.wait((leave, written), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        leave.cancel()
        written.cancel()
        self._check_output()

    async def _written(self) -> None:
        """Return when all output is written."""
        await self._out.written()
        await self._err.written()

    def interrupt(self) -> None:
        """Stop the workers; when that has been requested already, kill them."""
        self._interrupts += 1
        self._interrupted.set()
        kill = self._interrupts > 1
        self._requests.append(asyncio.create_task(self._end(kill=kill)))
        self._err.write("killing the workers" if kill else "stopping the workers (ctrl+c again kills them)")

    def terminate(self) -> None:
        """Stop the workers, however often it is called."""
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
        rest = f"the session keeps running: gmg-tui attach {name}"
        if self._snapshot.ended:
            rest = f"the logs: gmg-tui logs {name} SLOT"
        raise GmgError(f"cannot write standard output: {self._output_error.strerror}; {rest}", 1)

    async def _end(self, *, kill: bool) -> None:
        with suppress(GmgError):  # the engine's loss is reported where its messages are read
            await self._client.end(kill=kill)
