"""Scripts that silence Genesis, as most that train do: phases, environments and rate come from the probe."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.model import Phase, Snapshot, StartMode, WorkerState
from gmg_tui.protocol import Action
from tests.engine.harness import running, spec_for

pytestmark = [pytest.mark.genesis, pytest.mark.timeout(900)]

_QUIET = str(Path(__file__).with_name("quiet.py"))


async def test_two_quiet_workers_on_a_cold_mesh_cache_build_one_after_the_other(
    light: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GS_CACHE_FILE_PATH", str(tmp_path / "meshes"))
    args = ("--level", "warning", "--steps", "100000000")
    spec = spec_for(*args, cpu=2, script=_QUIET, start=StartMode.GATED, sigint_wait_s=60.0)
    before_meshes = (Phase.NONE, Phase.IMPORTING, Phase.INITIALISING)
    reasons: set[str | None] = set()
    async with running(spec) as run:

        def both_step(snapshot: Snapshot) -> bool:
            first, second = snapshot.workers
            if first.phase in (*before_meshes, Phase.CREATING, Phase.BUILDING):
                assert second.phase in before_meshes
            reasons.add(second.reason)
            return all(worker.current_fps for worker in snapshot.workers)

        snapshot = await run.until(both_step, timeout_s=600)
        for worker in snapshot.workers:
            assert (worker.phase, worker.state) == (Phase.RUNNING, WorkerState.RUNNING)
            assert worker.n_envs == 8
            assert worker.fps is not None
            assert (worker.fps.counted, worker.fps.last) == ("probe", None)
        await run.client.act(Action.STOP, "cpu0", "cpu1")
        await run.until(lambda snapshot: snapshot.ended, timeout_s=90)
    assert "for cpu0 to write the mesh caches" in reasons
