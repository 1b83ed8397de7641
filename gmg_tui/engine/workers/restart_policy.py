"""Decides whether and when a worker's next attempt starts."""

import asyncio
import random
import time

from gmg_tui.model import RestartMode, RunSpec
from gmg_tui.scripts.genesis.output.failures import Failure, FailureKind

_MIN_BACKOFF_S = 2.0
_MAX_BACKOFF_S = 60.0
_MAX_LOSSES = 60
"""Maximum number of consecutive attempts that are lost with their nodes or cannot start: about an hour."""
_JITTER_SHARE = 0.25
"""Random share of the back-off: workers that raced each other should not restart at the same moment."""
HEALTHY_S = 300.0
"""Seconds in its running phase after which an attempt is healthy, and earlier restarts no longer count."""


class RestartPolicy:
    """Counts a worker's restarts against `--max-restarts`. The first attempt is due at once.

    Attributes:
        due_at: Time of the next automatic attempt, monotonic seconds; None if there is none.
    """

    def __init__(self, spec: RunSpec) -> None:
        self.due_at: float | None = None
        self._spec = spec
        self._due = asyncio.Event()
        self._due.set()
        self._timer: asyncio.TimerHandle | None = None
        self._restarts = 0
        """Automatic restarts since the last healthy attempt."""
        self._losses = 0
        """Attempts that were lost with their nodes, or could not start, since the last healthy attempt."""
        self._has_worked = False
        """True if an attempt has had progress since the user's last request."""
        self._is_stopped = False
        """True from a stop until the user's next request: no attempt follows."""

    @property
    def pending(self) -> bool:
        """True if another attempt follows, at once or later."""
        return self._due.is_set() or self.due_at is not None

    async def wait_until_due(self) -> None:
        """Waits until an attempt is due, and clears the request for it."""
        while not self._due.is_set():  # may be cleared again before this task runs
            await self._due.wait()
        self._due.clear()
        self.cancel_backoff()

    def request(self) -> None:
        """Requests another attempt for the user; earlier restarts no longer count."""
        self._restarts, self._losses, self._is_stopped, self._has_worked = 0, 0, False, False
        self.retry()

    def retry(self, earlier: int = 0) -> None:
        """Requests another attempt, unless the worker is stopped: at once, or after `earlier` ones, later each time.

        It does not count as a restart.
        """
        if earlier:
            self._back_off(earlier - 1)
        elif not self._is_stopped:
            self.cancel_backoff()
            self._due.set()

    def clear_request(self) -> None:
        """Clears earlier requests, which the prepared attempt fulfils."""
        self._due.clear()

    def cancel(self) -> None:
        """Cancels all requests, and ignores others until the user's next."""
        self._is_stopped = True
        self.cancel_backoff()
        self._due.clear()

    def replace(self, *, running_s: float) -> bool:
        """Requests a replacement for an attempt with an alert, which has been in its running phase for `running_s`.

        Returns True if another attempt follows.
        """
        if self.pending:  # the failure that raised the alert may have scheduled one
            return True
        if running_s >= HEALTHY_S:
            self._restarts = self._losses = 0
        if self._is_stopped or self._restarts >= self._spec.max_restarts:
            return False
        self._restarts += 1
        self._due.set()
        return True

    def schedule(
        self, failure: Failure | None, *, had_progress: bool, running_s: float, is_unready: bool = False
    ) -> None:
        """Schedules another attempt, if `--restart` asks for one.

        The last attempt failed with `failure`, or finished (None), after `running_s` in its running phase; if it
        `is_unready`, it could not even start, as while a disk is away.
        """
        if running_s >= HEALTHY_S:
            self._restarts, self._losses, had_progress = 0, 0, True
        self._has_worked |= had_progress
        spec, kind = self._spec, failure.kind if failure is not None else None
        if not wants_restart(spec.restart, kind, had_progress=had_progress, has_worked=self._has_worked):
            return
        if is_unready and self._has_worked:
            self.schedule_lost(running_s=running_s)
        elif self._restarts < spec.max_restarts and self._back_off(self._restarts):
            self._restarts += 1

    def schedule_lost(self, *, running_s: float) -> None:
        """Schedules another attempt after one that was lost with its node or could not start; it is not a restart."""
        if running_s >= HEALTHY_S:
            self._losses = 0
        if self._losses < _MAX_LOSSES and self._back_off(self._losses):
            self._losses += 1

    def _back_off(self, restarts: int) -> bool:
        """Schedules an attempt, unless one is due or the worker is stopped. Returns True if it did."""
        if self._due.is_set() or self._is_stopped:
            return False
        delay_s = backoff_s(restarts)
        self.due_at = time.monotonic() + delay_s
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._due.set)
        return True

    def cancel_backoff(self) -> None:
        """Cancels the back-off, and the attempt due after it."""
        self.due_at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def wants_restart(mode: RestartMode, kind: FailureKind | None, *, had_progress: bool, has_worked: bool) -> bool:
    """Returns True if `--restart` asks for another attempt; `kind` is None after exit code 0.

    `had_progress` concerns the last attempt, `has_worked` any.
    """
    if mode is RestartMode.NEVER or (kind is FailureKind.CONFIG and not has_worked):
        return False  # a missing permission or package does not fix itself; a taken port or a full disk does
    if kind is None or mode is RestartMode.ALWAYS:
        return mode is RestartMode.ALWAYS
    return mode is RestartMode.FAILURE or (kind.is_transient and not had_progress)


def backoff_s(restarts: int) -> float:
    """Returns the seconds before the next attempt, after `restarts` in a row: 2, 4, 8 … up to 60, ± 25 %."""
    jitter = random.uniform(1 - _JITTER_SHARE, 1 + _JITTER_SHARE)  # noqa: S311
    return min(_MAX_BACKOFF_S, _MIN_BACKOFF_S * 2.0 ** min(restarts, 5)) * jitter
