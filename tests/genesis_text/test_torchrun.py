"""A failed group under torchrun: its rank's exception is what counts. Texts as torch 2.13 prints them."""

from __future__ import annotations

import pytest

from gmg_tui.genesis.output.failures import FailureKind, explain

_TORCHRUN = """\
W1122 15:18:33.428000 18847 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 18984 closing signal SIGTERM
E1122 15:18:33.554000 18847 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: 18985) of binary: /usr/bin/python
Traceback (most recent call last):
  File "/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_15:18:33
  host      : node
  rank      : 5 (local_rank: 1)
  exitcode  : 1 (pid: 18985)
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


@pytest.mark.parametrize("mark", ["", "[rank5]: ", "[default1]:", "[default1]:[rank5]: "])
def test_the_exception_of_a_rank_is_the_reason_and_not_torchruns_own(mark: str) -> None:
    printed = "".join(f"{mark}{line}\n" for line in _EXCEPTION.splitlines())
    failure = explain(1, (printed + _TORCHRUN).encode().splitlines())
    expected = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB."
    assert (failure.kind, failure.reason) == (FailureKind.MEMORY, expected)
