"""The session without a screen: prefixed lines, state changes and a status line on standard output.

`run` is called by the commands; `table`, `jobs` and `reporter` also format results for them.
"""

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
from gmg_tui.client import EngineClient
from gmg_tui.errors import GmgError
from gmg_tui.headless.jobs import Jobs, Trials
from gmg_tui.headless.output import Output
from gmg_tui.headless.reporter import Reporter
from gmg_tui.headless.table import exit_status, final
from gmg_tui.model import Snapshot
from gmg_tui.protocol import Bye, Lines, Update

_TAIL = 1_000_000
"""How many earlier lines are requested: all that the engine has kept."""
_TERMINATING = (signal.SIGTERM, signal.SIGXCPU)
_INTERRUPTED = 130
"""The exit status."""
_LEAVE_S = 8
"""How long after SIGTERM, once the workers have ended, the engine's end and the last output may take, seconds."""
_LAST_LINES_S = 2.0
"""How long the last lines may take after the snapshot in which all workers have ended."""


def run(
    socket: Path,
    *,
    ascii_only: bool = False,
    verbose: bool = False,
    entered: Callable[[], object] = lambda: None,
    begun: Callable[[], object] = lambda: None,
) -> int:
    """Report the session whose engine listens at `socket` until all its workers have ended; the exit status.

    Lines of the workers with nothing but their progress are printed only if it is `verbose`; in a tuning none are
    otherwise. `entered` is called once asyncio runs, which complains of what interrupts its start, and `begun` once the
    signals are handled here.

    The first ctrl+c (or SIGTERM) stops the workers, the next ctrl+c kills them. When the reader of standard output is
    gone (`| head`) the session is stopped and the exit status is 1. When standard output cannot be written for another
    reason (a full disk) the session continues without this client.

    Raises:
        GmgError: The engine does not answer or died, or standard output cannot be written.
    """
    return asyncio.run(_report(socket, ascii_only, verbose, entered, begun))


async def _report(
    socket: Path, ascii_only: bool, verbose: bool, entered: Callable[[], object], begun: Callable[[], object]
) -> int:
    entered()
    client = await EngineClient.connect(socket)
    headless = _Headless(client, ascii_only, verbose)
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
        loop.remove_signal_handler(signal.SIGINT)
        for number in _TERMINATING:
            loop.remove_signal_handler(number)
    if headless.terminated:
        _leave_soon()
    return headless.status


