"""The stand-in behaves as Genesis does: what the reader makes of its real output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gmg_tui.genesis.output import lines
from gmg_tui.genesis.output.failures import FailureKind
from gmg_tui.genesis.output.reader import Reader
from gmg_tui.model import Phase, WorkerState

SCRIPT = Path(__file__).parents[1] / "fake_worker.py"


def run(*options: str, **environ: str) -> tuple[int, bytes, Reader]:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--phase-s", "0", "--rate", "5000", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environ},
        timeout=60,
    )
    reader = Reader(gpu_slot=True)
    reader.feed(done.stdout, 1.0)
    return done.returncode, done.stdout, reader


@pytest.mark.parametrize(("version", "first"), [("0.2.1", 20.0), ("0.4.5", 1.0), ("1.4.5", 0.01)])
def test_it_runs_and_prints_as_each_version_does(version: str, first: float) -> None:
    code, output, reader = run("--version", version, "--lines", "12", "--fps", "128000", "-B", "64")
    assert (code, reader.phase, reader.state) == (0, Phase.SAVING, WorkerState.RUNNING)
    assert list(reader.phase_times) == [
        Phase.IMPORTING,
        Phase.INITIALISING,
        Phase.CREATING,
        Phase.BUILDING,
        Phase.COMPILING,
    ]
    assert (reader.genesis.device, reader.genesis.backend, reader.genesis.version) == (
        "NVIDIA H100 80GB HBM3",
        "cuda",
        version,
    )
    assert reader.fps is not None
    assert (reader.fps.samples, reader.n_envs) == (12, 64)
    printed = [lines.number(total) for _, total, _ in lines.FPS.findall(output)]
    assert printed[0] == pytest.approx(first * 128000, rel=1e-3)


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        ("race", FailureKind.CACHE_RACE, "_pickle.UnpicklingError: pickle data was truncated"),
        ("oom", FailureKind.MEMORY, "torch.OutOfMemoryError: CUDA out of memory."),
        ("egl", FailureKind.EGL, "EGLError: EGL is required"),
        ("traceback", FailureKind.SCRIPT, "ValueError: the robot has 9 joints, 7 were given"),
        ("segv", FailureKind.KILLED, "Killed by SIGSEGV (-11)"),
        ("kill", FailureKind.KILLED, "Killed by SIGKILL (-9)"),
    ],
)
def test_its_faults_are_told_apart(fault: str, kind: FailureKind, reason: str) -> None:
    code, _, reader = run("--crash", fault, "--lines", "4")
    failure = reader.failure(code)
    assert failure.kind is kind
    assert failure.reason.startswith(reason)
    assert reader.had_progress == (fault != "race")


@pytest.mark.parametrize("stubborn", [False, True])
def test_on_sigint_it_saves_and_ends_as_genesis_does(stubborn: bool) -> None:
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "--lines", "0", "--phase-s", "0", *(["--ignore-sigint"] if stubborn else [])],
        stdout=subprocess.PIPE,
        # A shell that runs a command in the background has it ignore SIGINT, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        reader = Reader(gpu_slot=True)
        assert process.stdout is not None
        while not reader.had_progress:
            reader.feed(process.stdout.readline(), 1.0)
        process.send_signal(signal.SIGINT)
        if stubborn:
            reader.feed(process.stdout.readline(), 1.0)
            assert reader.phase is not Phase.SAVING
            return
        reader.feed(process.stdout.read(), 1.0)
        assert process.wait(10) == -signal.SIGINT
        assert reader.phase is Phase.SAVING
        assert reader.failure(-2).reason == "Killed by SIGINT (-2): interrupted"
    finally:
        process.kill()
        process.communicate()


def test_bars_and_iterations_reach_their_end() -> None:
    _, _, reader = run("--tqdm", "7")
    assert reader.progress is not None
    assert (reader.progress.done, reader.progress.total, reader.had_progress) == (7, 7, True)
    for version in ("0.4.5", "1.4.5"):
        _, _, reader = run("--rsl", "3", "--version", version, "--fps", "98304")
        assert reader.progress is not None
        assert (reader.progress.done, reader.progress.total, reader.progress.unit) == (3, 3, "iteration")
        assert reader.fps is not None
        assert (reader.fps.last, reader.fps.samples) == (98304, 3)
