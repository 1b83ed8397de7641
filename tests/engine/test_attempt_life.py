"""An attempt's life under commands and events of its process in every order, with neither a process nor a clock."""

import asyncio
import errno
import os
import selectors
import signal
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gmg_tui.engine.attempts import local_attempt
from gmg_tui.engine.attempts.attempt import Life, Outcome, Stop, StopCause, Task
from gmg_tui.engine.attempts.failure import outcome_of_failed_start
from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.engine.attempts.local_attempt import LocalAttempt
from gmg_tui.engine.attempts.local_host import Launch
from gmg_tui.engine.attempts.process import KILL_STEPS, LEFTOVER_STEPS, SIGTERM_EXIT_CODES, Step
from gmg_tui.engine.output.lines import RingBuffer
from gmg_tui.machine.cgroup import Memory
from gmg_tui.machine.processes import Proc
from gmg_tui.model import RunSpec, Slot, StartMode, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.caches import PhaseTimes
from gmg_tui.scripts.genesis.environ import Environment
from gmg_tui.scripts.probe.counts import Counts

_LIVES = list(Life)
_STEPS: tuple[Step, ...] = ((signal.SIGINT, 1.0), *LEFTOVER_STEPS)
_CHILD = Proc((1 << 22) + 2, 1, 1, 1, "S", 0.0, 1.0, 2)
_TURNS = st.integers(0, 6)
_CODES = st.sampled_from([0, 1, 143, -signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL])


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock moves only by `advance`."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def turn(self, turns: int) -> None:
        for _ in range(turns):
            self.call_soon(self.stop)
            self.run_forever()


class _Process:
    """A process that ends when the test says so, and notes each signal."""

    def __init__(self, *_: Any) -> None:
        self.pid, self.sent = (1 << 22) + 1, None
        self.survivors: str | None = None
        self.exit_code: int | None = None
        self.started = self.asked = self.has_ended = self.is_ending = self.is_entering = False
        self.ends: list[Sequence[Step]] = []
        self.left: list[Proc] = []
        self.anothers = set[tuple[int, int]]()
        self.unkillable, self.may_start, self._reaped, self._gone = (asyncio.Event() for _ in range(4))
        self.code = 0
        self.cannot_start = False

    async def start(self, *_: Any, **__: Any) -> None:
        self.asked = True
        await self.may_start.wait()
        if self.cannot_start:
            raise OSError(2, "No such file or directory")
        self.started = True

    async def wait(self) -> int:
        await self._reaped.wait()
        return self.code

    def end(self, steps: Sequence[Step]) -> None:
        if self.started and not self.unkillable.is_set() and (not self.is_ending or steps is KILL_STEPS):
            self.ends.append(steps)
            self.is_ending = True
            self._check()

    async def wait_for_end(self) -> None:
        if self.is_ending and not self.unkillable.is_set():
            await self._gone.wait()

    async def remaining(self) -> list[Proc]:
        return self.left

    def members(self, _: object) -> list[Proc]:
        return self.left

    def forward_signal(self, _: int) -> bool:
        return False

    def close_pipes(self) -> None:
        pass

    def dies(self, code: int) -> None:
        self.has_ended, self.code = True, code

    def is_reaped(self) -> None:
        self.exit_code = self.code
        self._reaped.set()
        self._check()

    def clear(self) -> None:
        self.left = []
        self._check()

    def _check(self) -> None:
        if self.exit_code is not None and not self.left:
            self._gone.set()


