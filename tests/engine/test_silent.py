"""Workers whose Genesis prints nothing: how the gate and the screen treat them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.model import Snapshot, WorkerState
from tests.engine.harness import running, spec_for

pytestmark = pytest.mark.slow

_SILENT = "import time\ntime.sleep(1e6)\n"


async def test_ranks_of_one_group_start_together(tmp_path: Path) -> None:
    script = tmp_path / "ddp.py"
    script.write_text(_SILENT)
    env = {"RANK": "{i}", "WORLD_SIZE": "2"}
    async with running(spec_for(cpu=2, script=str(script), env=env)) as run:
        await run.until(lambda snapshot: all(worker.state is WorkerState.STARTING for worker in snapshot.workers))


async def test_a_script_that_has_simulated_before_does_not_wait_at_its_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = tmp_path / "qdcache"
    kernels.mkdir()
    (kernels / "kernel").touch()
    monkeypatch.setenv("QD_OFFLINE_CACHE_FILE_PATH", str(kernels))
    reasons: list[set[str | None]] = []
    for phase_s in ("0.4", "0.6"):
        seen: set[str | None] = set()
        reasons.append(seen)
        async with running(spec_for("--lines", "3", "--phase-s", phase_s, cpu=2)) as run:

            def ended(snapshot: Snapshot, seen: set[str | None] = seen) -> bool:
                seen |= {worker.reason for worker in snapshot.workers}
                return snapshot.ended

            await run.until(ended, timeout_s=60)
    cold, warm = reasons
    # Who comes a little late finds it held already.
    assert any("for cpu0 to write the mesh caches" in (reason or "") for reason in cold)
    assert warm == {None}
