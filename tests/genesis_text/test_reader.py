"""What the reader makes of whole runs: phases, states, device, warnings, which figures count."""

from __future__ import annotations

import pytest

from gmg_tui.genesis.output.reader import Reader
from gmg_tui.model import Phase, WorkerState
from tests.genesis_text import samples
from tests.genesis_text.samples import fps_line, logged

DEVICE = "Running on [{}] with backend gs.{}. Device memory: 79.33 GB."


def read_log(name: str) -> Reader:
    reader = Reader(gpu_slot=False, started=0.0)
    for line, now in samples.timed(name):
        reader.feed(line, now)
    return reader


def test_the_phases_of_a_cold_run_follow_each_other_with_their_times() -> None:
    reader = read_log("franka-cold.log")
    assert reader.phases == (
        (Phase.IMPORTING, 0.0),
        (Phase.INITIALISING, 1.0),
        (Phase.CREATING, 12.0),
        (Phase.ADDING, 10.0),
        (Phase.BUILDING, 12.0),
        (Phase.MESHES, 22.0),
        (Phase.COMPILING, 100.0),
        (Phase.VISUALIZER, 15.0),
    )
    assert (reader.phase, reader.state) == (Phase.SAVING, WorkerState.RUNNING)
    assert (reader.device, reader.backend) == ("Intel(R) Xeon(R) Processor @ 2.50GHz", "cpu")
    assert (reader.genesis_version, reader.n_envs, reader.warnings) == ("1.4.5", 16, ())


def test_the_states_of_a_run_never_go_back() -> None:
    reader = Reader(gpu_slot=False)
    seen = [reader.state]
    for line, now in samples.timed("race-1.log"):
        reader.feed(line, now)
        if reader.state is not seen[-1]:
            seen.append(reader.state)
    assert seen == [WorkerState.STARTING, WorkerState.BUILDING, WorkerState.COMPILING, WorkerState.RUNNING]
    assert reader.warnings == ("Genesis found a corrupted mesh cache file and rebuilt it",)


def test_a_second_scene_goes_back_to_building_and_its_average_begins_anew() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(fps_line(100.0, 4) + fps_line(1000.0, 4), 1.0)
    reader.feed(logged("Building scene <1234567>..."), 2.0)
    assert reader.state is WorkerState.BUILDING
    reader.feed(logged("Compiling simulation kernels..."), 3.0)
    assert reader.state is WorkerState.COMPILING
    reader.feed(fps_line(50.0, 4), 4.0)
    assert reader.state is WorkerState.RUNNING
    assert reader.fps is not None
    assert (reader.fps.settled, reader.fps.samples, reader.fps.max) == (None, 3, 1000.0)


def test_a_phase_that_an_exit_cuts_short_has_no_duration() -> None:
    reader = Reader(gpu_slot=False, started=0.0)
    reader.feed(logged("Building scene <4bc769b>..."), 10.0)
    reader.feed(logged("Compiling simulation kernels..."), 12.0)
    reader.feed(logged("💤 Exiting Genesis and caching compiled kernels..."), 22.0)
    assert reader.phases == ((Phase.IMPORTING, 10.0), (Phase.BUILDING, 2.0))


def test_silent_steps_are_no_part_of_the_phase_before_them() -> None:
    reader = Reader(gpu_slot=False, started=0.0)
    reader.feed(logged("Building visualizer..."), 10.0)
    reader.feed(b"\x1b[1m Learning iteration 0/300 \x1b[0m\n", 90.0)
    assert (reader.phase, reader.phases) == (Phase.RUNNING, ((Phase.IMPORTING, 10.0),))


def test_a_script_without_genesis_runs_from_its_first_line() -> None:
    reader = Reader(gpu_slot=True)
    assert reader.state is WorkerState.STARTING
    assert reader.feed(b"hello\n", 1.0)
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, False)
    assert not reader.feed(b"more\n" * 100, 2.0)


@pytest.mark.parametrize("wrong", [b"x.py: error: the following arguments are required: -B\n", b""])
def test_a_script_that_only_tells_how_it_is_called_does_not_run(wrong: bytes) -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(b"usage: x.py [-h] -B N\n            [--steps STEPS]\n" + wrong, 1.0)
    assert (reader.state, reader.had_progress) == (WorkerState.STARTING, False)


