"""Parsing of lines and whole runs: phases, states, device, warnings, and the precedence of figures."""

import pytest

from gmg_tui.model import Phase, Severity, WorkerState
from gmg_tui.scripts.genesis.output import line_patterns, log_text
from gmg_tui.scripts.genesis.output.reader import Reader
from tests.scripts.genesis_text import samples
from tests.scripts.genesis_text.samples import fps_line, logged
from tests.workers import texts

DEVICE = "Running on [{}] with backend gs.{}. Device memory: 79.33 GB."


def after(*printed: bytes, gpu_slot: bool = True, rank: bool = False) -> Reader:
    """Returns a reader that has read one piece each second."""
    reader = Reader(gpu_slot, started=0.0, rank=rank)
    for second, piece in enumerate(printed, 1):
        reader.feed(piece, float(second))
    return reader


@pytest.mark.parametrize(
    ("line", "total", "n_envs"),
    [
        (fps_line(1989.47, 16), 1989.47, 16),
        (fps_line(59.03), 59.03, None),
        (fps_line(43_012_345.67, 30000), 43_012_345.67, 30000),
        # 0.2.1 underlines what it highlights
        (
            b"\x1b[38;5;159m[Genesis] [11:08:26] [INFO] Running at \x1b[38;5;121m\x1b[4m1,234.50\x1b[0m\x1b[38;5;159m FPS "
            b"(\x1b[38;5;121m\x1b[4m123.45\x1b[0m\x1b[38;5;159m FPS per env, \x1b[38;5;121m\x1b[4m10\x1b[0m\x1b[38;5;159m "
            b"envs).\x1b[0m\n",
            1234.5,
            10,
        ),
        (b"[Genesis] [26-11-21 11:08:26.123] [INFO] Running at 72.10 FPS.\n", 72.1, None),
        (b"[Genesis 11:08:26] Running at 1,072.10 FPS (67.01 FPS per env, 16 envs).\n", 1072.1, 16),
        (b"[default0]:[Genesis] [11:08:26] [INFO] Running at 72.10 FPS.\r", 72.1, None),
        (b"total : 1,234,567.89 FPS\n", 1_234_567.89, None),
        (b"                       Computation: 45678 steps/s (collection: 1.234s, learning 0.456s)\n", 45678.0, None),
    ],
)
def test_progress_lines_of_each_form_are_parsed(line: bytes, total: float, n_envs: int | None) -> None:
    reader = after(line)
    assert (reader.fps.last, reader.fps.samples, reader.n_envs) == (total, 1, n_envs)
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, True)


@pytest.mark.parametrize(
    "line",
    [
        b"[Genesis] [11:08:26] [INFO] Running at inf FPS.\n",
        b"[Genesis] [11:08:26] [INFO] Running at nan FPS (nan FPS per env, 4 envs).\n",
        b"Running at ,,, FPS.\n",
        b"Running at -5.00 FPS.\n",
        b"the total : 12.00 FPS\n",
        b"the camera records at 30 FPS\n",
    ],
)
def test_invalid_numbers_are_ignored(line: bytes) -> None:
    reader = after(line)
    assert (reader.fps, reader.had_progress) == (None, False)


@pytest.mark.parametrize("path", samples.LOGS, ids=lambda path: path.name)
def test_every_line_of_the_real_logs_is_recognised(path: object) -> None:
    """Each line is a progress line, another line of Genesis, or one of the native logger."""
    for raw in samples.read(path.name).splitlines(keepends=True):  # type: ignore[attr-defined]
        line = line_patterns.plain(raw)
        is_fps = line_patterns.FPS.search(raw) is not None
        assert is_fps == (b"Running at" in line)
        if line.startswith(b"[Genesis]"):
            assert line_patterns.message(line) is not None
            assert (line_patterns.OTHER.search(raw) is None) == is_fps
        else:
            assert line_patterns.LIBRARY.match(line)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("🚀 Genesis initialized. 🔖 version: \x1b[38;5;121m1.4.5\x1b[0m\x1b[38;5;159m, 🎨 theme: dark", "1.4.5"),
        ("🚀 Genesis initialized. 🔖 version: 0.2.1, 🌱 seed: None, 📏 precision: '32'", "0.2.1"),
        ("🚀 Genesis initialized. 🌱 seed: None, 🔖 version: 0.3.3.", "0.3.3"),
    ],
)
def test_the_version_is_read_from_each_greeting(line: str, version: str) -> None:
    assert after(logged(line)).genesis.version == version


