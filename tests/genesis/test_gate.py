"""Four real workers on one cold cache: the first writes the mesh caches, and nobody reads them half-written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gmg_tui.model import Phase, StartMode, Worker, WorkerState
from tests.engine.harness import running, spec_for

pytestmark = [pytest.mark.genesis, pytest.mark.slow, pytest.mark.timeout(1500)]

WORKERS = 4


def _prepared(output: bytes) -> int:
    """How many meshes a worker has prepared rather than read from the cache."""
    return len(re.findall(rb"Preprocessing SDF of mesh", output))


def _held(worker: Worker) -> bool:
    return worker.reason == "held for cpu0 to write the mesh caches"


async def test_gated_none_of_four_races(franka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GS_CACHE_FILE_PATH", str(tmp_path / "genesis"))
    spec = spec_for("-B", "4", "--steps", "20", cpu=WORKERS, script=franka, start=StartMode.GATED, sigint_wait_s=30.0)
    reasons: set[str | None] = set()

    async with running(spec) as run:

        def ended(_: object) -> bool:
            first, *others = run.snapshot.workers
            if first.phase in (Phase.CREATING, Phase.ADDING, Phase.MESHES, Phase.BUILDING):
                assert all(other.phase in (Phase.NONE, Phase.IMPORTING) or _held(other) for other in others)
            reasons.update(other.reason for other in others)
            return run.snapshot.ended

        snapshot = await run.until(ended, timeout_s=1400)
        assert [worker.state for worker in snapshot.workers] == [WorkerState.FINISHED] * WORKERS
        assert [worker.attempt for worker in snapshot.workers] == [1] * WORKERS
        outputs = [run.output(worker.slot) for worker in snapshot.workers]
    assert "for cpu0 to write the mesh caches" in reasons
    assert _prepared(outputs[0]) > 0
    assert [_prepared(output) for output in outputs[1:]] == [0] * (WORKERS - 1)
    assert not any(b"corrupted cache" in output for output in outputs)