def test_a_script_that_speaks_before_genesis_is_still_importing_then() -> None:
    reader = Reader(gpu_slot=True, started=10.0)
    reader.feed(b"loading the configuration\n", 12.0)
    reader.feed(logged(DEVICE.format("NVIDIA H100", "cuda")), 40.0)
    assert reader.state is WorkerState.BUILDING
    assert reader.phases == ((Phase.IMPORTING, 30.0),)


def test_a_script_that_hides_the_rate_runs_from_its_own_first_line_after_building() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(logged("Building visualizer..."), 1.0)
    reader.feed(b"libEGL warning: egl: failed to create dri2 screen\n", 1.0)
    assert reader.state is WorkerState.COMPILING
    reader.feed(b"episode 1\n", 2.0)
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, False)


_COMPILER = (
    b"[W 11/22/26 20:18:14.384 11504] [frontend_ir.cpp:begin_frontend_struct_for_on_snode@1533] qd.loop_config\n"
)


@pytest.mark.parametrize(
    "first", [_COMPILER, logged("Neutral robot position (qpos0) exceeds joint limits.", "WARNING")]
)
def test_a_script_that_hides_its_phases_is_in_none_of_them_until_it_says_something_itself(first: bytes) -> None:
    reader = Reader(gpu_slot=False, started=0.0)
    assert reader.feed(first, 9.0)
    assert (reader.phase, reader.state, reader.phases) == (Phase.AT_WORK, WorkerState.BUILDING, ())
    reader.feed(_COMPILER + logged("Constraint solver is slow.", "WARNING"), 12.0)
    assert reader.phase is Phase.AT_WORK
    reader.feed(b"episode 1\n", 90.0)
    assert (reader.state, reader.had_progress, reader.phases) == (WorkerState.RUNNING, False, ())


def test_a_warning_before_the_greeting_hides_no_phase() -> None:
    reader = Reader(gpu_slot=True, started=0.0)
    reader.feed(logged("Backend gs.gpu not available on this machine. Falling back to CPU.", "WARNING"), 9.0)
    reader.feed(logged(DEVICE.format("AMD EPYC", "cpu")), 9.0)
    reader.feed(logged("Scene <4bc769b> created."), 11.0)
    assert (reader.phase, reader.phases) == (Phase.CREATING, ((Phase.INITIALISING, 2.0),))


def test_a_traceback_is_no_sign_of_running() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(logged("Building visualizer..."), 1.0)
    reader.feed(b"Traceback (most recent call last):\n  File 'x'\nValueError: no\n", 2.0)
    assert reader.state is WorkerState.COMPILING


_ARGPARSE = """usage: train.py [-h] [-B NUM_ENVS]
                [--max_iterations MAX_ITERATIONS]
train.py: error: unrecognized arguments: --num_env 64
"""
_CLICK = """Usage: train.py [OPTIONS]
Try 'train.py --help' for help.

Error: No such option: --num_env
"""


@pytest.mark.parametrize("text", [_ARGPARSE, _CLICK])
def test_refused_arguments_are_no_sign_of_running(text: str) -> None:
    at_once, by_line = Reader(gpu_slot=True), Reader(gpu_slot=True)
    at_once.feed(text.encode(), 1.0)
    for line in text.encode().splitlines(keepends=True):
        by_line.feed(line, 1.0)
    assert at_once.state is by_line.state is WorkerState.STARTING


@pytest.mark.parametrize("first", ["plain", "raw"])
def test_a_line_that_comes_twice_counts_once(first: str) -> None:
    plain = fps_line(1989.47, 16)
    raw = b"INFO:genesis:Running at ~<1,989.47>~ FPS (~<124.34>~ FPS per env, ~<16>~ envs).\n"
    reader = Reader(gpu_slot=True)
    for line in (plain, raw) * 3 if first == "plain" else (raw, plain) * 3:
        reader.feed(line, 1.0)
    assert reader.fps is not None
    assert reader.fps.samples == 3


def test_the_same_phase_through_the_root_logger_does_not_take_the_worker_back() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(logged("Compiling simulation kernels..."), 1.0)
    reader.feed(b"INFO:genesis:Building scene ~~~<4bc769b>~~~...\n", 1.0)
    assert reader.phase is Phase.COMPILING


