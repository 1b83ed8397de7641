"""Every failure that is recognised: its kind, and the line that names it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.scripts.genesis.output.failures import MAX_LINES, FailureKind, explain
from gmg_tui.scripts.genesis.output.reader import Reader
from tests.scripts.genesis_text.samples import logged

K = FailureKind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("_pickle.UnpicklingError: pickle data was truncated", K.CACHE_RACE),
        ("EOFError: Ran out of input", K.CACHE_RACE),
        ("_pickle.UnpicklingError: invalid load key, '\\x00'.", K.CACHE_RACE),
        ("genesis.GenesisException: Corrupted cache for terrain heightmap: /c/terrain/x.gnd", K.CACHE_RACE),
        ("FileExistsError: [Errno 17] File exists: 'logs/go2'", K.FOLDER_RACE),
        ("OSError: [Errno 39] Directory not empty: 'logs/go2-walking'", K.FOLDER_RACE),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'logs/go2/cfgs.pkl'", K.FOLDER_RACE),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'robot.xml'", K.SCRIPT),
        ("PermissionError: [Errno 13] Permission denied: '/home/a/.cache/genesis'", K.CONFIG),
        ("OSError: [Errno 30] Read-only file system: '/home/me/.cache'", K.CONFIG),
        ("OSError: [Errno 28] No space left on device", K.CONFIG),
        ("ModuleNotFoundError: No module named 'genesis'", K.CONFIG),
        ("ModuleNotFoundError: No module named 'my_robot'", K.SCRIPT),
        ("AttributeError: 'NoneType' object has no attribute 'XRenderFindVisualFormat'", K.CONFIG),
        ('ImportError: Library "GL" not found.', K.CONFIG),
        ("filelock.Timeout: The file lock '/tmp/genesis_usd_bake.lock' could not be acquired.", K.CONFIG),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total", K.MEMORY),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory.", K.MEMORY),
        ("RuntimeError: CUDA out of memory.", K.MEMORY),
        ("RuntimeError: CUDA error: out of memory", K.MEMORY),
        ("RuntimeError: [cuda_driver.h:operator()@92] CUDA Error CUDA_ERROR_OUT_OF_MEMORY: out of memory while", K.MEMORY),
        ("RuntimeError: Out of CUDA pre-allocated memory. Consider using qd.init(device_memory_frac", K.MEMORY),
        ("MemoryError", K.HOST_MEMORY),
        ("RuntimeError: CUDA Error CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encounte", K.DEVICE),
        ("RuntimeError: CUDA error: invalid device ordinal", K.DEVICE),
        ("RuntimeError: CUDA Error CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected", K.DEVICE),
        ("genesis.GenesisException: No Torch GPU device available.", K.DEVICE),
        ("genesis.GenesisException: Torch device 'cuda' not available for backend 'gs.cuda'.", K.DEVICE),
        ("genesis.GenesisException: Backend gs.cuda not available on this machine.", K.DEVICE),
        ("RuntimeError: CUDA Error CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", K.DEVICE),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", K.DEVICE),
        ("torch.AcceleratorError: CUDA error: device-side assert triggered", K.SCRIPT),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", K.CONFIG),
        ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", K.DEVICE),
        ("torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", K.DEVICE),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8", K.MEMORY),
        ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 8.0GiB (8589934592B)", K.MEMORY),
        ("RuntimeError: Failed to allocate 8589934592 bytes on device 'cuda:0'", K.MEMORY),
        ("RuntimeError: Failed to allocate 8589934592 bytes on device 'cpu'", K.HOST_MEMORY),
        ("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes", K.MEMORY),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", K.MEMORY),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2 GiB", K.MEMORY),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes", K.HOST_MEMORY),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", K.HOST_MEMORY),
        ("onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Failed to allocate memory for requested buffer of size 4294967296", K.MEMORY),
        ("RuntimeError: OPTIX_ERROR_DEVICE_OUT_OF_MEMORY: Optix call 'optixAccelBuild(...)' failed", K.MEMORY),
        ("RuntimeError: OPTIX_ERROR_HOST_OUT_OF_MEMORY", K.HOST_MEMORY),
        ("tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__AddV2}} failed to allocate memory [Op:AddV2]", K.MEMORY),
        ("tensorflow.python.framework.errors_impl.InternalError: Failed copying input tensor from CPU:0 to GPU:0 in order to run _EagerConst: Dst tensor is not initialized.", K.MEMORY),
        ("tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[9] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu", K.HOST_MEMORY),
        ("RuntimeError: MPS backend out of memory (MPS allocated: 7.6 GiB, max allowed: 9.0 GiB).", K.MEMORY),
        ("MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/rmm/mr/device/pool_memory_resource.hpp:196: Maximum pool size exceeded", K.MEMORY),
        ("MemoryError: cuMemAlloc failed: out of memory", K.MEMORY),
        ("numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY", K.MEMORY),
        ("jaxlib.xla_extension.XlaRuntimeError: INTERNAL: RET_CHECK failure: CUDNN_STATUS_ALLOC_FAILED", K.MEMORY),
        ("RuntimeError: CUFFT_ALLOC_FAILED", K.MEMORY),
        ("RuntimeError: vk::Device::allocateMemoryUnique: ErrorOutOfDeviceMemory", K.MEMORY),
        ("RuntimeError: vk::createInstanceUnique: ErrorOutOfHostMemory", K.HOST_MEMORY),
        ("RuntimeError: jit_malloc(): out of memory! Could not allocate 268435456 bytes of device memory.", K.MEMORY),
        ("ImportError: jit_malloc(): out of memory! Could not allocate 512 bytes of host-pinned memory.", K.HOST_MEMORY),
        ("RuntimeError: HIP error: hipErrorOutOfMemory", K.MEMORY),
        ("RuntimeError: the layout of GPU memory is not contiguous", K.SCRIPT),
        ("RuntimeError: DataLoader: out of shared memory", K.SCRIPT),
        ("RuntimeError: Attempting to deserialize object on device 'cpu'", K.SCRIPT),
        ("torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970", K.NCCL),
        ("ValueError: Device 'cuda:0' does not match expected device for local rank '1'.", K.NCCL),
        ("genesis.GenesisException: EGL is required to create an offscreen OpenGL context, and it", K.EGL),
        ("AttributeError: 'NoneType' object has no attribute 'eglQueryString'", K.EGL),
        ("EGLError: No EGL context could not be initialized for EGL_DEVICE_ID='3'.", K.EGL),
        ("ValueError: Invalid device ID (3) with 1 devices", K.EGL),
        ("OpenGL.raw.EGL._errors.EGLError: GLError(err = 12289)", K.EGL),
        ("genesis.GenesisException: No display detected. Use `show_viewer=False` for headless mode.", K.EGL),
        ("genesis.GenesisException: Genesis already initialized.", K.SCRIPT),
        ("genesis.GenesisException: Invalid constraint forces causing 'nan'. Please decrease Rigid", K.SCRIPT),
        ("AssertionError", K.SCRIPT),
        ("KeyError: 'joint'", K.SCRIPT),
    ],
)  # fmt: skip
def test_an_exception_is_the_reason_and_determines_the_kind(text: str, kind: FailureKind) -> None:
    output = f'Traceback (most recent call last):\n  File "sim.py", line 3, in <module>\n    main()\n{text}\n\n'
    name, _, message = text.partition(": ")
    short = name.rpartition(".")[2]
    with_genesis = output.encode() + logged(f"{short}: {message}", "ERROR") + logged("💤 Exiting Genesis and caching")
    for shown in (output.encode(), with_genesis):
        reader = Reader(gpu_slot=True)
        reader.feed(shown, 1.0)
        failure = reader.failure(1)
        assert (failure.kind, failure.reason) == (kind, text)
        assert failure.advice


@pytest.mark.parametrize(
    ("output", "code", "kind", "reason"),
    [
        (b"", 3, K.UNKNOWN, "exit code 3"),
        (b"step 1\n", 3, K.UNKNOWN, "exit code 3"),
        (b"step 1\nno robot called panda\n", 1, K.UNKNOWN, "exit code 1: no robot called panda"),
        (b"", 137, K.KILLED, "exit code 137: a child was killed by SIGKILL: the host may have run out of memory"),
        (b"", 255, K.UNKNOWN, "exit code 255"),
        (b"", -9, K.KILLED, "Killed by SIGKILL (-9): the host may have run out of memory"),
        (b"Fatal Python error: Segmentation fault\n", -11, K.KILLED, "Killed by SIGSEGV (-11): segmentation fault"),
        (b"", -2, K.KILLED, "Killed by SIGINT (-2): interrupted"),
        (b"", -70, K.KILLED, "Killed by signal 70 (-70)"),
        (b"terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: out of memory\n", -6, K.MEMORY, "Killed by SIGABRT (-6): CUDA error: out of memory"),
        (
            b"[E 11/21/26 06:55:54.676 8640] [cuda_driver.h:operator()@92] CUDA Error CUDA_ERROR_OUT_OF_MEMORY: out of "
            b"memory while calling malloc (cuMemAlloc_v2)\n", 1, K.MEMORY,
            "[cuda_driver.h:operator()@92] CUDA Error CUDA_ERROR_OUT_OF_MEMORY: out of memory while calling malloc "
            "(cuMemAlloc_v2)",
        ),
        (b"usage: sim.py [-h]\nsim.py: error: unrecognized arguments: --x\n", 2, K.SCRIPT, None),
        (b"python: can't open file '/x/sim.py': [Errno 2] No such file or directory\n", 2, K.SCRIPT, None),
        (b"/usr/bin/python: No module named genesis\n", 1, K.CONFIG, None),
        (b"  File \"sim.py\", line 1\n    foo(\n       ^\nSyntaxError: '(' was never closed\n", 1, K.SCRIPT, None),
    ],
)  # fmt: skip
def test_failures_without_an_exception(output: bytes, code: int, kind: FailureKind, reason: str | None) -> None:
    failure = explain(code, output.splitlines())
    assert failure.kind is kind
    assert failure.reason == (output.decode().splitlines()[-1] if reason is None else reason)


@pytest.mark.parametrize(
    ("text", "suspect"),
    [
        ("torch.AcceleratorError: CUDA error: device-side assert triggered", False),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", False),
        ("torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", False),
        ("RuntimeError: CUDA error: invalid device ordinal", False),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", True),
        ("RuntimeError: CUDA error: unspecified launch failure", True),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", True),
    ],
)
def test_only_errors_that_a_broken_gpu_causes_make_it_suspect(text: str, suspect: bool) -> None:
    failure = explain(1, [b"Traceback (most recent call last):", b"  File 'x'", text.encode()])
    assert failure.suspect is suspect
    assert suspect or "Xid" not in failure.advice


CHAIN = """
import torch_like