def test_the_phases_of_a_cold_run_follow_each_other_with_their_times() -> None:
    reader = Reader(gpu_slot=False, started=0.0)
    states = [reader.state]
    for line, now in samples.timed("franka-cold.log"):
        reader.feed(line, now)
        states += [reader.state] if reader.state is not states[-1] else []
    assert reader.phase_times == {
        Phase.IMPORTING: 0.0,
        Phase.INITIALISING: 1.0,
        Phase.CREATING: 22.0,
        Phase.BUILDING: 34.0,
        Phase.COMPILING: 115.0,
    }
    assert states == [WorkerState.STARTING, WorkerState.BUILDING, WorkerState.COMPILING, WorkerState.RUNNING]
    assert (reader.phase, reader.state) == (Phase.SAVING, WorkerState.RUNNING)
    assert (reader.genesis.device, reader.genesis.backend) == ("Intel(R) Xeon(R) Processor @ 2.50GHz", "cpu")
    assert (reader.genesis.version, reader.n_envs, reader.signs) == ("1.4.5", 16, ())


def test_a_cache_rebuilt_by_genesis_is_not_a_warning() -> None:
    reader = after(samples.read("race-1.log"), gpu_slot=False)
    assert (len(reader.signs), "rebuilt" in texts(reader.signs)[0]) == (1, True)


def test_a_second_scene_returns_to_building_and_restarts_the_average() -> None:
    reader = after(fps_line(100.0, 4) + fps_line(1000.0, 4), logged("Building scene <1234567>..."))
    assert reader.state is WorkerState.BUILDING
    reader.feed(logged("Compiling simulation kernels..."), 3.0)
    assert reader.state is WorkerState.COMPILING
    reader.feed(fps_line(50.0, 4), 4.0)
    assert reader.state is WorkerState.RUNNING
    assert (reader.fps.settled, reader.fps.samples, reader.fps.max) == (None, 3, 1000.0)


def test_a_script_without_genesis_runs_from_its_first_line() -> None:
    reader = after(b"hello\n")
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, False)


_ARGPARSE = """usage: train.py [-h] [-B NUM_ENVS]
                [--max_iterations MAX_ITERATIONS]
train.py: error: unrecognized arguments: --num_env 64
"""
_CLICK = """Usage: train.py [OPTIONS]
Try 'train.py --help' for help.

Error: No such option: --num_env
"""
_LIBRARIES = """[Quadrants] version 1.3.3, llvm 20.1.1, commit 1234567, linux, python 3.11.13
[W 11/22/26 20:18:14.384 11504] [frontend_ir.cpp:begin_frontend_struct_for_on_snode@1533] qd.loop_config
/x/torch/cuda/__init__.py:61: FutureWarning: The pynvml package is deprecated.
  import pynvml
libEGL warning: egl: failed to create dri2 screen
[Genesis] [06:58:16] [WARNING] Neutral robot position (qpos0) exceeds joint limits.


"""
_TRACEBACK = "Traceback (most recent call last):\n  File 'x'\nValueError: no\n"


@pytest.mark.parametrize("text", [_ARGPARSE, _CLICK, _ARGPARSE.partition("train.py: error")[0], _LIBRARIES, _TRACEBACK])
@pytest.mark.parametrize("start", [b"", logged("Compiling simulation kernels...")])
def test_lines_of_libraries_and_final_errors_do_not_begin_running(text: str, start: bytes) -> None:
    expected = WorkerState.COMPILING if start else WorkerState.STARTING
    by_line = [line.encode() for line in text.splitlines(keepends=True)]
    assert after(start, text.encode()).state is after(start, *by_line).state is expected


def test_a_script_without_rate_lines_is_running_from_its_first_line_after_building() -> None:
    reader = after(logged("Compiling simulation kernels..."), logged("Building visualizer..."), b"episode 1\n")
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, False)


