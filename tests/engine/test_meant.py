"""A request names the job or attempt that the user saw; it is refused once another has replaced it."""

from __future__ import annotations

import pytest

from gmg_tui.errors import GmgError
from gmg_tui.model import QueueAction, WorkerState
from gmg_tui.protocol import Action, Seen

from .harness import program, running, spec_for, sweep_for


async def test_a_request_for_an_ended_job_does_not_affect_the_next_one() -> None:
    async with running(sweep_for([{}] * 3, program("--s", "60"), cpu=1)) as run:
        await run.until(lambda s: s.workers[0].job == 1 and s.workers[0].pid)
        seen = {"cpu0": Seen(1, 1)}
        await run.client.act_on_jobs(QueueAction.STOP, 1)
        second = await run.until(lambda s: s.workers[0].job == 2 and s.workers[0].pid)
        refused = r"^job 1 has ended; job 2 runs on cpu0 now$"
        for action in Action:
            with pytest.raises(GmgError, match=refused):
                await run.client.act(action, "cpu0", seen=seen)
        with pytest.raises(GmgError, match=refused):
            await run.client.edit(("cpu0",), ("--s", "1"), {}, seen)
        with pytest.raises(GmgError, match=r"^job 2 runs on cpu0 now$"):
            await run.client.act(Action.STOP, "cpu0", seen={"cpu0": Seen()})
        last = (await run.client.queue(0, 10)).jobs
        assert [job.state for job in last[1:]] == [last[1].state, WorkerState.WAITING]
        assert not last[1].state.ended
        assert run.worker("cpu0").pid == second.workers[0].pid
        await run.client.act(Action.KILL, "cpu0", seen={"cpu0": Seen(2, 1)})
        await run.until(lambda s: s.workers[0].job == 3 and s.workers[0].pid)
        await run.client.act(Action.STOP, "cpu0", seen={"cpu0": Seen(3)})
        await run.until_done()
        await run.client.act(Action.RESTART, "cpu0", seen={"cpu0": Seen(3)})
        await run.until(lambda s: s.workers[0].job == 3 and s.workers[0].attempt == 2)


async def test_a_kill_of_an_ended_attempt_is_refused_and_other_slots_are_killed() -> None:
    async with running(spec_for("--lines", "0", "--plain", cpu=2)) as run:
        await run.until(lambda s: all(worker.pid for worker in s.workers))
        await run.client.act(Action.RESTART, "cpu0", seen={"cpu0": Seen()})
        await run.until(lambda s: s.workers[0].attempt == 2 and s.workers[0].pid)
        with pytest.raises(GmgError, match=r"^attempt 1 has ended; attempt 2 runs on cpu0 now$"):
            await run.client.act(Action.KILL, "cpu0", "cpu1", seen={"cpu0": Seen(None, 1), "cpu1": Seen(None, 1)})
        await run.until_state("cpu1", WorkerState.STOPPED)
        assert run.worker("cpu0").state.live