def inner():
    raise MemoryError("CUDA out of memory. Tried to allocate 2 GiB")

class StepFailed(Exception):
    pass

try:
    inner()
except MemoryError as error:
    raise StepFailed("step 7 failed\\nin: panda.xml\\nsee: the manual") from error
"""


def run(tmp_path: Path, program: str) -> tuple[int, bytes]:
    script = tmp_path / "script.py"
    script.write_text(program)
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ)
    return done.returncode, done.stdout


def test_the_last_exception_of_a_chain_is_the_reason_and_the_first_may_determine_the_kind(tmp_path: Path) -> None:
    code, output = run(tmp_path, CHAIN.replace("import torch_like\n", ""))
    failure = explain(code, output.splitlines())
    assert failure.reason == "StepFailed: step 7 failed, after MemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    assert failure.kind is K.MEMORY


def test_real_crashes_of_python_are_summarised_in_one_line(tmp_path: Path) -> None:
    for program, reason in (
        ("import torch_like_that_is_not_there", "ModuleNotFoundError: No module named 'torch_like_that_is_not_there'"),
        ("import sys; sys.exit('no robot')", "exit code 1: no robot"),
        ("raise RuntimeError('\\nsecond line')", "RuntimeError: second line"),
        ("assert False", "AssertionError"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("import os; os.abort()", "Killed by SIGABRT (-6): aborted"),
    ):
        code, output = run(tmp_path, program)
        assert explain(code, output.splitlines()).reason == reason


def test_notes_on_missing_gpus_do_not_explain_a_later_error() -> None:
    output = (
        logged("Backend gs.gpu not available on this machine. Falling back to CPU.", "WARNING")
        + b"libEGL warning: egl: failed to create dri2 screen\n"
        + b"Traceback (most recent call last):\n  File 'x'\nKeyError: 'joint'\n"
    )
    assert explain(1, output.splitlines()).kind is K.SCRIPT


def test_highlighting_marks_of_genesis_are_removed_from_reasons() -> None:
    output = (
        b"Traceback (most recent call last):\n  File 'x'\n"
        b"genesis.GenesisException: Backend ~<gs.cuda>~ not available on this machine.\n\n"
    ) + logged("GenesisException: Backend gs.cuda not available on this machine.", "ERROR")
    failure = explain(1, output.splitlines())
    assert failure.reason == "genesis.GenesisException: Backend gs.cuda not available on this machine."
    assert failure.kind is K.DEVICE


def test_a_reason_far_before_the_end_is_not_used() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(b"ValueError: caught long ago\n" + b"step\n" * MAX_LINES, 1.0)
    assert reader.failure(3).reason == "exit code 3"


@pytest.mark.parametrize(
    "earlier",
    [
        b"loading the replay buffer failed (EOFError: Ran out of input), starting with an empty one",
        b"[W 11/22/26 07:00:00.000 81] [cuda_driver.cpp:CUDADriver@42] libcuda.so lib not found.",
        b"wandb: Network error (ConnectionError), retry: Connection reset by peer",
    ],
)
def test_a_handled_failure_does_not_explain_a_later_one(earlier: bytes) -> None:
    end = [b"Traceback (most recent call last):", b'  File "sim.py", line 3, in <module>', b"ValueError: bad joint"]
    failure = explain(1, [earlier, *end])
    assert (failure.kind, failure.reason) == (K.SCRIPT, "ValueError: bad joint")


def test_a_survived_exception_is_not_the_cause_of_an_assertion() -> None:
    survived = [b"Traceback (most recent call last):", b'  File "x"', b"KeyError: 'video'"]
    lines = [*survived, b"no video", *survived[:2], b"AssertionError"]
    assert explain(1, lines).reason == "AssertionError"


def test_earlier_lines_explain_a_failure_without_a_message() -> None:
    lines = [b"EOFError: Ran out of input", b"Traceback (most recent call last):", b'  File "x"', b"RuntimeError"]
    assert explain(1, lines).kind is K.CACHE_RACE
    assert explain(3, lines[:1]).kind is K.CACHE_RACE


def test_reported_figures_are_not_the_reason_of_a_failure() -> None:
    assert (
        explain(1, [b"no joint is called j7", b'gmg:result {"loss": 0.1}']).reason
        == "exit code 1: no joint is called j7"
    )
    assert explain(1, [b'gmg:result {"loss": 0.1}']).reason == "exit code 1"


def test_an_array_that_does_not_fit_the_host_is_named() -> None:
    text = b"numpy._core._exceptions._ArrayMemoryError: Unable to allocate 72.8 TiB for an array"
    failure = explain(1, [b"Traceback (most recent call last):", b'  File "x"', text])
    assert (failure.kind, failure.reason) == (K.HOST_MEMORY, text.decode())


GROUP = """
import asyncio

async def fail():
    raise MemoryError("CUDA out of memory\\nsecond line")

async def nest():
    async with asyncio.TaskGroup() as group:
        group.create_task(fail())

async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(nest())

asyncio.run(main())
"""


def test_the_first_innermost_exception_of_a_group_is_the_reason(tmp_path: Path) -> None:
    code, output = run(tmp_path, GROUP)
    failure = explain(code, output.splitlines())
    assert (failure.kind, failure.reason) == (K.MEMORY, "MemoryError: CUDA out of memory")


# The failures of ranks, from output of torch, NCCL and rsl_rl: their kinds and the advice