def _leave_soon() -> None:
    """End this process in a moment, whatever it then waits for: whoever sent SIGTERM does not read its output."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(_INTERRUPTED))
    signal.alarm(_LEAVE_S)


class _Headless:
    """The engine on one side; standard output, standard error and the signals on the other."""

    def __init__(self, client: EngineClient, ascii_only: bool, verbose: bool) -> None:
        self._client = client
        self._session = client.welcome.session
        self._snapshot = client.welcome.snapshot
        self._reporter = Reporter(self._session, verbose=verbose)
        self._jobs = Jobs(self._session)
        self._trials = Trials(self._session)
        self._quiet = self._snapshot.tuning is not None and not verbose
        """Whether the workers' output is left out: the line of a trial has all that matters."""
        self._reporting: asyncio.Task[None] | None = None
        """Requests the jobs that have ended, while there are unreported ones."""
        self._received: dict[str, int] = {}
        self._gone = False
        self._out = Output(sys.stdout, ascii_only=ascii_only, on_error=self._output_failed)
        self._err = Output(sys.stderr, ascii_only=ascii_only)
        self._output_error: OSError | None = None
        self._patience = asyncio.timeout(None)
        self._interrupts = 0
        self.terminated = False
        """Whether SIGTERM has come: nobody is waited for but the workers."""
        self._interrupted = asyncio.Event()
        self._requests: set[asyncio.Task[None]] = set()

    @property
    def status(self) -> int:
        """The exit status."""
        return 1 if self._output_error else exit_status(self._snapshot, interrupted=self._interrupts > 0)

    @property
    def _stopped_by_reader(self) -> bool:
        """Whether the reader of standard output is gone."""
        return self._output_error is not None and self._output_error.errno == errno.EPIPE

    async def follow(self) -> None:
        """Report what the engine sends until all workers have ended and their last lines have arrived."""
        slots = () if self._quiet else self._session.slots
        await self._client.follow(*(slot.name for slot in slots), tail=_TAIL)
        self._show(self._snapshot)
        with suppress(TimeoutError):  # `missed` reports the lines that have not arrived
            async with self._patience:
                events = self._client.events()
                while not self._complete():
                    self._take(await anext(events))
        self._check_output()

    async def conclude(self) -> None:
        """Print the session's results, and wait until they are read; another signal leaves without waiting."""
        missed = () if self._quiet else self._reporter.missed(self._snapshot)
        self._out.write(*missed, *self._reporter.events(self._snapshot))
        self._out.write(*final(self._session, self._snapshot))
        self._interrupted.clear()
        leave = asyncio.ensure_future(self._interrupted.wait())
        written = asyncio.gather(self._out.written(), self._err.written())
        timeout_s = _LAST_LINES_S if self.terminated else None
        await asyncio.wait((leave, written), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        leave.cancel()
        written.cancel()
        self._check_output()

    def interrupt(self) -> None:
        """Stop the workers; when that has been requested already, kill them."""
        self._interrupts += 1
        self._interrupted.set()
        if self._interrupts == 1:
            self._end(kill=False)
            self._err.write("stopping the workers (ctrl+c again kills them)")
        else:
            self._end(kill=True)
            self._err.write("killing the workers")

    def terminate(self) -> None:
        """Stop the workers, however often it is called."""
        self.terminated = True
        self._interrupted.set()
        if not self._interrupts:
            self.interrupt()

    def _take(self, event: Update | Lines | Bye) -> None:
        match event:
            case Lines():
                self._received[event.slot] = event.first + len(event.lines)
                # The reporter reports skipped lines before those that follow.
                if not self._out.full:
                    self._out.write(*self._reporter.output(event))
            case Update():
                self._show(event.snapshot)
            case Bye() if self._snapshot.ended:
                self._gone = True
            case Bye():
                raise GmgError(sessions.parting_text(self._session, event.reason), 1)

    def _check_output(self) -> None:
        if self._output_error is None or self._stopped_by_reader:
            return
        name = self._session.spec.name
        rest = f"the session keeps running: gmg-tui attach {name}"
        if self._snapshot.ended:
            rest = f"the logs: gmg-tui logs {name} SLOT"
        raise GmgError(f"cannot write standard output: {self._output_error.strerror}; {rest}", 1)

    def _complete(self) -> bool:
        """Whether nothing more is expected from the engine; starts the timeout when only lines are missing."""
        if self._output_error is not None and not self._stopped_by_reader:
            return True
        if not self._snapshot.ended:
            return False
        telling = self._reporting is not None and not self._reporting.done()
        if self._gone or (not telling and self._has_all_lines):
            return True
        if self._patience.when() is None:
            self._patience.reschedule(asyncio.get_running_loop().time() + _LAST_LINES_S)
        return False

    @property
    def _has_all_lines(self) -> bool:
        return self._quiet or all(
            self._received.get(worker.slot, 0) >= worker.log_lines for worker in self._snapshot.workers
        )

    def _show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._out.write(*self._reporter.events(snapshot))
        if snapshot.tuning is not None:
            self._out.write(*self._trials.events(snapshot.tuning))
            return
        if snapshot.queue is not None and (self._reporting is None or self._reporting.done()):
            # Where an end is unreported, the next job of its slot would start before it.
            if not self._jobs.behind(snapshot.queue):
                self._out.write(*self._jobs.starts(snapshot))
            self._reporting = asyncio.ensure_future(self._report_jobs())
            self._reporting.add_done_callback(lambda _: self._check_complete())
        status = None if self._out.full else self._reporter.status(snapshot)
        if status is not None:
            self._out.write(status)

    async def _report_jobs(self) -> None:
        """Report the jobs that have ended, which the engine sends in parts, then those that start."""
        with suppress(GmgError):  # reported where its messages are read
            while (queue := self._snapshot.queue) is not None and (part := self._jobs.wanted(queue)) is not None:
                view = await self._client.queue(*part)
                self._out.write(*self._jobs.take(view.first, view.jobs))
                if self._jobs.wanted(queue) == part:
                    break  # the queue has become shorter; the next snapshot has the change
        self._out.write(*self._jobs.starts(self._snapshot))

    def _check_complete(self) -> None:
        """Stop waiting for the engine when nothing more is expected from it."""
        if self._complete():
            # Where nothing waits at this moment, `follow` checks before it waits.
            with suppress(RuntimeError):
                self._patience.reschedule(asyncio.get_running_loop().time())

    def _output_failed(self, error: OSError) -> None:
        self._output_error = error
        if self._stopped_by_reader:
            self._end(kill=False)
        else:
            self._check_complete()

    def _end(self, *, kill: bool) -> None:
        task = asyncio.ensure_future(self._ask_end(kill=kill))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _ask_end(self, *, kill: bool) -> None:
        # Without an engine there is nothing to end; its loss is reported where its messages are read.
        with suppress(GmgError):
            await self._client.end(kill=kill)