class LifeOfAnAttempt(RuleBasedStateMachine):
    """Rules are a command or an event each, after which the loop turns so many times: others come in between."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = _Loop()
        asyncio.set_event_loop(self.loop)
        self.prepared: asyncio.Future[Launch | None] = self.loop.create_future()
        self.lives: list[Life] = [Life.PREPARING]
        self.stopped_in: Life | None = None
        self.killed = False
        self.ended_alone: int | None = None
        self.cancelled = False
        self.cleared_at: float | None = None
        self.requested: tuple[StopCause, bool] | None = None
        """The first stop's cause, and whether it came within the session's last seconds."""
        mock.patch.multiple(local_attempt, Process=_Process).start()
        mock.patch.object(LocalAttempt, "_prepare", self._prepare).start()
        self.attempt = self._attempt()
        self.process = cast("_Process", self.attempt._process)
        self.task = self.loop.create_task(self.attempt.run())
        self.loop.turn(1)

    @initialize(moment=st.sampled_from(["preparing", "starting", "alive", "alive", "dead"]), code=_CODES)
    def begins(self, moment: str, code: int) -> None:
        """Most orders begin later than at the first moment, which a stop ends at once."""
        if moment != "preparing":
            self.preparation_ends("ready", 6)
        if moment in ("alive", "dead"):
            self.starts(False, 0, 6)
        if moment == "dead":
            self.dies(code, 0)

    def _attempt(self) -> LocalAttempt:
        log = mock.Mock(trouble=None, flush=mock.AsyncMock())
        host = SimpleNamespace(
            spec=RunSpec("s", "/", "/s", "a.py", (), "/", "python"),
            open_log=lambda _: log,
            gate=Gate(StartMode.TOGETHER),
            **dict.fromkeys(("pipes", "scans", "watchdog"), mock.Mock()),
            result_names=set(),
            formats=[],
            make_counts=mock.AsyncMock(return_value=Counts()),
            is_torchrun=False,
            memory_of=lambda _: Memory(()),
            stop_steps=_STEPS,
            group_steps=LEFTOVER_STEPS,
        )
        worker = mock.Mock(slot=Slot("cpu0"), task=Task((), {}, 0, 1), set_wait_reason=self._look, changed=self._look)
        return LocalAttempt(cast("Any", host), RingBuffer(), None, worker)

    async def _prepare(self) -> Launch | None:
        if (launch := await self.prepared) is not None:
            self.attempt._counts = asyncio.ensure_future(self.attempt._host.make_counts(self._look))
            await self.attempt._counts
        return launch

    def _look(self, *_: object) -> None:
        if hasattr(self, "attempt"):
            self.lives.append(self.attempt.life)
            if self.cleared_at is None and self.attempt.life is Life.CLEARED:
                self.cleared_at = self.loop.now

    def _can(self, *lives: Life) -> bool:
        return self.attempt.life in lives and self.process.started

    # Events

    @precondition(lambda self: not self.prepared.done())
    @rule(how=st.sampled_from(["ready", "ready", "ready", "called off", "error"]), turns=_TURNS)
    def preparation_ends(self, how: str, turns: int) -> None:
        launch = Launch(
            1, Task((), {}, 0, 1), Slot("cpu0"), None, (), ("python",), Environment({}, (), {}), PhaseTimes("", ""), ""
        )
        if how == "error":
            self.prepared.set_exception(GmgError("a disk does not answer", 1))
            self.prepared.exception()  # it may have been stopped, and nobody asks
        else:
            self.prepared.set_result(launch if how == "ready" else None)
        self.loop.turn(turns)

    @precondition(lambda self: self.process.asked and not self.process.may_start.is_set())
    @rule(fails=st.sampled_from([False, False, False, True]), children=st.integers(0, 1), turns=_TURNS)
    def starts(self, fails: bool, children: int, turns: int) -> None:
        self.process.cannot_start, self.process.left = fails, [_CHILD] * children
        self.process.may_start.set()
        self.loop.turn(turns)

    @precondition(lambda self: self._can(Life.ALIVE) and not self.process.has_ended)
    @rule(code=_CODES, turns=_TURNS)
    def dies(self, code: int, turns: int) -> None:
        self.process.dies(code)
        if self.stopped_in is None and not self.cancelled:
            self.ended_alone = code
        self.loop.turn(turns)

    @precondition(lambda self: self.process.has_ended and self.process.exit_code is None)
    @rule(turns=_TURNS)
    def is_reaped(self, turns: int) -> None:
        self.process.is_reaped()
        self.loop.turn(turns)

    @precondition(lambda self: self.process.started)
    @rule(turns=_TURNS)
    def children_end(self, turns: int) -> None:
        self.process.clear()
        self.loop.turn(turns)

    @precondition(lambda self: KILL_STEPS in self.process.ends and self.attempt.life in (Life.ALIVE, Life.LEADER_GONE))
    @rule(turns=_TURNS)
    def the_kernel_keeps_it(self, turns: int) -> None:
        if not self.process._gone.is_set():
            self.process.survivors = "survives SIGKILL"
            self.process.unkillable.set()
        self.loop.turn(turns)

    @rule(by_s=st.sampled_from([0.1, 1.0, 3.0]), turns=st.integers(4, 6))
    def time_passes(self, by_s: float, turns: int) -> None:
        self.loop.now += by_s
        self.loop.turn(turns)

    # Commands

    @rule(kill=st.booleans(), cause=st.sampled_from(list(StopCause)), turns=_TURNS)
    def stop(self, kill: bool, cause: StopCause, turns: int) -> None:
        before, signals = self.attempt.life, len(self.process.ends)
        if self.stopped_in is None and self.ended_alone is None:
            self.stopped_in = before
        self.killed |= kill and before is Life.ALIVE and not self.process.has_ended
        self._look()
        if self.requested is None:
            passed_s = self.loop.now - self.cleared_at if self.cleared_at is not None else 0.0
            self.requested = cause, before is not Life.ENDED and passed_s < local_attempt._SESSION_END_GRACE_S
        self.attempt.stop(Stop(cause, kill=kill))
        if before in (Life.CLEARED, Life.ENDED):
            assert len(self.process.ends) == signals
        elif kill and self.process.started:
            assert KILL_STEPS in self.process.ends or self.process.unkillable.is_set()
        self.loop.turn(turns)

    @rule(turns=_TURNS)
    def skip_waits(self, turns: int) -> None:
        self.attempt.skip_waits()
        self.loop.turn(turns)

    @precondition(lambda self: not self.cancelled and not self.task.done())
    @rule(turns=_TURNS)
    def cancel(self, turns: int) -> None:
        self.cancelled = True
        self.task.cancel()
        self.loop.turn(turns)

    # What holds

    @invariant()
    def life_moves_forward(self) -> None:
        self._look()
        places = [_LIVES.index(life) for life in self.lives]
        assert places == sorted(places)

    @invariant()
    def what_was_stopped_in_time_starts_no_process(self) -> None:
        assert not (self.stopped_in is Life.PREPARING and self.process.asked)

    @invariant()
    def a_kill_is_not_lost(self) -> None:
        if self.killed and self.attempt.life is Life.ALIVE and self.process.started and self.process.ends:
            assert KILL_STEPS in self.process.ends

    @invariant()
    def it_can_be_displayed(self) -> None:
        assert self.attempt.state in WorkerState
        if self.attempt._is_prepared:
            self.attempt.view()
            self.attempt.activity()

    def teardown(self) -> None:
        try:
            for _ in range(40):
                if not self.prepared.done():
                    self.preparation_ends("ready", 2)
                self.process.may_start.set()
                self.loop.turn(2)
                if self.process.started and not self.process.has_ended:
                    self.dies(0, 2)
                if self.process.has_ended and self.process.exit_code is None:
                    self.process.is_reaped()
                self.process.clear()
                self.time_passes(3.0, 8)
            assert self.attempt.life is Life.ENDED
            assert self.task.done()
            if not self.task.cancelled():
                self._check(self.task.result())
        finally:
            mock.patch.stopall()
            self.loop.turn(3)
            self.loop.close()
            asyncio.set_event_loop(None)

    def _check(self, outcome: Outcome) -> None:
        if self.ended_alone is None or self.process.survivors is not None or self.cancelled:
            return
        cause = None
        if self.ended_alone in SIGTERM_EXIT_CODES and self.requested is not None and self.requested[1]:
            cause = self.requested[0]  # SIGTERM has reached all processes of a job, the session's own next
        assert outcome.by_user == (cause is StopCause.COMMAND)
        assert outcome.by_group == (cause is StopCause.GROUP)
        is_stopped = cause in (StopCause.COMMAND, StopCause.GROUP)
        assert (outcome.failure is not None) == (self.ended_alone != 0 and not is_stopped)
        assert self.attempt.exit_code == self.ended_alone


def test_an_attempt_lives_and_ends_in_every_order() -> None:
    run_state_machine_as_test(
        LifeOfAnAttempt, settings=settings(max_examples=150, stateful_step_count=25, deadline=None)
    )


@pytest.mark.parametrize(("late", "by_user"), [(False, True), (True, False)])
def test_sigterm_is_the_session_s_own_only_if_a_stop_follows_at_once(late: bool, by_user: bool) -> None:
    life = LifeOfAnAttempt()
    life.preparation_ends("ready", 6)
    life.starts(False, 0, 6)
    life.dies(-signal.SIGTERM, 0)
    life.is_reaped(6)
    for _ in range(2):
        life.time_passes(1.0 if late else 0.1, 6)
    life.stop(False, StopCause.COMMAND, 6)
    life.teardown()
    assert life.task.result().by_user is by_user


def test_a_kill_after_a_stop_counts_while_the_process_is_being_started() -> None:
    life = LifeOfAnAttempt()
    life.preparation_ends("ready", 6)
    life.stop(False, StopCause.COMMAND, 0)
    life.stop(True, StopCause.COMMAND, 0)
    life.starts(False, 0, 6)
    assert life.process.ends == [KILL_STEPS]
    life.teardown()


def test_what_ended_in_this_moment_is_not_signalled() -> None:
    life = LifeOfAnAttempt()
    life.preparation_ends("ready", 6)
    life.starts(False, 0, 6)
    life.dies(0, 0)
    life.stop(False, StopCause.COMMAND, 3)
    life.teardown()


@pytest.mark.parametrize(
    ("error", "again"),
    [
        *((number, True) for number in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)),
        *((number, False) for number in (errno.ENOENT, errno.EACCES, errno.E2BIG)),
        (RuntimeError("can't start new thread"), True),
    ],
)
def test_a_job_that_finds_no_room_for_a_process_runs_again(error: int | RuntimeError, again: bool) -> None:
    known = error if isinstance(error, RuntimeError) else OSError(error, os.strerror(error))
    outcome = outcome_of_failed_start("python", known)
    assert outcome.failure is not None
    assert outcome.failure.reason.startswith("cannot start python: ")
    assert outcome.unready == (outcome.failure.reason if again else None)
