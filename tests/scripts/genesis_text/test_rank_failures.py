"""Failures of ranks, as torch's process groups and torchrun print them."""

from datetime import timedelta

import pytest

from gmg_tui.scripts.genesis.output.failures import FailureKind, explain, uncaught_exception

K = FailureKind


_HEAD = "[rank0]:[E1122 20:32:23.957506340 ProcessGroupNCCL.cpp:"
_TRACE = (
    b"frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x80 (0x7f in /venv/lib/torch/lib/libc10.so)\n"
)


def _abort(what: str) -> bytes:
    """Returns the last lines of a process whose watchdog thread threw `what`."""
    thrown = f"[PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated with exception: {what}"
    return (
        f"{_HEAD}681] [Rank 0] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels,"
        " subsequent GPU operations might run on corrupted/incomplete data.\n"
        f"{_HEAD}695] [Rank 0] To avoid data inconsistency, we are taking the entire process down.\n"
        f"{_HEAD}1898] {thrown}\n"
    ).encode() + (
        _TRACE
        + f"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  {thrown}\n".encode()
        + _TRACE
    )


_TIMEOUT = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=79, OpType=BROADCAST, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600081 milliseconds before timing out."
)
_STATUS = (
    "[PG ID 0 PG GUID 0(default_pg) Rank 0] failure detected by watchdog at work sequence id: 79 PG status: "
    "last enqueued work: 80, last completed work: 78"
)
_NCCL = (
    b"torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:93, %b, "
    b"NCCL version 2.27.5\n"
)


@pytest.mark.parametrize(
    ("output", "code", "kind", "reason", "advice"),
    [
        (
            f"{_HEAD}757] {_TIMEOUT}\n".encode() + _abort(_TIMEOUT),
            -6, K.NCCL, "Killed by SIGABRT (-6): BROADCAST #79 did not end within 600 s", "another rank did not join",
        ),
        (
            f"{_HEAD}757] {_TIMEOUT}\n{_HEAD}2021] {_STATUS}\n".encode() + _abort(_TIMEOUT),
            -6, K.NCCL, "Killed by SIGABRT (-6): BROADCAST #79 did not end within 600 s, and this rank's last is #80", "another rank did not join",
        ),
        (
            f"torch.distributed.DistBackendError: {_TIMEOUT}\n".encode(),
            1, K.NCCL, "BROADCAST #79 did not end within 600 s", "another rank did not join",
        ),
        (
            f"{_HEAD}1745] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n".encode(),
            -6, K.NCCL, "Killed by SIGABRT (-6): NCCL's watchdog was stuck for 480 s", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        ),
        (_abort("CUDA error: an illegal memory access was encountered"), -6, K.NCCL, None, "NCCL_SHM_DISABLE=1"),
        (
            _NCCL
            % b"unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
            + b"ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
            b"Cuda failure 700 'an illegal memory access was encountered'\n", 1, K.NCCL, None, "NCCL_SHM_DISABLE=1",
        ),
        (
            _NCCL % b"unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
            + b"ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'\n",
            1, K.MEMORY, None, "fewer environments",
        ),
        (
            _NCCL
            % b"invalid usage (run with NCCL_DEBUG=WARN for details)"
            + b"ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
            b"Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 98000\n", 1, K.NCCL, None, "--virtual-local-rank",
        ),
        (
            _NCCL % b"remote process exited or there was a network error"
            + b"ncclRemoteError: A call failed possibly\n",
            1, K.NCCL, None, "NCCL_DEBUG=WARN",
        ),
        (b"ValueError: Device 'cuda:0' does not match expected device for local rank '1'.\n", 1, K.NCCL, None, "with --virtual-local-rank each rank"),
        (b"ValueError: Device 'cuda:1' does not match expected device for local rank '0'.\n", 1, K.NCCL, None, "run it without --virtual-local-rank"),
        (b"ValueError: Device 'cpu' does not match expected device for local rank '1'.\n", 1, K.NCCL, None, "rsl_rl supports ranks on GPUs only"),
        (b"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.\n", 1, K.PEER, "only 3 of 4 ranks joined the group's store within 601 s", "never called init_process_group"),
        (
            b"RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv"
            b" operation to complete\n", 1, K.PEER, None, "did not join that collective",
        ),
        (
            b"Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f12 (most recent call first):\n"
            b'  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed\n'
            b'  File "/venv/lib/python3.11/site-packages/triton/runtime/autotuner.py", line 9 in <module>\n'
            b'  File "/venv/lib/python3.11/site-packages/torch/_dynamo/utils.py", line 80 in <module>\n'
            b'  File "/venv/lib/python3.11/site-packages/torch/nn/parallel/distributed.py", line 660 in __init__\n'
            b'  File "train.py", line 40 in <module>\n\nExtension modules: numpy, torch._C (total: 2)\n',
            -11, K.SCRIPT, "Killed by SIGSEGV (-11): triton's LLVM was loaded after Genesis' own", "import torch._dynamo before genesis",
        ),
    ],
)  # fmt: skip
def test_a_failure_of_a_rank(output: bytes, code: int, kind: FailureKind, reason: str | None, advice: str) -> None:
    failure = explain(code, output.splitlines())
    assert failure.kind is kind
    assert reason is None or failure.reason == reason
    assert advice in failure.advice


@pytest.mark.parametrize(
    ("server", "advice"), [(True, "init_process_group"), (False, "rank 0 has not opened its store")]
)
def test_torch_errors_of_a_failed_rendezvous(server: bool, advice: str) -> None:
    distributed = pytest.importorskip("torch.distributed")
    with pytest.raises(distributed.DistError) as raised:
        distributed.TCPStore("127.0.0.1", 0 if server else 1, 2, server, timeout=timedelta(seconds=1))
    line = f"torch.distributed.{type(raised.value).__name__}: {raised.value}"
    failure = explain(1, [line.encode()])
    assert failure.kind is K.PEER
    assert advice in failure.advice


# A failed group under torchrun, of which the rank's exception counts, as torch 2.13 prints it

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


def test_exceptions_with_torchs_rank_prefix_are_read() -> None:
    lines = [
        f"[rank5]: {line}".encode() for line in _EXCEPTION.replace("torch.OutOfMemoryError", "queue.Full").splitlines()
    ]
    lines.append(
        b"[rank5]:[W1127 20:00:00.1 ProcessGroupNCCL.cpp:1250] Warning: destroy_process_group() was not called"
    )
    reason = "queue.Full: CUDA out of memory. Tried to allocate 1.95 GiB."
    assert (explain(1, lines).reason, uncaught_exception(lines)) == (reason, reason)


@pytest.mark.parametrize("mark", ["", "[rank5]: ", "[default1]:", "[default1]:[rank5]: "])
def test_the_exception_of_a_rank_is_the_reason_instead_of_torchruns(mark: str) -> None:
    printed = "".join(f"{mark}{line}\n" for line in _EXCEPTION.splitlines())
    failure = explain(1, (printed + _TORCHRUN).encode().splitlines())
    expected = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB."
    assert (failure.kind, failure.reason) == (FailureKind.MEMORY, expected)
