"""What a session knows of the memory of its runs, and says after out of memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gmg_tui.engine.gpus.footprint import Footprint, Footprints, run_of
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.model import Snapshot, WorkerState
from tests.engine.harness import Running, running, spec_for
from tests.nvml_sim import Process, Sim

OOM = Failure(FailureKind.MEMORY, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", "fewer")


def _measured(points: Mapping[int, float]) -> Footprint:
    footprint = Footprint()
    for number, mib in points.items():
        footprint.measure(number, mib)
    return footprint


@pytest.mark.parametrize(
    ("points", "n_envs", "free_mib", "said"),
    [
        # Genesis, go2: 4,096 take 3,578 MiB, 10,000 take 5,833, and 20,000 would take 9,787.
        ({4096: 3578, 10_000: 5833}, 20_000, 8000, "20,000 envs need about 9.4 GiB; about 15,000 fit"),
        ({4096: 3578, 10_000: 5833}, 131_072, 40_000, "131,072 envs need about 50.9 GiB; about 99,000 fit"),
        ({1024: 2000, 2048: 3000}, 4096, 1000, "4,096 envs need about 4.9 GiB; 1000 MiB were free"),
        ({1024: 2000, 2048: 3000}, 4096, 3010, "4,096 envs need about 4.9 GiB; about 2,048 fit"),
        ({4096: 3578}, 20_000, 8000, "20,000 envs do not fit; 4,096 ran with 3.5 GiB"),
        ({4096: 3578, 10_000: 5833}, 20_000, None, "20,000 envs do not fit; 10,000 ran with 5.7 GiB"),
        ({4096: 3578, 10_000: 3578}, 20_000, 8000, "20,000 envs do not fit; 10,000 ran with 3.5 GiB"),
        ({4096: 3578, 10_000: 5833}, 12_000, 80_000, "12,000 envs do not fit; 10,000 ran with 5.7 GiB"),
    ],
    ids=["line", "more free", "none fit", "what ran fits", "one", "free unknown", "flat", "other limit"],
)
def test_what_is_needed_and_what_fits_follow_from_what_ran(
    points: Mapping[int, float], n_envs: int, free_mib: float | None, said: str
) -> None:
    assert _measured(points).explained(OOM, n_envs, free_mib) == OOM._replace(reason=f"out of memory: {said}")


@pytest.mark.parametrize(
    ("points", "failure", "n_envs"),
    [
        ({}, OOM, 4096),
        ({4096: 3578}, OOM, 4096),
        ({4096: 3578, 10_000: 5833}, OOM, None),
        ({4096: 3578, 10_000: 5833}, OOM, 2048),
        ({4096: 3578, 10_000: 5833}, OOM._replace(kind=FailureKind.HOST_MEMORY), 20_000),
    ],
    ids=["nothing known", "it alone", "number unknown", "less than what ran", "the host's"],
)
def test_what_is_not_known_is_not_said(points: Mapping[int, float], failure: Failure, n_envs: int | None) -> None:
    assert _measured(points).explained(failure, n_envs, 8000) == failure


def test_only_the_number_of_environments_may_differ() -> None:
    def run(*args: str, env: Mapping[str, str] | None = None, gpu: str = "H100", **values: object) -> object:
        return run_of("sim.py", args, env or {}, values, gpu)

    assert run("-B", "64", "--seed", "{seed}") == run("-B", "128", "--seed", "{seed}")
    assert run("-B", "{n}", n=64, name="a", job=1) == run("-B", "{n}", n=128, name="b", job=2)
    assert run("env.num_envs=64") == run("env.num_envs=1_024")
    others = [
        run("-B", "64"),
        run("-B", "64", "--cameras"),
        run("-B", "64", env={"GS_ENABLE_NDARRAY": "0"}),
        run("-B", "64", gpu="RTX 4090"),
        run("-B", "{n}", "--substeps", "{s}", n=64, s=2),
        run("-B", "{n}", "--substeps", "{s}", n=64, s=4),
    ]
    assert len(set(others)) == len(others)


def test_the_runs_of_a_long_sweep_are_forgotten_in_order() -> None:
    footprints = Footprints()
    first = footprints.of(("first",))
    for number in range(200):
        footprints.of((number,))
    assert footprints.of(("first",)) is first
    for number in range(300):
        footprints.of((number, "more"))
    assert footprints.of(("first",)) is not first


BASE_MIB = 600.0


def _args(n_envs: int) -> tuple[str, ...]:
    return ("-B", str(n_envs), "--fits", "20000", "--lines", "0", "--rate", "50")


async def _reaches(run: Running, n_envs: int, peak_mib: float) -> None:
    def holds(_: Snapshot) -> bool:
        worker = run.worker("gpu0")
        return worker.n_envs == n_envs and worker.memory_peak_mib == peak_mib

    await run.until(holds)


@pytest.mark.parametrize("named", [True, False], ids=["processes named", "processes not named"])
async def test_after_out_of_memory_the_worker_says_what_fits_by_the_earlier_attempts(sim: Sim, named: bool) -> None:
    del sim.gpus[1:]
    (gpu,) = sim.gpus
    gpu.memory_total_mib, gpu.memory_reserved_mib, gpu.memory_used_mib = 20_600, 0, BASE_MIB
    sim.write()
    async with running(spec_for(*_args(1024), cpu=None, interval_s=0.1), sim.env()) as run:
        for attempt, (n_envs, own_mib, following) in enumerate(((1024, 2000, 2048), (2048, 3000, 65_536)), 1):
            await run.until_attempt("gpu0", attempt)
            worker = await run.until_state("gpu0", WorkerState.RUNNING)
            gpu.memory_used_mib = BASE_MIB + own_mib
            gpu.processes = [Process(worker.pid or 0, memory_mib=own_mib)] if named else []
            sim.write()
            await _reaches(run, n_envs, own_mib if named else gpu.memory_used_mib)
            gpu.memory_used_mib, gpu.processes = BASE_MIB, []
            sim.write()
            await run.client.edit(("gpu0",), _args(following), {})
        failed = await run.until_state("gpu0", WorkerState.FAILED)
        assert failed.reason == "out of memory: 65,536 envs need about 63.5 GiB; about 19,000 fit"
        assert failed.out_of_memory
        await run.client.edit(("gpu0",), _args(4096), {})
        again = await run.until_state("gpu0", WorkerState.RUNNING)
        assert not again.out_of_memory
        details = await run.client.details("gpu0")
        assert [settings.args for settings in details.settings] == [_args(n) for n in (1024, 2048, 65_536, 4096)]
