"""The index that an attempt is given: as its own process counts the GPUs, and no other."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from gmg_tui.engine.gpus import indices as gpu_indices
from gmg_tui.engine.gpus.indices import DriverSilentError, GpuIndices
from gmg_tui.gpu import silence
from gmg_tui.gpu.nvml import Nvml
from gmg_tui.model import DdpSpec, Gpu, RestartMode, StartMode, Visible, WorkerState
from gmg_tui.protocol import Action
from tests.nvml_sim import GPU_IS_LOST, Sim

from .harness import Running, running, spec_for

NEVER = ("--lines", "0")
RUNNING = WorkerState.RUNNING
ON_GPUS: dict[str, Any] = {"cpu": None, "start": StartMode.TOGETHER, "interval_s": 0.2}


async def _index(run: Running, slot: str) -> str:
    return (await run.client.details(slot)).env["CUDA_VISIBLE_DEVICES"]


async def _egl(run: Running, slot: str) -> str | None:
    return (await run.client.details(slot)).env.get("EGL_DEVICE_ID")


async def test_a_gpu_that_has_left_the_bus_is_not_counted_by_what_starts_then(sim: Sim) -> None:
    async with running(spec_for(*NEVER, gpus="0,3,5", **ON_GPUS), sim.env()) as run:
        await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
        assert [await _index(run, slot) for slot in ("gpu0", "gpu3", "gpu5")] == ["0", "3", "5"]
        sim.fall_off(sim.gpus[0])
        await run.until(lambda s: s.samples[0].lost)
        await run.client.act(Action.RESTART, "gpu0", "gpu3")
        await run.until_attempt("gpu3", 2)
        assert await _index(run, "gpu3") == "2"
        assert sim.gpus[0].uuid in ((await run.until_state("gpu0", WorkerState.FAILED)).reason or "")
        assert run.worker("gpu5").attempt == 1


async def test_the_egl_device_is_that_of_the_processes_that_start_after_a_gpu_has_left_the_bus(
    sim: Sim, egl_library: Path, tmp_path: Path
) -> None:
    """The simulated EGL has no PCI addresses, as in containers: the CUDA ordinal alone tells the devices apart."""
    devices = tmp_path / "devices"
    devices.write_text("3,2,1,0")
    env = sim.env()
    env["LD_LIBRARY_PATH"] += f":{egl_library}"
    spec = spec_for(*NEVER, gpus="1,3", **ON_GPUS)
    async with running(spec, env | {"GMG_EGL_SIM": f"@{devices}"}) as run:
        await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
        assert [await _egl(run, slot) for slot in ("gpu1", "gpu3")] == ["2", "0"]
        sim.fall_off(sim.gpus[1])
        devices.write_text("2,1,0")
        await run.until(lambda s: s.samples[0].lost)
        await run.client.act(Action.RESTART, "gpu3")
        await run.until_attempt("gpu3", 2)
        assert (await _index(run, "gpu3"), await _egl(run, "gpu3")) == ("2", "0")
        devices.write_text("0,2,1")
        sim.fall_off(sim.gpus[0])
        pid = (await run.until_state("gpu3", RUNNING)).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await run.until_state("gpu3", WorkerState.FAILED)
        await run.client.act(Action.RESTART, "gpu3")
        await run.until_attempt("gpu3", 3)
        assert (await _index(run, "gpu3"), await _egl(run, "gpu3")) == ("1", "2")


async def test_a_uuid_is_given_where_that_is_asked_for_and_placeholders_have_the_index(sim: Sim) -> None:
    spec = spec_for(*NEVER, "--fps", "{gpu}00", gpus="3,", visible=Visible.UUID, **ON_GPUS)
    async with running(spec, sim.env()) as run:
        await run.until_state("gpu3", RUNNING)
        assert await _index(run, "gpu3") == sim.gpus[3].uuid
        assert run.worker("gpu3").args[-1] == "300"


async def test_a_gpu_of_others_that_has_left_the_bus_is_not_counted_after_a_failure(sim: Sim) -> None:
    spec = spec_for(*NEVER, gpus="3,", restart=RestartMode.FAILURE, **ON_GPUS)
    async with running(spec, sim.env()) as run:
        worker = await run.until_state("gpu3", RUNNING)
        assert worker.pid is not None
        sim.fall_off(sim.gpus[1])
        os.kill(worker.pid, signal.SIGKILL)
        await run.until_attempt("gpu3", 2)
        assert await _index(run, "gpu3") == "2"


async def test_a_start_of_eight_asks_no_fresh_process_and_restarts_share_one(sim: Sim) -> None:
    sim.record()
    async with running(spec_for(*NEVER, gpus="all", **ON_GPUS), sim.env()) as run:
        await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
        assert sim.calls().count("nvmlInitWithFlags") == 1
        pid = run.worker("gpu7").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await run.until_state("gpu7", WorkerState.FAILED)
        await run.client.act(Action.RESTART, *(f"gpu{index}" for index in range(8)))
        await run.until(lambda s: all(worker.attempt == 2 for worker in s.workers))
        assert sim.calls().count("nvmlInitWithFlags") == 1


async def test_a_worker_that_cannot_be_prepared_leaves_the_gate_to_the_next(sim: Sim) -> None:
    sim.gpus[0].fails = {"nvmlDeviceGetIndex": GPU_IS_LOST}
    sim.write()
    spec = spec_for(*NEVER, gpus="0,1", **ON_GPUS | {"start": StartMode.GATED})
    async with running(spec, sim.env()) as run:
        assert "lost" in ((await run.until_state("gpu0", WorkerState.FAILED)).reason or "")
        await run.until_state("gpu1", RUNNING)


async def test_a_worker_that_cannot_be_prepared_is_restarted_as_one_that_failed(sim: Sim) -> None:
    sim.gpus[0].fails = {"nvmlDeviceGetIndex": GPU_IS_LOST}
    sim.write()
    spec = spec_for(*NEVER, gpus="0,1", restart=RestartMode.FAILURE, max_restarts=1, **ON_GPUS)
    async with running(spec, sim.env()) as run:
        waiting = await run.until_state("gpu0", WorkerState.RESTARTING)
        assert waiting.restart_in_s is not None
        assert "lost" in (waiting.reason or "")
        await run.until_state("gpu0", WorkerState.FAILED)
        sim.gpus[0].fails = {}
        sim.write()
        await run.client.act(Action.RESTART, "gpu0")
        assert (await run.until_state("gpu0", RUNNING)).attempt == 1


@pytest.mark.parametrize("ddp", [None, DdpSpec()], ids=["a worker", "a group"])
async def test_an_edit_that_comes_while_attempts_are_prepared_is_what_they_run_with(
    sim: Sim, ddp: DdpSpec | None
) -> None:
    spec = spec_for(*NEVER, gpus="2", ddp=ddp, **ON_GPUS)
    async with running(spec, sim.env()) as run:
        await run.until(lambda s: all(worker.state is RUNNING for worker in s.workers))
        sim.hangs = True
        sim.write()
        await run.client.act(Action.RESTART, "gpu0", "gpu1")
        await run.until(lambda s: all(worker.reason == gpu_indices.WAITS for worker in s.workers))
        await run.client.edit(("gpu0", "gpu1"), ("--lines", "9"), {})
        sim.hangs = False
        sim.write()
        await run.until(lambda s: s.ended)
        assert {worker.state for worker in run.snapshot.workers} == {WorkerState.FINISHED}
        assert {worker.args for worker in run.snapshot.workers} == {("--lines", "9")}
        if ddp is None:
            assert {worker.attempt for worker in run.snapshot.workers} == {2}


class _Silent(Nvml):
    """A driver that does not answer before `answers` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()
        self.asked = 0

    def index_of(self, uuid: str) -> int:
        self.asked += 1
        self.answers.wait()
        return 4


async def test_a_driver_that_stays_silent_is_a_failure_that_a_retry_may_heal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "LATE_S", 0.0)
    monkeypatch.setattr(silence, "GIVE_UP_S", 0.05)
    nvml, said = _Silent(), list[str]()
    indices = GpuIndices(nvml)
    for _ in range(3):
        with pytest.raises(DriverSilentError, match="has not answered"):
            await indices.of(Gpu(4, "GPU-4", "H100"), said.append)
    assert said == [gpu_indices.WAITS] * 3
    assert nvml.asked == 1, "a thread that hangs is enough"
    monkeypatch.setattr(silence, "GIVE_UP_S", 60.0)
    asking = asyncio.create_task(indices.of(Gpu(4, "GPU-4", "H100"), said.append))
    nvml.answers.set()
    assert await asking == 4
