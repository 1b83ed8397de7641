"""`--flight-recorder`: torch records the collectives of a group, and what it dumps is kept and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.ddp.variables import Meeting, variables
from gmg_tui.model import DdpSpec
from gmg_tui.session import RANKS

from .harness import running
from .test_groups import group_of

NAMES = {"TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DUMP_ON_TIMEOUT"}


def test_torch_is_told_where_to_write_unless_the_user_has_said_so() -> None:
    meeting = Meeting(1, 2, 29500, 0, 3, "id", "/s/error.json", traces="/s/ranks/g0-1/trace_")
    found = variables(meeting, {"TORCH_FR_BUFFER_SIZE": "10"})
    assert "TORCH_FR_BUFFER_SIZE" not in found
    assert found["TORCH_FR_DUMP_TEMP_FILE"] == found["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] == "/s/ranks/g0-1/trace_"
    assert (found["TORCH_NCCL_DUMP_ON_TIMEOUT"], found["TORCH_NCCL_TRACE_BUFFER_SIZE"]) == ("1", "2000")
    assert not NAMES & set(variables(meeting._replace(traces=""), {}))


def test_torch_reads_these_names() -> None:
    torch = pytest.importorskip("torch")
    library = (Path(torch.__file__).parent / "lib" / "libtorch_cpu.so").read_bytes()
    header = Path(torch.__file__).parent / "include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
    for name in NAMES:
        assert name.encode() in library or name in header.read_text()


async def test_a_dump_is_named_with_the_command_that_reads_it() -> None:
    spec = group_of("--steps", "40", "--hang", "nccl", cpu=3, ddp=DdpSpec(flight_recorder=True))
    async with running(spec) as run:
        folder = Path(spec.folder, RANKS, "g0-1")
        said = f"read it by torchfrtrace --prefix trace_ {folder}"
        await run.until(lambda _: any(said in text for text in run.worker("cpu2").warnings))
        assert (folder / "trace_2").is_file()
        assert not any("torchfrtrace" in text for text in run.worker("cpu1").warnings)
        await run.client.end(kill=True)
