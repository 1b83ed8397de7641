"""What jobs report is on the disk, whole, and not in the engine's memory."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gmg_tui.engine.scheduling.job_queue import JobQueue
from gmg_tui.model import Batch, JobRecord, QueueAction, WorkerState
from gmg_tui.results import DETAILED, SUMMARY, Results
from gmg_tui.results.long_texts import LongTexts
from gmg_tui.session import STORE
from gmg_tui.store.reader import load_jobs
from tests.harm.patience import eventually
from tests.store import records
from tests.store.conftest import Opened, folder, opened

__all__ = ["folder", "opened"]

_JOBS = 40


def _reported(number: int) -> dict[str, Any]:
    """About 800 kB in memory."""
    return {"score": number / 8, "curve": [number + step / 7 for step in range(20_000)], "log": f"{number}" * 50_000}


def _traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _stored(folder: Path) -> dict[int, dict[str, Any] | None]:
    return {job.number: job.result for job in records.jobs_so_far(folder / STORE)}


async def test_what_has_been_reported_costs_no_memory_and_is_never_lost(folder: Path, opened: Opened) -> None:
    expected = {number: _reported(number) for number in range(1, _JOBS + 1)}
    queue = JobQueue([JobRecord(number, f"job-{number}") for number in expected], (Batch(),))
    writer, _ = opened(Results(folder))
    tracemalloc.start()
    try:
        for number in expected:
            ended = structs.replace(queue.take(number), state=WorkerState.FINISHED, ended=1.0, result=_reported(number))
            writer.job(ended)
            queue.release(ended)
        del ended
        await eventually(lambda: _stored(folder) == expected)
        await eventually(lambda: _traced_bytes() < 5 << 20)  # of more than 30 MiB
    finally:
        tracemalloc.stop()
    (again,) = queue.act(QueueAction.RETRY, 3)
    writer.job(again)  # it has not begun: what it reported before stays
    await eventually(lambda: load_jobs(folder / STORE)[2].state is WorkerState.WAITING)
    assert _stored(folder) == expected
    for path in folder.glob(f"{STORE}*"):
        path.unlink()
    writer.job(structs.replace(again, position=0.5))
    await eventually(lambda: len(_stored(folder)) == _JOBS)
    assert _stored(folder) == expected
    await writer.close()
    detailed = json.loads((folder / DETAILED).read_bytes())["jobs"]
    assert {job["number"]: job["result"] for job in detailed} == expected
    header, first, *_ = (folder / SUMMARY).read_text().splitlines()
    assert header.endswith(",ddp_world_size,score"), "a text that no cell can hold is in the JSON only"
    assert first.endswith(",0.125")


async def test_a_sweep_that_goes_on_keeps_what_was_reported(folder: Path, opened: Opened) -> None:
    writer, _ = opened(Results(folder))
    for number in (1, 2):
        writer.job(JobRecord(number, f"job-{number}", state=WorkerState.FINISHED, ended=1.0, result=_reported(number)))
    await writer.close()
    before = load_jobs(folder / STORE)
    queue, results = JobQueue(before, (Batch(),)), Results(folder)
    results.take(before, ())
    writer, _ = opened(results)
    (again,) = queue.act(QueueAction.RETRY, 2)
    writer.job(again)
    await writer.close()
    assert _stored(folder) == {1: _reported(1), 2: _reported(2)}
    detailed = json.loads((folder / DETAILED).read_bytes())["jobs"]
    assert [job["result"] for job in detailed] == [_reported(1), _reported(2)]


@pytest.mark.parametrize("writable", [True, False])
def test_texts_are_given_back_wherever_they_are_kept(tmp_path: Path, writable: bool) -> None:
    texts = LongTexts(tmp_path if writable else tmp_path / "missing")
    expected = {}
    for step, size in enumerate((10, 9000, 9000, 5000, 20_000, 10, 9000, 4097)):
        for number in range(3):
            text = f"{number}{step}ä" * size
            texts.put(number, text)
            texts.put(number, text)
            expected[number] = text
            assert {each: texts.get(each, "") for each in expected} == expected
    assert texts.get(7, "none") == "none"
    assert list(tmp_path.iterdir()) == []
