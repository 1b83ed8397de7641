"""Reasons behind wrappers and warnings, and exceptions that an exit code of 0 hides."""

import subprocess
from pathlib import Path

import pytest

from gmg_tui.scripts.genesis.output.failures import FailureKind, explain, uncaught_exception
from tests.scripts.genesis_text.samples import logged
from tests.scripts.genesis_text.test_failures import run

K = FailureKind

_KILLED = "the host may have run out of memory"


@pytest.mark.parametrize(
    ("output", "code", "kind", "part"),
    [
        (b"python.sh: line 7: 26818 Killed                  $python_exe \"$@\" $args\nThere was an error running python\n", 1, K.KILLED, _KILLED),
        (b"run.sh: line 2: 31 Segmentation fault      (core dumped) python sim.py\n", 1, K.KILLED, "SIGSEGV"),
        (b"[1]    26818 killed     python sim.py\nmake: *** [Makefile:3: run] Error 1\n", 2, K.KILLED, _KILLED),
        (b"Killed\nmake: *** [Makefile:3: run] Error 137\n", 2, K.KILLED, _KILLED),
        (
            b"torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL\n",
            1, K.KILLED, "process 0 terminated with signal SIGKILL",
        ),
        (b"RuntimeError: DataLoader worker (pid 4821) is killed by signal: Killed. \n", 1, K.KILLED, "DataLoader worker (pid 4821)"),
        (
            b"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
            b"RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers"
            b" are out of shared memory. Please try to raise your shared memory limit.\n",
            1, K.KILLED, "Bus error",
        ),
        (
            b"subprocess.CalledProcessError: Command '['python', 'a.py']' died with <Signals.SIGKILL: 9>.\n",
            1, K.KILLED, "died with",
        ),
        (
            b"slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n"
            b"srun: error: node1: task 0: Out Of Memory\n",
            1, K.HOST_MEMORY, "oom_kill event",
        ),
        (
            b"[2026-11-27 13:11:27,879] [INFO] [launch.py:428:sigkill_handler] Killing subprocess 13266\n"
            b"[2026-11-27 13:11:27,885] [ERROR] [launch.py:434:sigkill_handler] ['python', 'a.py'] exits with return code = -9\n",
            1, K.KILLED, _KILLED,
        ),
        (b"./run.sh:3: killed     python sim.py\n", 1, K.KILLED, _KILLED),
        (b"zsh: segmentation fault (core dumped)  python sim.py\n", 1, K.KILLED, "SIGSEGV"),
        (b"./run.sh:3: abort (core dumped)  python sim.py\n", 1, K.KILLED, "SIGABRT"),
        (b"make: *** [Makefile:3: run] Killed\n", 2, K.KILLED, _KILLED),
        (b"make: *** [Makefile:3: run] Error 139\n", 2, K.KILLED, "SIGSEGV"),
        (b"Training task exit with status code 137\n", 1, K.KILLED, _KILLED),
        (b"exit status 137\n", 1, K.KILLED, _KILLED),
        (b"child ended: <Process name='Process-1' pid=7 parent=6 stopped exitcode=-SIGKILL>\n", 1, K.KILLED, _KILLED),
        (b"worker 3 ended with exitcode=-9\n", 1, K.KILLED, _KILLED),
        (b"E1127 20:57:27.62 2606 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 5\n", 1, K.KILLED, _KILLED),
        (b"  exitcode  : -9 (pid: 14750)\n", 1, K.KILLED, _KILLED),
        (b"=   EXIT CODE: 9\n", 9, K.KILLED, _KILLED),
        (b"npm ERR! signal SIGKILL\n", 1, K.KILLED, _KILLED),
        (b"sim.service: Main process exited, code=killed, status=9/KILL\n", 1, K.KILLED, _KILLED),
        (b"", 247, K.KILLED, _KILLED),
        (
            b"F0000 a.cc:9] Check failed: RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB\nFatal Python error: Aborted\n",
            -6, K.MEMORY, "RESOURCE_EXHAUSTED",
        ),
        (b"", 254, K.UNKNOWN, "exit code 254"),
        (
            b"ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
            b"The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n",
            1, K.KILLED, "ActorDiedError",
        ),
        (
            b"2026-11-27 16:25:36.594950: W tensorflow/core/common_runtime/bfc_allocator.cc:243] Allocator (GPU_0_bfc) ran out of"
            b" memory trying to allocate 1.25GiB. The caller indicates that this is not a failure, but may mean\nno robot called panda\n",
            1, K.UNKNOWN, "exit code 1: no robot called panda",
        ),
        (
            b"RuntimeError: CUDA out of memory.\nsubprocess.CalledProcessError: Command '['a']' returned non-zero exit status 1.\n",
            1, K.MEMORY, "after RuntimeError: CUDA out of memory",
        ),
        (
            b"no robot called panda\n/usr/lib/python3.10/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: "
            b"There appear to be 6 leaked semaphore objects to clean up at shutdown\n"
            b"  warnings.warn('resource_tracker: There appear to be %d '\n",
            1, K.UNKNOWN, "exit code 1: no robot called panda",
        ),
        (
            b"Traceback (most recent call last):\n  File \"x\"\nKeyError: 'joint'\nException ignored in: <function Viewer.__del__ at 0x7f>\n"
            b"Traceback (most recent call last):\n  File \"v\"\nTypeError: 'NoneType' object is not callable\n",
            1, K.SCRIPT, "KeyError: 'joint'",
        ),
    ],
)  # fmt: skip
def test_the_reason_is_found_behind_wrappers_and_warnings(
    output: bytes, code: int, kind: FailureKind, part: str
) -> None:
    failure = explain(code, output.splitlines())
    assert failure.kind is kind
    assert part in failure.reason
    assert "fail the same way again" not in failure.advice or kind is K.SCRIPT