def test_genesis_rate_wins_over_rsl_rls() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(b"Steps per second: 100\n", 1.0)
    reader.feed(fps_line(5000.0, 4), 2.0)
    reader.feed(b"Steps per second: 100\n", 3.0)
    assert reader.fps is not None
    assert (reader.fps.last, reader.fps.samples, reader.fps.mean) == (5000.0, 1, 5000.0)


@pytest.mark.parametrize(
    ("gpu_slot", "lines", "warnings"),
    [
        (True, [logged(DEVICE.format("NVIDIA H100", "cuda"))], ()),
        (
            True,
            [
                logged("Backend gs.gpu not available on this machine. Falling back to CPU.", "WARNING"),
                logged(DEVICE.format("AMD EPYC", "cpu")),
            ],
            ("fell back to the CPU (AMD EPYC): Genesis found no usable GPU",),
        ),
        (
            True,
            [logged(DEVICE.format("AMD EPYC", "cpu"))],
            ("runs on the CPU (AMD EPYC), not on the GPU of its slot",),
        ),
        (
            True,
            [b"[W 12/20/24 10:00:00.000 1] [misc.py:x@7] Arch=[cuda] is not supported, falling back to CPU\n"],
            ("fell back to the CPU: Genesis found no usable GPU",),
        ),
        (False, [logged(DEVICE.format("AMD EPYC", "cpu")), logged("Software rendering context detected. Sha")], ()),
        (
            True,
            [logged("Software rendering context detected. Shadows and plane reflection not supported.")],
            ("renders in software, slowly: EGL does not use the GPU",),
        ),
        (
            False,
            [logged("Ignoring corrupted cache."), logged("Ignoring corrupted cache.")],
            ("Genesis found a corrupted mesh cache file and rebuilt it (2 times)",),
        ),
        (
            False,
            [b"[W 11/21/26 06:55:54.676 8640] [lock.h:lock@20] Lock /c/qdcache.lock failed. Please run 'qd cache'\n"],
            ("kernel cache locked, this attempt may compile all its kernels anew: /c/qdcache.lock",),
        ),
    ],
)
def test_what_is_not_as_it_should_be_is_said(gpu_slot: bool, lines: list[bytes], warnings: tuple[str, ...]) -> None:
    reader = Reader(gpu_slot)
    for line in lines:
        reader.feed(line, 1.0)
    assert reader.warnings == warnings


@pytest.mark.parametrize("rank", [False, True])
def test_a_lock_that_another_rank_holds_as_it_saves_the_same_kernels_is_no_warning(rank: bool) -> None:
    locked = b"[W 11/21/26 06:55:54.676 8640] [lock.h:lock@20] Lock /c/qdcache.lock failed. Please run 'qd cache'\n"
    reader = Reader(gpu_slot=False, rank=rank)
    reader.feed(logged("Exiting Genesis and caching compiled kernels..."), 1.0)
    reader.feed(locked, 1.0)
    said = "kernel cache locked, what this attempt has compiled is not kept: /c/qdcache.lock"
    assert reader.warnings == (() if rank else (said,))
    at_start = Reader(gpu_slot=False, rank=rank)
    at_start.feed(locked, 1.0)
    assert at_start.warnings == ("kernel cache locked, this attempt may compile all its kernels anew: /c/qdcache.lock",)


def test_a_lock_for_which_old_kernels_are_not_removed_is_no_warning() -> None:
    reader = Reader(gpu_slot=False)
    reader.feed(logged("Exiting Genesis and caching compiled kernels..."), 1.0)
    told = (
        b"[W 11/23/26 02:39:29.297 2984] [offline_cache.h:run@165] Lock /c/qdcache.lock failed. You can run 'qd cache"
    )
    reader.feed(told + b" clean -p /c' and try again.\n", 1.0)
    assert reader.warnings == ()


def test_a_device_cannot_smuggle_escape_sequences_or_length() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(logged(DEVICE.format("\u202eevil\x07\x00" + "x" * 5000, "cpu")), 1.0)
    assert reader.device is not None
    assert reader.device.startswith("·evil··x")
    assert len(reader.device) <= 200
    assert all(len(text) <= 200 for text in reader.warnings)