@pytest.mark.parametrize("first", ["plain", "raw"])
def test_a_repeated_line_counts_once(first: str) -> None:
    plain = fps_line(1989.47, 16)
    raw = b"INFO:genesis:Running at ~<1,989.47>~ FPS (~<124.34>~ FPS per env, ~<16>~ envs).\n"
    reader = after(*((plain, raw) if first == "plain" else (raw, plain)) * 3)
    assert reader.fps.samples == 3


def test_a_phase_repeated_by_the_root_logger_is_ignored() -> None:
    compiling, repeated = logged("Compiling simulation kernels..."), b"INFO:genesis:Building scene ~~~<4bc769b>~~~...\n"
    assert after(compiling, repeated).phase is Phase.COMPILING


_LOCKED = b"[W 11/21/26 06:55:54.676 8640] [lock.h:lock@20] Lock /c/qdcache.lock failed. Please run 'qd cache'\n"
_LOCK_WARNING = "kernel cache locked, kernels may need recompiling: /c/qdcache.lock"


@pytest.mark.parametrize(
    ("gpu_slot", "printed", "warning"),
    [
        (True, logged(DEVICE.format("NVIDIA H100", "cuda")), None),
        (
            True,
            logged("Backend gs.gpu not available on this machine. Falling back to CPU.", "WARNING")
            + logged(DEVICE.format("AMD EPYC", "cpu")),
            "fell back to the CPU (AMD EPYC): Genesis found no usable GPU",
        ),
        (True, logged(DEVICE.format("AMD EPYC", "cpu")), "is running on the CPU (AMD EPYC), not on the GPU of its slot"),
        (True, b"[W 12/20/24 10:00:00.000 1] [misc.py:x@7] Arch=[cuda] is not supported, falling back to CPU\n", "fell back to the CPU: Genesis found no usable GPU"),
        (False, logged(DEVICE.format("AMD EPYC", "cpu")) + logged("Software rendering context detected. Sha"), None),
        (
            True,
            logged("Software rendering context detected. Shadows and plane reflection not supported."),
            "renders in software, slowly: EGL does not use the GPU",
        ),
        (False, _LOCKED, _LOCK_WARNING),
        (False, _LOCKED.replace(b"lock.h:lock", b"offline_cache.h:run"), None),
    ],
)  # fmt: skip
def test_lines_that_are_warnings(gpu_slot: bool, printed: bytes, warning: str | None) -> None:
    assert texts(after(printed, gpu_slot=gpu_slot).signs) == ((warning,) if warning else ())


def test_a_lock_held_by_another_rank_is_not_a_warning() -> None:
    assert after(_LOCKED, rank=True).signs == ()


# The heads and the severity of lines


@pytest.mark.parametrize(
    ("line", "clock", "level", "rest"),
    [
        ("[Genesis] [07:00:34] [WARNING] Neutral.", "07:00:34", "WARNING", "Neutral."),
        ("[Genesis] [26-11-21 07:00:34.123] [INFO] x", "07:00:34.123", "INFO", "x"),
        ("[Genesis 07:00:34] x", "07:00:34", "INFO", "x"),
        ("[Genesis 07:00:34 ERROR] x", "07:00:34", "ERROR", "x"),
    ],
)
def test_the_head_of_a_line_in_every_form(line: str, clock: str, level: str, rest: str) -> None:
    prefix = log_text.head(line)
    assert (prefix.clock, prefix.level) == (clock, level)
    assert log_text.without_head(line) == line[prefix.length :] == rest


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("[Genesis] [07:00:34] [WARNING] ERROR", Severity.WARNING),
        ("[Genesis] [07:00:34] [INFO] no Warning: at all", Severity.INFO),
        ("[Genesis] [07:00:34] [CRITICAL] x", Severity.ERROR),
        ("/opt/x.py:12: UserWarning: x", Severity.WARNING),
        ("WARNING:root:x", Severity.WARNING),
        ("[W 11/21/26 06:55:54.676 8640] [frontend_ir.cpp:x@1] y", Severity.WARNING),
        ("Traceback (most recent call last):", Severity.ERROR),
        ("genesis.GenesisException: x", Severity.ERROR),
        ("ERROR: x", Severity.ERROR),
        ("errors so far: 0", Severity.INFO),
        ("the Error is gone", Severity.INFO),
    ],
)
def test_severity_of_lines(line: str, severity: Severity) -> None:
    assert log_text.severity(line) is severity
