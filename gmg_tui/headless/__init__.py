"""The session without a screen: prefixed lines, state changes and a status line on standard output."""

from __future__ import annotations

import asyncio
import errno
import signal
import sys
from contextlib import suppress
from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.client import EngineClient
from gmg_tui.errors import GmgError
from gmg_tui.headless.jobs import Jobs
from gmg_tui.headless.output import Output
from gmg_tui.headless.reporter import Reporter
from gmg_tui.headless.table import exit_status, final
from gmg_tui.model import Snapshot
from gmg_tui.protocol import Bye, Lines, Update

_TAIL = 1_000_000
"""How many of the lines that were printed before this client came are asked for: all that the engine has kept."""
_LAST_LINES_S = 2.0
"""How long the last lines may take after the snapshot that says that all workers have ended."""


def run(socket: Path, *, ascii_only: bool = False) -> int:
    """Report the session whose engine listens at `socket` until all its workers have ended.

    The first ctrl+c (or SIGTERM) stops the workers in order, the next ctrl+c kills them. When standard output is closed
    (`| head`) the session is stopped in order, for nobody is left to see it, and the exit status is 1. When it cannot
    be written for another reason (a full disk) the session goes on without this client.

    Returns:
        The exit status.

    Raises:
        GmgError: The engine does not answer or was lost on the way, or standard output cannot be written.
    """
    return asyncio.run(_report(socket, ascii_only))


async def _report(socket: Path, ascii_only: bool) -> int:
    client = await EngineClient.connect(socket)
    headless = _Headless(client, ascii_only)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, headless.interrupt)
    loop.add_signal_handler(signal.SIGTERM, headless.terminate)
    try:
        try:
            await headless.follow()
        finally:
            await client.close()
        await headless.conclude()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
    return headless.status


