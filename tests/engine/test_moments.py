"""A session is kept as it was, from its start to its end."""

from __future__ import annotations

import signal
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from gmg_tui.engine.records.moments import Moments
from gmg_tui.model import Phase, Snapshot, WorkerState
from gmg_tui.session import STORE
from gmg_tui.store import moments, schema
from gmg_tui.store.moments import Moment
from gmg_tui.store.writer import StoreWriter
from tests.harm.patience import eventually

from .harness import Running, running, spec_for


def _kept(run: Running) -> list[Snapshot]:
    path = Path(run.spec.folder, STORE)
    if not path.exists():
        return []
    with closing(schema.open_for_reading(path)) as db:
        found = [moments.read(db, number) for number, _ in moments.times(db)]
    return [snapshot for snapshot in found if snapshot is not None]


async def test_a_session_is_kept_from_its_start_to_its_end() -> None:
    async with running(spec_for("--lines", "3", "--phase-s", "1.5")) as run:
        await run.until(lambda snapshot: snapshot.ended)
        await run.leave()
        await run.process.wait()
        kept = _kept(run)
    states = [one.workers[0].state for one in kept]
    assert states[-1] is WorkerState.FINISHED
    assert kept[-1].ended
    assert {WorkerState.BUILDING, WorkerState.COMPILING} <= set(states)
    assert Phase.COMPILING in {one.workers[0].phase for one in kept}
    assert [one.time for one in kept] == sorted(one.time for one in kept)
    fps = kept[-1].workers[0].fps
    assert fps is not None
    assert fps.samples == 3


async def test_what_a_killed_engine_knew_is_kept() -> None:
    async with running(spec_for("--lines", "0")) as run:
        await run.until_state("cpu0", WorkerState.RUNNING)
        await eventually(lambda: any(one.workers[0].state is WorkerState.RUNNING for one in _kept(run)))
        run.process.send_signal(signal.SIGKILL)
        await run.process.wait()
        kept = _kept(run)
    assert kept[-1].workers[0].state is WorkerState.RUNNING


class _Store(StoreWriter):
    """Only takes moments."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def moment(self, moment: Moment) -> None:
        self.times.append(moment.time)


@pytest.mark.parametrize(("slots", "pause_s"), [(8, 1.0), (512, 8.0)])
def test_what_changes_all_the_time_is_kept_now_and_then(slots: int, pause_s: float) -> None:
    store = _Store()
    kept = Moments(store, slots)
    for step in range(200):
        now = 1000.0 + step / 5
        kept.renew()
        kept.beat(now, lambda now=now: Snapshot(now, 0.0, ()), live=True)  # type: ignore[misc]
    steps = {round(later - earlier, 1) for earlier, later in pairwise(store.times)}
    assert steps == {pause_s}


def test_what_has_ended_is_kept_once() -> None:
    store = _Store()
    kept = Moments(store, 1)
    for second in range(1000, 1100):
        kept.beat(second, lambda: Snapshot(1000.0, 0.0, ()), live=False)
    kept.conclude(Snapshot(1100.0, 0.0, ()))
    assert store.times == [1000.0]
    kept.renew()
    kept.conclude(Snapshot(1101.0, 0.0, ()))
    assert store.times == [1000.0, 1101.0]
