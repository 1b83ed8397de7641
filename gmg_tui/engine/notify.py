"""Notifications for the user, and the commands of `--notify`."""

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress

from gmg_tui.machine.blocking_calls import in_daemon_thread
from gmg_tui.machine.ownership import changed_owner
from gmg_tui.machine.processes import kill_group
from gmg_tui.model import TERMINAL_NOTIFICATIONS, Occurrence, OccurrenceKind, RunSpec, Snapshot, WorkerState, units
from gmg_tui.model.text import one_line

COMMAND_TIMEOUT_S = 30.0
FINISH_TIMEOUT_S = 2 * COMMAND_TIMEOUT_S
"""Time limit for all remaining commands at the end of a session."""
_END_TIMEOUT_S = 5.0
"""Time limit for the end of a killed command."""
_DISK_TIMEOUT_S = 5.0
"""Time limit for the disk with the commands' folder."""
_COMMAND = "GMG_NOTIFY"
_SCRIPT = f'cd -- "$1" 2> /dev/null || cd /; set -- "${_COMMAND}"; unset {_COMMAND}; eval "$1"'
"""Runs the command in an environment variable, as `ps` shows arguments to all users, in a folder if that exists."""
MAX_EVENTS = 1000
_MAX_OCCURRENCES = 16
"""Maximum occurrences in a snapshot; a client further behind misses some."""
_MAX_WAITING_OCCURRENCES = 32
"""Maximum occurrences waiting for their commands; further ones run no command, except the session's end."""


class Notifications:
    """The newest occurrences. Runs the commands of `--notify` for each, one at a time, with or without clients.

    `note` gets the commands' errors, or None once they work.

    Attributes:
        newest: The newest occurrences that are not quiet, oldest first.
        events: The newest occurrences of any kind, oldest first.
    """

    def __init__(self, spec: RunSpec, note: Callable[[str | None], None]) -> None:
        self.newest: tuple[Occurrence, ...] = ()
        self.events: deque[Occurrence] = deque(maxlen=MAX_EVENTS)
        self._spec, self._note = spec, note
        self._commands = [command for command in spec.notify if command not in TERMINAL_NOTIFICATIONS]
        self._waiting: deque[Occurrence] = deque()
        self._checking: asyncio.Task[str | None] | None = None
        self._task: asyncio.Task[None] | None = None

    def add(
        self,
        kind: OccurrenceKind,
        text: str,
        *,
        slot: str = "",
        job: int | None = None,
        job_name: str = "",
        reason: str | None = None,
        alert: str = "",
        quiet: bool = False,
    ) -> None:
        """Records an occurrence; unless it is `quiet`, also queues its commands."""
        if kind is OccurrenceKind.JOB_FAILED and self._spec.tune is not None:
            return  # a tuning run raises the value until trials fail
        number = self.events[-1].number + 1 if self.events else 1
        reason = one_line(reason or "")
        occurrence = Occurrence(number, time.time(), kind, one_line(text), slot, job, job_name, reason, alert, quiet)
        self.events.append(occurrence)
        if quiet:
            return
        self.newest = (*self.newest[1 - _MAX_OCCURRENCES :], occurrence)
        if self._commands and self._has_room(occurrence):
            self._waiting.append(occurrence)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run_all(), name="notify")

    def _has_room(self, occurrence: Occurrence) -> bool:
        """Returns True if an occurrence may wait; makes room by dropping an alert like it, or any for an end or failure."""
        waiting, slot, alert = self._waiting, occurrence.slot, occurrence.alert
        same = next((other for other in waiting if alert and (other.slot, other.alert) == (slot, alert)), None)
        if same is None and len(waiting) >= _MAX_WAITING_OCCURRENCES and not alert:
            same = next((other for other in waiting if other.alert), None)
        if same is not None:
            waiting.remove(same)
        return len(waiting) < _MAX_WAITING_OCCURRENCES or occurrence.kind is OccurrenceKind.ENDED

    def drop(self) -> None:
        """Drops all waiting commands, and kills the running one."""
        self._waiting.clear()
        self._commands = []
        if self._task is not None:
            self._task.cancel()

    async def finish(self) -> None:
        """Waits up to `FINISH_TIMEOUT_S` for running and waiting commands, then drops them."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=FINISH_TIMEOUT_S)
            self.drop()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run_all(self) -> None:
        while self._waiting:
            occurrence = self._waiting.popleft()
            # Without the command, which may hold the secret address of a webhook: viewers and bug reports get this text.
            errors = [
                f"command {number}: {error}"
                for number, command in enumerate(self._commands, 1)
                if (error := await self._run(command, occurrence))
            ]
            self._note(f"--notify {'; '.join(errors)}" if errors else None)

    async def _run(self, command: str, occurrence: Occurrence) -> str | None:
        """Runs a command, and kills its leftover processes. Returns a short error; None if it succeeded."""
        variables = {  # only in the environment: the shell must not parse it
            "GMG_EVENT": occurrence.kind.value,
            "GMG_SESSION": self._spec.name,
            "GMG_FOLDER": self._spec.folder,
            "GMG_SLOT": occurrence.slot,
            "GMG_JOB": "" if occurrence.job is None else str(occurrence.job),
            "GMG_JOB_NAME": occurrence.job_name,
            "GMG_REASON": occurrence.reason,
            "GMG_ALERT": occurrence.alert,
            "GMG_TEXT": occurrence.text,
        }
        devnull = asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", _SCRIPT, "sh", await self._choose_folder()),
                stdin=devnull,
                stdout=devnull,
                stderr=devnull,
                cwd="/",
                env={**os.environ, **variables, _COMMAND: command},
                start_new_session=True,
            )
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no thread can be started
            return f"cannot be run: {error}"
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_S):
                code = await process.wait()
        except TimeoutError:
            return f"timed out after {COMMAND_TIMEOUT_S:.0f} s"
        finally:
            kill_group(process.pid, reaped=process.returncode is not None)
            with suppress(TimeoutError):  # it may have become another user's, as with sudo
                async with asyncio.timeout(_END_TIMEOUT_S):
                    await process.wait()
        return None if code == 0 else f"exit code {code}"

    async def _choose_folder(self) -> str:
        """Returns the commands' folder; `/` if its disk does not answer, or another user could have made it since."""
        folder = self._spec.notify_cwd or self._spec.cwd
        if self._checking is None or self._checking.done():  # else the disk has not answered since
            check = in_daemon_thread(changed_owner, (folder,), self._spec.path_owners)
            self._checking = asyncio.create_task(check, name="notify's folder")
        answered, _ = await asyncio.wait([self._checking], timeout=_DISK_TIMEOUT_S)
        return folder if answered and self._checking.result() is None else "/"


def describe_result(snapshot: Snapshot) -> str:
    """Describes the result of a session in a few words."""
    if snapshot.tuning is not None:
        return snapshot.tuning.step
    states, jobs = Counter(worker.state for worker in snapshot.workers), ""
    if (queue := snapshot.queue) is not None:
        names = ("finished", "failed", "stopped", "waiting")
        states = Counter({WorkerState(state): getattr(queue, state) for state in names})
        jobs = f"{units.count(queue.jobs, 'job')}, "
    return jobs + ", ".join(f"{count} {state.value}" for state in WorkerState if (count := states[state]))
