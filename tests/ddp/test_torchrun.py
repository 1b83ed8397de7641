"""What is read of a user's torchrun: its command line, whose lines are whose, and its report."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gmg_tui.ddp import torchrun
from gmg_tui.engine.workers.torchrun_output import TorchrunOutput
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.genesis.output.reader import Reader
from tests.harm.patience import wait_until

REPORT = b"""\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-23_03:08:36
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 27304)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 27304
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_03:08:36
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : %d (pid: 27305)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
"""As torch 2.13 prints it."""
DIED = b"""\
[default1]:[rank1]: Traceback (most recent call last):
[default1]:[rank1]:   File "train.py", line 10, in <module>
[default1]:[rank1]:     raise ValueError("bad luck")
[default1]:[rank1]: ValueError: bad luck
"""


@pytest.mark.parametrize(
    ("script", "module", "expected"),
    [
        ("torch.distributed.run", True, True),
        ("torch.distributed.launch", True, True),
        ("torchrun", False, True),
        ("/opt/venv/bin/torchrun", False, True),
        ("train.py", False, False),
        ("torchrun.py", False, False),
        ("torchrun", True, False),
    ],
)
def test_a_torchrun_is_known_by_its_command_line(script: str, module: bool, expected: bool) -> None:
    assert torchrun.starts(script, module=module) is expected


def test_lines_are_those_of_the_rank_that_stands_before_them() -> None:
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


def test_the_rates_of_ranks_that_are_told_apart_are_added_up() -> None:
    output, reader = _output()
    for second in range(1, 4):
        output.feed(_rates(1, 300.0) + _rates(0, 100.0), float(second))
    assert output.fps is not None
    assert output.fps.last == 400.0
    assert reader.n_envs == 100


def test_lines_without_a_rank_are_read_as_anywhere() -> None:
    output, reader = _output()
    output.feed(b"Running at 100.00 FPS (1.00 FPS per env, 100 envs).\n", 1.0)
    assert output.fps == reader.fps
    assert reader.fps is not None


def test_the_reason_is_that_of_the_rank_that_failed_first() -> None:
    output, reader = _output()
    output.feed(DIED, 1.0)
    for line in (REPORT % 1).splitlines(keepends=True):  # as it comes, line by line
        output.feed(line, 2.0)
    assert output.explained(reader.failure(1)).reason == "rank 1: ValueError: bad luck"


def test_a_rank_that_was_killed_has_said_nothing() -> None:
    output, reader = _output()
    output.feed(REPORT % -9, 2.0)
    assert output.explained(reader.failure(1)).reason.startswith("rank 1: Killed by SIGKILL")


def test_without_a_report_the_failure_is_what_it_was() -> None:
    output, _ = _output()
    failure = Failure(FailureKind.UNKNOWN, "exit code 1", "")
    assert output.explained(failure) is failure


def test_the_ranks_are_found_by_their_environment() -> None:
    sleeps = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    environs = [{**os.environ, "RANK": "0"}, {**os.environ, "RANK": "1"}, {**os.environ, "RANK": ""}]
    running = [subprocess.Popen(sleeps, env=environ, stdout=subprocess.PIPE) for environ in environs]
    try:
        for one in running:
            assert one.stdout is not None
            one.stdout.readline()
        pids = [one.pid for one in running]
        assert torchrun.ranks_of([*pids, 1 << 30]) == {0: pids[0], 1: pids[1]}
    finally:
        for one in running:
            one.kill()
            one.communicate()
    wait_until(lambda: torchrun.ranks_of(pids) == {})