class _Headless:
    """The engine on one side; standard output, standard error and the signals on the other."""

    def __init__(self, client: EngineClient, ascii_only: bool) -> None:
        self._client = client
        self._session = client.welcome.session
        self._snapshot = client.welcome.snapshot
        self._reporter = Reporter(self._session)
        self._jobs = Jobs(self._session)
        self._telling: asyncio.Task[None] | None = None
        """Asks for the jobs that have ended, while there are some that were not told."""
        self._received: dict[str, int] = {}
        self._gone = False
        self._out = Output(sys.stdout, ascii_only=ascii_only, on_error=self._output_failed)
        self._err = Output(sys.stderr, ascii_only=ascii_only)
        self._output_error: OSError | None = None
        self._patience = asyncio.timeout(None)
        self._interrupts = 0
        self._interrupted = asyncio.Event()
        self._requests: set[asyncio.Task[None]] = set()

    @property
    def status(self) -> int:
        """The exit status."""
        return 1 if self._output_error else exit_status(self._snapshot, interrupted=self._interrupts > 0)

    @property
    def _stopped_by_reader(self) -> bool:
        """Whether the reader of standard output has gone."""
        return self._output_error is not None and self._output_error.errno == errno.EPIPE

    async def follow(self) -> None:
        """Report what the engine sends until all workers have ended and their last lines are here."""
        await self._client.follow(*(slot.name for slot in self._session.slots), tail=_TAIL)
        self._show(self._snapshot)
        with suppress(TimeoutError):  # what has not come of the last lines is said by `missed`
            async with self._patience:
                events = self._client.events()
                while not self._complete():
                    self._take(await anext(events))
        self._check_output()

    async def conclude(self) -> None:
        """Print what the session came to, and wait until it is read; a further ctrl+c leaves without that."""
        self._out.say(*self._reporter.missed(self._snapshot), *final(self._session, self._snapshot))
        self._interrupted.clear()
        leave = asyncio.ensure_future(self._interrupted.wait())
        written = asyncio.gather(self._out.written(), self._err.written())
        await asyncio.wait((leave, written), return_when=asyncio.FIRST_COMPLETED)
        leave.cancel()
        written.cancel()
        self._check_output()

    def interrupt(self) -> None:
        """Stop the workers in order; when that was asked for already, kill them."""
        self._interrupts += 1
        self._interrupted.set()
        if self._interrupts == 1:
            self._end(kill=False)
            self._err.say("stopping the workers (ctrl+c again kills them)")
        else:
            self._end(kill=True)
            self._err.say("killing the workers")

    def terminate(self) -> None:
        """Stop the workers in order, however often it is asked for."""
        if not self._interrupts:
            self.interrupt()

    def _take(self, event: Update | Lines | Bye) -> None:
        match event:
            case Lines():
                self._received[event.slot] = event.first + len(event.lines)
                # What is passed over here is a gap to the reporter, which says so with the lines that follow.
                if not self._out.full:
                    self._out.say(*self._reporter.output(event))
            case Update():
                self._show(event.snapshot)
            case Bye() if self._snapshot.ended:
                self._gone = True
            case Bye():
                raise GmgError(f"{event.reason}; see {self._session.spec.folder}/{sessions.ENGINE_LOG}", 1)

    def _check_output(self) -> None:
        if self._output_error is None or self._stopped_by_reader:
            return
        name = self._session.spec.name
        rest = (
            f"the logs: gmg-tui logs {name} SLOT"
            if self._snapshot.ended
            else f"the session goes on: gmg-tui attach {name}"
        )
        raise GmgError(f"cannot write standard output: {self._output_error.strerror}; {rest}", 1)

    def _complete(self) -> bool:
        """Whether nothing more is to be heard of the engine; begins to be impatient when only lines are missing."""
        if self._output_error is not None and not self._stopped_by_reader:
            return True
        if not self._snapshot.ended:
            return False
        telling = self._telling is not None and not self._telling.done()
        if self._gone or (not telling and self._has_all_lines):
            return True
        if self._patience.when() is None:
            self._patience.reschedule(asyncio.get_running_loop().time() + _LAST_LINES_S)
        return False

    @property
    def _has_all_lines(self) -> bool:
        return all(self._received.get(worker.slot, 0) >= worker.log_lines for worker in self._snapshot.workers)

    def _show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._out.say(*self._reporter.events(snapshot))
        if snapshot.queue is not None and (self._telling is None or self._telling.done()):
            if not self._jobs.behind(
                snapshot.queue
            ):  # else the next job of a slot would start before its last one ends
                self._out.say(*self._jobs.starts(snapshot))
            self._telling = asyncio.ensure_future(self._tell_jobs())
            self._telling.add_done_callback(lambda _: self._look_again())
        status = None if self._out.full else self._reporter.status(snapshot)
        if status is not None:
            self._out.say(status)

    async def _tell_jobs(self) -> None:
        """Tell of the jobs that have ended by now, which the engine gives a part at a time, then of those that start."""
        with suppress(GmgError):  # that it is gone is said where its messages are read
            while (queue := self._snapshot.queue) is not None and (part := self._jobs.wanted(queue)) is not None:
                view = await self._client.queue(part.first, part.number)
                self._out.say(*self._jobs.take(view.first, view.jobs))
                if self._jobs.wanted(queue) == part:
                    break  # the queue is shorter than it was; the next snapshot knows
        self._out.say(*self._jobs.starts(self._snapshot))

    def _look_again(self) -> None:
        """Stop waiting for the engine when nothing more is to be heard of it."""
        if self._complete():
            # Where nobody waits for the engine at this moment, `follow` sees it before anybody does.
            with suppress(RuntimeError):
                self._patience.reschedule(asyncio.get_running_loop().time())

    def _output_failed(self, error: OSError) -> None:
        self._output_error = error
        if self._stopped_by_reader:
            self._end(kill=False)
        else:
            self._look_again()

    def _end(self, *, kill: bool) -> None:
        task = asyncio.ensure_future(self._ask_end(kill=kill))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _ask_end(self, *, kill: bool) -> None:
        # Without an engine there is nothing left to end; that it is gone is said where its messages are read.
        with suppress(GmgError):
            await self._client.end(kill=kill)
