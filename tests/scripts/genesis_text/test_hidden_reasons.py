"""Reasons behind wrappers and warnings, and exceptions that an exit code of 0 hides."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gmg_tui.scripts.genesis.output.failures import FailureKind, explain, uncaught
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
    assert "fail again" not in failure.advice or kind is K.SCRIPT


def test_a_shell_that_swallows_a_kill_is_looked_through(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        "python3 -c 'import os; os.kill(os.getpid(), 9)'\necho There was an error running python\nexit 1\n"
    )
    done = subprocess.run(["bash", tmp_path / "run.sh"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    failure = explain(done.returncode, done.stdout.splitlines())
    assert (failure.kind, failure.reason) == (K.KILLED, f"exit code 1: a child was killed by SIGKILL: {_KILLED}")


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
    assert (code, uncaught(output.splitlines())) == (0, reason)


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
    assert uncaught(isaac) == uncaught(genesis) == "ValueError: bad joint"
    interrupted = [*traceback[:2], b"KeyboardInterrupt"]
    assert uncaught(interrupted) is uncaught([]) is uncaught([*traceback, b"reward 7"]) is None
