"""When each worker of a session starts."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from gmg_tui.engine.attempts import gate
from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.model import Phase, Snapshot, StartMode, WorkerState
from tests.patience import LONG_S

from .harness import running, spec_for


class Asked:
    """Workers that have asked a gate, and what each waits for."""

    def __init__(self, way: StartMode, *slots: str) -> None:
        self.gate = Gate(way)
        self.reasons: dict[str, str | None] = {}
        self.waiting: dict[str, asyncio.Task[None]] = {}
        for slot in slots:
            self.ask(slot)

    def ask(self, slot: str) -> None:
        self.reasons[slot] = None
        self.waiting[slot] = asyncio.create_task(self.gate.wait(slot, partial(self.reasons.__setitem__, slot)))

    async def started(self) -> list[str]:
        for _ in range(3):
            await asyncio.sleep(0)
        return [slot for slot, task in self.waiting.items() if task.done()]

    async def all_start(self) -> None:
        async with asyncio.timeout(LONG_S):
            await asyncio.gather(*self.waiting.values())


async def test_in_together_mode_no_worker_waits() -> None:
    assert await Asked(StartMode.TOGETHER, "gpu0", "gpu1").started() == ["gpu0", "gpu1"]


async def test_the_first_worker_to_ask_starts_first_and_opens_the_gate() -> None:
    asked = Asked(StartMode.GATED, "gpu3", "gpu0")
    assert await asked.started() == ["gpu3"]
    assert asked.reasons == {"gpu3": None, "gpu0": "for gpu3 to write the mesh caches"}
    asked.gate.on_phase("gpu3", Phase.IMPORTING)
    assert await asked.started() == ["gpu3"]
    asked.gate.on_phase("gpu3", Phase.COMPILING)
    asked.ask("gpu1")
    assert await asked.started() == ["gpu3", "gpu0", "gpu1"]


async def test_a_script_that_finishes_without_building_a_scene_opens_the_gate() -> None:
    asked = Asked(StartMode.GATED, "gpu0", "gpu1", "gpu2")
    await asked.started()
    asked.gate.leave("gpu0", finished=True)
    await asked.all_start()


async def test_only_the_next_worker_builds_when_the_first_fails_or_is_restarted() -> None:
    asked = Asked(StartMode.GATED, "gpu0", "gpu1", "gpu2")
    await asked.started()
    asked.gate.on_phase("gpu0", Phase.BUILDING)
    asked.gate.leave("gpu0")
    assert await asked.started() == ["gpu0", "gpu1"]
    assert asked.reasons["gpu2"] == "for gpu1 to write the mesh caches"
    asked.ask("gpu0")
    asked.gate.leave("gpu1")
    assert await asked.started() == ["gpu1", "gpu2"]
    assert asked.reasons["gpu0"] == "for gpu2 to write the mesh caches"
    asked.gate.on_phase("gpu2", Phase.COMPILING)
    await asked.all_start()


async def test_the_wait_for_a_worker_that_is_not_seen_to_build_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(gate, "MAX_UNSEEN_WAIT_S", 0.1)
    asked = Asked(StartMode.GATED, "gpu0", "gpu1", "gpu2")
    await asked.all_start()


async def test_one_more_worker_builds_when_the_first_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(gate, "MAX_BUILD_WAIT_S", 0.1)
    asked = Asked(StartMode.GATED, "gpu0", "gpu1", "gpu2")
    await asked.started()
    asked.gate.on_phase("gpu0", Phase.BUILDING)
    async with asyncio.timeout(LONG_S):
        await asked.waiting["gpu1"]
    assert await asked.started() == ["gpu0", "gpu1"]


async def test_in_staggered_mode_a_slot_waits_only_for_its_first_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "STAGGER_S", 0.01)
    asked = Asked(StartMode.STAGGERED, "gpu0", "gpu1")
    await asked.all_start()
    assert asked.reasons == {"gpu0": None, "gpu1": "staggered: starts 0 s after gpu0"}
    asked.ask("gpu1")
    await asked.started()
    await asked.all_start()
    assert asked.reasons["gpu1"] is None, "its next job starts at once"


_SILENT = "import time\ntime.sleep(1e6)\n"


@pytest.mark.slow
async def test_ranks_of_one_group_start_together(tmp_path: Path) -> None:
    script = tmp_path / "ddp.py"
    script.write_text(_SILENT)
    env = {"RANK": "{i}", "WORLD_SIZE": "2"}
    async with running(spec_for(cpu=2, script=str(script), env=env)) as run:
        await run.until(lambda snapshot: all(worker.state is WorkerState.STARTING for worker in snapshot.workers))


@pytest.mark.slow
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

            await run.until(ended)
    cold, warm = reasons
    # Who comes a little late finds it held already.
    assert any("for cpu0 to write the mesh caches" in (reason or "") for reason in cold)
    assert warm == {None}
