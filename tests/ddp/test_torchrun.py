"""What is read of a user's torchrun: its command line, whose lines are whose, and its report."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gmg_tui.ddp import torchrun
from gmg_tui.engine.attempts.attempt import TorchrunOutput
from gmg_tui.genesis.output.reader import Reader
from tests.harm.patience import wait_until


@pytest.mark.parametrize(
    ("script", "module", "expected"),
    [
        ("torch.distributed.run", True, True),
        ("/opt/venv/bin/torchrun", False, True),
        ("train.py", False, False),
        ("torchrun", True, False),
    ],
)
def test_torchrun_is_recognised_by_its_command_line(script: str, module: bool, expected: bool) -> None:
    assert torchrun.starts(script, module=module) is expected


def test_prefixed_lines_belong_to_their_rank() -> None:
    block = b"a\n[default0]:b\n[rank1]: c\n[default1]:[rank1]: d\n[rankx]: e\n[default2]:\n"
    assert list(torchrun.parted(block)) == [
        (None, b"a\n"),
        (0, b"b\n"),
        (1, b"c\n"),
        (1, b"d\n"),
        (None, b"[rankx]: e\n"),
        (2, b"\n"),
    ]


def _output() -> tuple[TorchrunOutput, Reader]:
    reader = Reader(gpu_slot=False, started=0.0, rank=True)
    return TorchrunOutput(reader, lambda: Reader(gpu_slot=False, started=0.0, rank=True)), reader


def _rates(rank: int, fps: float) -> bytes:
    return b"[default%d]:Running at %.2f FPS (10.00 FPS per env, 100 envs).\n" % (rank, fps)


def test_rates_of_prefixed_ranks_are_summed() -> None:
    output, reader = _output()
    for second in range(1, 4):
        output.feed(_rates(1, 300.0) + _rates(0, 100.0), float(second))
    assert output.fps is not None
    assert output.fps.last == 400.0
    assert reader.n_envs == 100


def test_lines_without_a_rank_are_parsed_as_usual() -> None:
    output, reader = _output()
    output.feed(b"Running at 100.00 FPS (1.00 FPS per env, 100 envs).\n", 1.0)
    assert output.fps == reader.fps
    assert reader.fps is not None


def test_the_ranks_are_found_by_their_environment() -> None:
    sleeps = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    environs = [{**os.environ, "RANK": "0"}, {**os.environ, "RANK": "1"}, {**os.environ, "RANK": ""}]
    running = [subprocess.Popen(sleeps, env=environ, stdout=subprocess.PIPE) for environ in environs]
    try:
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        pids = [process.pid for process in running]
        assert torchrun.ranks_of([*pids, 1 << 30]) == {0: pids[0], 1: pids[1]}
    finally:
        for process in running:
            process.kill()
            process.communicate()
    wait_until(lambda: torchrun.ranks_of(pids) == {})
