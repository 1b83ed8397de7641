"""Commands that come when a job has just got its slot, or has ended and not left it yet, are for that job."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.errors import GmgError
from gmg_tui.model import JobRecord, RestartMode, TuneSpec, WorkerState
from gmg_tui.protocol import Action
from gmg_tui.store import reader

from .harness import program, running, sweep_for

_AT_THE_MOMENT = """
import asyncio, sys
if "gmg_tui.engine" in sys.orig_argv:
    from gmg_tui.engine.scheduling.job_queue import JobQueue
    from gmg_tui.engine.scheduling.queue_scheduler import QueueScheduler
    init, take, schedulers = QueueScheduler.__init__, JobQueue.take, []
    def remembered(self, *args):
        schedulers.append(self)
        init(self, *args)
    def taken(self, number):
        if number == 2:
            asyncio.get_running_loop().call_soon(lambda: {command})
        return take(self, number)
    QueueScheduler.__init__, JobQueue.take = remembered, taken
"""
_BEFORE_IT_LEAVES = """
import sys
from pathlib import Path
if "gmg_tui.engine" in sys.orig_argv:
    import asyncio
    from gmg_tui.engine.scheduling.queue_scheduler import JobRun
    run = JobRun.run
    async def slowly(self):
        await run(self)
        while not Path({gate!r}).exists():
            await asyncio.sleep(0.01)
    JobRun.run = slowly
"""
FINISHED, STOPPED, WAITING = WorkerState.FINISHED, WorkerState.STOPPED, WorkerState.WAITING


async def _jobs_after(tmp_path: Path, command: str, seconds: float) -> list[JobRecord]:
    (tmp_path / "sitecustomize.py").write_text(_AT_THE_MOMENT.format(command=f"schedulers[0].{command}"))
    spec = sweep_for([{"s": 0.0}, {"s": seconds}, {"s": 0.0}], program("--s", "{s}"), cpu=1)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until_done()
        assert "Traceback" not in run.log()
    return reader.load_jobs(Path(spec.folder) / session.STORE)


async def test_the_end_of_the_session_stops_the_job_which_waits_for_the_next_engine(tmp_path: Path) -> None:
    jobs = await _jobs_after(tmp_path, "end(kill=False, reason=None)", 600.0)
    assert [(job.state, job.last.number) for job in jobs] == [(FINISHED, 1), (WAITING, 0), (WAITING, 0)]
    assert jobs[1].reason == "interrupted: the session was stopped"


@pytest.mark.parametrize(("actions", "attempts"), [(("restart",), 2), (("restart", "stop"), 1)])
async def test_a_restart_of_a_job_that_has_not_left_its_slot_runs_it_again(
    tmp_path: Path, actions: tuple[str, ...], attempts: int
) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "sitecustomize.py").write_text(_BEFORE_IT_LEAVES.format(gate=str(gate)))
    spec = sweep_for([{}, {}], program("--fail", "3", "--fail-attempts", "1"), cpu=1)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until_state("cpu0", WorkerState.FAILED)
        for action in actions:
            await run.client.act(Action(action), "cpu0")
        gate.touch()
        await run.until_done()
    jobs = reader.load_jobs(Path(spec.folder) / session.STORE)
    assert [job.last.number for job in jobs] == [attempts, 1]


async def test_a_restart_of_a_trial_that_has_not_left_its_slot_is_refused_and_the_tuning_goes_on(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "sitecustomize.py").write_text(_BEFORE_IT_LEAVES.format(gate=str(gate)))
    spec = sweep_for([], program("--fail", "3"), cpu=1, tune=TuneSpec(), restart=RestartMode.NEVER)
    async with running(spec, {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}) as run:
        await run.until_state("cpu0", WorkerState.FAILED)
        with pytest.raises(GmgError, match="the search decides which trials run"):
            await run.client.act(Action.RESTART, "cpu0")
        gate.touch()
        await run.until(lambda snapshot: snapshot.tuning is not None and snapshot.tuning.ended)
        assert "Traceback" not in run.log()