def test_a_kill_is_found_behind_a_shell(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        "python3 -c 'import os; os.kill(os.getpid(), 9)'\necho There was an error running python\nexit 1\n"
    )
    done = subprocess.run(["bash", tmp_path / "run.sh"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    failure = explain(done.returncode, done.stdout.splitlines())
    assert (failure.kind, failure.reason) == (K.KILLED, f"exit code 1: a child was killed by SIGKILL: {_KILLED}")


@pytest.mark.parametrize(
    ("program", "kind", "part"),
    [
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'raise KeyError(7)'], check=True)", K.SCRIPT, "after KeyError: 7"),
        (
            "import multiprocessing as m, os\nhere, there = m.Pipe()\nif (pid := os.fork()) == 0: os._exit(1)\n"
            "there.close(); here.recv()",
            K.KILLED, "EOFError",
        ),
        (
            "import concurrent.futures, os\nwith concurrent.futures.ProcessPoolExecutor(1) as pool:\n    pool.submit(os._exit, 1).result()",
            K.KILLED, "BrokenProcessPool: A process in the process pool was terminated abruptly",
        ),
        ("import subprocess, sys\nsubprocess.run(['bash', '-c', 'kill -9 $$ & wait'], check=True)", K.KILLED, "died with <Signals.SIGKILL: 9>"),
        (
            "import subprocess, sys\nsubprocess.run(['sh', '-c', 'sh -c \"kill -9 \\$\\$\"; exit $?'], check=True)",
            K.KILLED, "returned non-zero exit status 137",
        ),
        (
            "import multiprocessing as m, os, sys\n"
            "child = m.Process(target=os.abort)\nchild.start(); child.join(); print(child); sys.exit(1)",
            K.KILLED, "SIGABRT",
        ),
        ("import os, sys, subprocess\nsys.exit(subprocess.call(['sh', '-c', 'kill -9 $$']))", K.KILLED, "SIGKILL"),
    ],
)  # fmt: skip
def test_children_that_python_reports_as_killed(tmp_path: Path, program: str, kind: FailureKind, part: str) -> None:
    code, output = run(tmp_path, program)
    failure = explain(code, output.splitlines())
    assert (failure.kind, part in failure.reason) == (kind, True)
    assert code > 0


_RICH = """\
import io, os, sys
from rich.console import Console
class Empty(Exception): pass
Empty.__module__ = "queue"
try:
    try:
        {}["joint"]
    except KeyError as error:
        raise Empty("no state of the robot came from the simulator within the 30 seconds it is given for that") from error
except Empty:
    Console(file=io.TextIOWrapper(sys.stderr.buffer, ENCODING, "replace"), width=80).print_exception(show_locals=True)
sys.stderr.flush()
"""


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_tracebacks_in_rich_boxes_are_read(tmp_path: Path, encoding: str) -> None:
    reason = "Empty: no state of the robot came from the simulator within the 30 seconds it is given for that"
    program = _RICH.replace("ENCODING", repr(encoding))
    code, output = run(tmp_path, program + "os._exit(0)")
    assert (code, uncaught_exception(output.splitlines())) == (0, reason)
    assert uncaught_exception([*output.splitlines(), b"reward 7"]) is None
    code, output = run(tmp_path, program + "os._exit(1)")
    assert explain(code, output.splitlines()).reason == reason


def test_tracebacks_of_loguru_are_read() -> None:
    output = """\
2026-11-27 10:00:00.000 | ERROR    | __main__:<module>:9 - An error has been caught in function '<module>':
Traceback (most recent call last):

> File "/tmp/x.py", line 9, in <module>
    main()
    └ <function main at 0x7f>

  File "/tmp/x.py", line 6, in main
    raise Empty("bad joint")

queue.Empty: bad joint
"""
    lines = [line for line in output.encode().splitlines() if line]
    assert uncaught_exception(lines) == explain(1, lines).reason == "queue.Empty: bad joint"


_UNCAUGHT = (
    "import os, sys, traceback\ntry:\n    raise KeyError('joint')\nexcept KeyError:\n    traceback.print_exc()\n"
)


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ("os._exit(0)", "KeyError: 'joint'"),
        ("print('[12.3s] Simulation App Shutting Down', flush=True); os._exit(0)", "KeyError: 'joint'"),
        ("print('wandb: Synced 5 files'); sys.exit(0)", "KeyError: 'joint'"),
        ("print('skipped one'); print('saved policy.pt')", None),
        ("os.write(1, b'step 2\\n')", None),
    ],
)
def test_a_traceback_at_the_end_is_uncaught(tmp_path: Path, after: str, reason: str | None) -> None:
    code, output = run(tmp_path, _UNCAUGHT + after)
    assert (code, uncaught_exception(output.splitlines())) == (0, reason)


def test_uncaught_exceptions_of_isaac_and_genesis_are_recognised() -> None:
    traceback = [b"Traceback (most recent call last):", b'  File "sim.py", line 3', b"ValueError: bad joint"]
    isaac = [
        b"2026-11-27 10:00:00 [16,337ms] [Error] [__main__] " + traceback[0],
        *traceback[1:],
        b"2026-11-27 [Info] [carb] bye",
    ]
    genesis = [
        *traceback,
        *(logged("ValueError: bad joint", "ERROR") + logged("💤 Exiting Genesis and caching")).splitlines(),
    ]
    assert uncaught_exception(isaac) == uncaught_exception(genesis) == "ValueError: bad joint"
    interrupted = [*traceback[:2], b"KeyboardInterrupt"]
    assert (
        uncaught_exception(interrupted)
        is uncaught_exception([])
        is uncaught_exception([*traceback, b"reward 7"])
        is None
    )
