"""Workers whose Genesis prints nothing: what the gate and the screen make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.model import Phase, Snapshot, StartMode, WorkerState
from tests.engine.harness import running, spec_for

pytestmark = pytest.mark.slow

_SILENT = """
import os, time  # and what imports genesis
from pathlib import Path
time.sleep(1.0)
folder = Path(os.environ["GS_CACHE_FILE_PATH"], "gsd")
folder.mkdir(parents=True, exist_ok=True)
Path(folder, f"{os.getpid()}.gsd").write_bytes(b"mesh")
time.sleep(1e6)
"""


async def test_nobody_waits_for_the_training_of_a_first_worker_that_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GS_CACHE_FILE_PATH", str(tmp_path / "genesis"))
    script = tmp_path / "silent.py"
    script.write_text(_SILENT)
    async with running(spec_for(cpu=2, script=str(script), start=StartMode.GATED)) as run:
        await run.until_state("cpu0", WorkerState.STARTING)
        assert run.worker("cpu1").reason == "for cpu0 to write the mesh caches"
        await run.until(lambda _: run.worker("cpu1").state is WorkerState.STARTING, timeout_s=60)
        assert run.worker("cpu0").state is WorkerState.STARTING


async def test_ranks_of_one_group_are_not_held_apart(tmp_path: Path) -> None:
    script = tmp_path / "ddp.py"
    script.write_text(_SILENT)
    env = {"RANK": "{i}", "WORLD_SIZE": "2", "GS_CACHE_FILE_PATH": str(tmp_path / "genesis")}
    async with running(spec_for(cpu=2, script=str(script), env=env)) as run:
        await run.until(lambda snapshot: all(one.state is WorkerState.STARTING for one in snapshot.workers))
        assert not (tmp_path / "genesis").exists()


async def test_a_script_that_has_simulated_before_waits_for_nobody_at_its_next_start(
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


async def test_work_after_a_warning_of_a_genesis_that_hides_its_phases_is_in_none_of_them() -> None:
    async with running(spec_for("--level", "warning", "--spin", "compiling")) as run:
        snapshot = await run.until(lambda snapshot: snapshot.workers[0].silent_s is not None, timeout_s=60)
        worker = snapshot.workers[0]
        assert (worker.state, worker.phase, worker.phase_usual_s) == (WorkerState.BUILDING, Phase.AT_WORK, None)


_IMPORTED = """
import mmap, os, time
from pathlib import Path
library = Path(os.environ["LIBRARY"])
library.parent.mkdir()
library.write_bytes(b"x" * mmap.PAGESIZE)
loaded = mmap.mmap(os.open(library, os.O_RDONLY), 0, prot=mmap.PROT_READ)
while True:
    pass
"""


async def test_a_script_that_works_without_a_line_is_importing_no_more_once_all_is_loaded(
    tmp_path: Path,
) -> None:
    script = tmp_path / "quiet.py"
    script.write_text(_IMPORTED)
    env = {"LIBRARY": str(tmp_path / "coacd" / "lib_coacd.so")}
    async with running(spec_for(cpu=1, script=str(script), env=env)) as run:
        snapshot = await run.until(lambda snapshot: snapshot.workers[0].silent_s is not None, timeout_s=50)
        assert snapshot.workers[0].phase is Phase.IMPORTING


async def test_silent_work_after_the_last_phase_is_not_taken_for_that_phase() -> None:
    async with running(spec_for("--lines", "0", "--spin", "running")) as run:
        snapshot = await run.until(lambda snapshot: snapshot.workers[0].silent_s is not None, timeout_s=60)
        assert snapshot.workers[0].phase is Phase.VISUALIZER
        assert (snapshot.workers[0].silent_s or 0.0) >= 10.0
