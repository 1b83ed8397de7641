"""What other GPUs run, where one fails."""

from __future__ import annotations

from collections.abc import Mapping

from gmg_tui.engine.gpus.neighbours import Neighbours, run_of
from gmg_tui.genesis.output.failures import Failure, FailureKind

OOM = Failure(FailureKind.MEMORY, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", "fewer")


def test_a_failure_of_one_gpu_alone_is_no_limit_of_the_script() -> None:
    neighbours = Neighbours()
    for number in range(7):
        neighbours.runs(f"GPU-{number}", 8192)
    for n_envs in (8192, 2048):
        assert neighbours.advice(OOM, "GPU-7", n_envs).startswith("only this GPU fails; 7 others run 8,192 envs")
    assert neighbours.advice(OOM, "GPU-7", 16_384) == OOM.advice, "nobody runs that"
    assert neighbours.advice(OOM, "GPU-7", None) == OOM.advice
    other = OOM._replace(kind=FailureKind.SCRIPT)
    assert neighbours.advice(other, "GPU-7", 8192) == other.advice


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
