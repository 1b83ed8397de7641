"""A failed group under torchrun: the rank's own exception is what counts. Texts as torch 2.13 prints them."""

from __future__ import annotations

import pytest

from gmg_tui.genesis.output.failures import FailureKind, explain

_TORCHRUN = """\
W1122 15:18:33.428000 18847 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 18984 closing signal SIGTERM
E1122 15:18:33.554000 18847 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: 1 (pid: 18985) of binary: /usr/bin/python
Traceback (most recent call last):
  File "/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-22_15:18:33
  host      : node
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 18984)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 18984
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_15:18:33
  host      : node
  rank      : 5 (local_rank: 1)
  exitcode  : {code} (pid: 18985)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
_EXCEPTION = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 10, in <module>
    x = model(batch)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB.
"""


def _failure(printed: str, code: int) -> tuple[FailureKind, str]:
    failure = explain(1, (printed + _TORCHRUN.format(code=code)).encode().splitlines())
    return failure.kind, failure.reason


@pytest.mark.parametrize("mark", ["", "[rank5]: ", "[default1]:", "[default1]:[rank5]: "])
def test_the_exception_of_the_rank_that_failed_first_is_the_reason(mark: str) -> None:
    other = "[rank0]: KeyError: 'of another rank'\n" if mark else ""
    printed = "".join(f"{mark}{line}\n" for line in _EXCEPTION.splitlines()) + other
    expected = "rank 5: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB."
    assert _failure(printed, 1) == (FailureKind.MEMORY, expected)


def test_a_killed_rank_is_reported() -> None:
    kind, reason = _failure("rank 5 starts\n", -11)
    assert (kind, reason) == (FailureKind.KILLED, "rank 5: Killed by SIGSEGV (-11): segmentation fault")
