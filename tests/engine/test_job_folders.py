"""A job has one folder, in which a retry on another GPU finds what the first attempt has saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui import session
from gmg_tui.model import Batch, JobRecord, QueueAction, WorkerState
from gmg_tui.store import reader
from tests.nvml_sim import Sim

from .harness import Running, running, sweep_for

_SCRIPT = """
import os, sys
from pathlib import Path
checkpoint = Path(os.environ["GMG_OUT_DIR"], "checkpoint")
seen = checkpoint.read_text() if checkpoint.exists() else ""
checkpoint.write_text(seen + os.environ["CUDA_VISIBLE_DEVICES"])
sys.exit(len(seen) < 2)
"""


async def _only(run: Running, gpu: str) -> None:
    """Let jobs start on this GPU alone."""
    for slot in ("gpu0", "gpu1", "gpu2"):
        await run.client.use_slot(slot, used=slot == gpu)


def _job(run: Running) -> JobRecord:
    (job,) = reader.load_jobs(run.folder / session.STORE)
    return job


@pytest.mark.parametrize(("out_dir", "folder"), [(None, "jobs/lr=漢"), ("{gpu}_{{{slot}_{name}", "0_{gpu0_lr=漢")])
async def test_a_job_keeps_its_folder_on_other_gpus_and_after_resume(
    sim: Sim, tmp_path: Path, out_dir: str | None, folder: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    spec = sweep_for([{"name": "lr=漢"}], Batch(script=str(script), gpus="0,", out_dir=out_dir))
    expected = Path(spec.cwd, folder)
    async with running(spec, sim.env()) as run:
        await run.until_done()
        assert _job(run).out_dir == str(expected)
        await _only(run, "gpu2")
        await run.client.act_on_jobs(QueueAction.RETRY, 1)
        await run.until(lambda _: (_job(run).last.number, _job(run).state) == (2, WorkerState.FAILED))
        await _only(run, "none")
        await run.client.act_on_jobs(QueueAction.RETRY, 1)
        await run.client.end()
        await run.until(lambda s: s.ended)
    assert (expected / "checkpoint").read_text() == "02"
    async with running(spec, sim.env()) as run:
        queue = await run.until_done()
    assert (queue.finished, (expected / "checkpoint").read_text()) == (1, "020")
    assert _job(run).out_dir == str(expected)
