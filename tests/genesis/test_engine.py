"""The shipped examples through the engine: what it reads of the real Genesis is what Genesis printed."""

from __future__ import annotations

import re

import pytest

from gmg_tui.model import Phase, WorkerState
from gmg_tui.protocol import Action
from tests.engine.harness import Running, running, spec_for

from .conftest import THREADS

pytestmark = [pytest.mark.genesis, pytest.mark.timeout(900)]

_ORDER = list(Phase)


def _printed(output: bytes) -> list[float]:
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", output)
    return [float(number.replace(b",", b"")) for number in re.findall(rb"Running at ([\d,.]+) FPS \(", plain)]


class _Phases:
    """The phases of each worker in the order in which the snapshots showed them."""

    def __init__(self, run: Running) -> None:
        self.seen: dict[str, list[Phase]] = {}
        self._run = run

    def __call__(self, _: object) -> bool:
        for worker in self._run.snapshot.workers:
            seen = self.seen.setdefault(worker.slot, [])
            if worker.phase and (not seen or seen[-1] is not worker.phase):
                seen.append(worker.phase)
        return self._run.snapshot.ended


async def test_a_worker_that_is_stopped_saves_its_kernels_and_is_edited_to_more_environments(light: str) -> None:
    spec = spec_for("-B", "4", "--steps", "10000000", cpu=1, script=light, sigint_wait_s=60.0)
    async with running(spec) as run:
        await run.until(lambda _: run.worker("cpu0").fps is not None, timeout_s=800)
        await run.client.edit(("cpu0",), ("-B", "32", "--steps", "10000000"), {})
        await run.until(lambda _: run.worker("cpu0").n_envs == 32, timeout_s=800)
        assert b"Exiting Genesis and caching compiled kernels" in run.output("cpu0")
        worker = run.worker("cpu0")
        assert worker.before is not None
        assert worker.before.n_envs == 4
        await run.client.act(Action.STOP, "cpu0")
        stopped = await run.until(lambda _: run.worker("cpu0").state is WorkerState.STOPPED, timeout_s=90)
        assert stopped.workers[0].reason is None


async def test_two_light_workers_run_to_their_end(light: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREADS:  # as many as the engine gives them
        monkeypatch.delenv(name)
    spec = spec_for("-B", "16", "--steps", "3000", cpu=2, script=light, sigint_wait_s=30.0)
    async with running(spec) as run:
        phases = _Phases(run)
        snapshot = await run.until(phases, timeout_s=600)
        for worker in snapshot.workers:
            assert worker.state is WorkerState.FINISHED, worker.reason
            assert worker.exit_code == 0
            assert worker.n_envs == 16
            assert worker.backend == "cpu"
            assert worker.genesis_version
            assert worker.device
            numbers = _printed(run.output(worker.slot))
            assert worker.fps is not None
            assert worker.fps.samples == len(numbers) > 3
            assert worker.fps.last == numbers[-1]
            assert worker.fps.max == max(numbers)
            assert worker.warnings == () or all("software" in text.lower() for text in worker.warnings)
            # Meshes are prepared while entities are added and while the scene is built.
            seen = [phase for phase in phases.seen[worker.slot] if phase is not Phase.MESHES]
            in_order = sorted(set(seen), key=_ORDER.index)
            assert list(dict.fromkeys(seen)) == in_order
            assert {Phase.IMPORTING, Phase.COMPILING, Phase.RUNNING} <= set(seen)
        await run.leave()
        await run.process.wait()
        summary = run.summary()
        assert summary["total_fps"] == pytest.approx(
            sum(_printed(run.output(slot))[-1] for slot in ("cpu0", "cpu1")), abs=0.01
        )
        assert [worker["n_envs"] for worker in summary["workers"]] == [16, 16]


@pytest.mark.slow
async def test_a_franka_on_a_warm_or_cold_cache(franka: str) -> None:
    async with running(spec_for("-B", "8", "--steps", "100", cpu=1, script=franka)) as run:
        phases = _Phases(run)
        snapshot = await run.until(phases, timeout_s=840)
        (worker,) = snapshot.workers
        assert worker.state is WorkerState.FINISHED, worker.reason
        assert worker.n_envs == 8
        assert Phase.BUILDING in phases.seen["cpu0"]
