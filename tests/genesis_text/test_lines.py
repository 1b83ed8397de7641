"""Every form of every line, over the versions and themes of Genesis."""

from __future__ import annotations

import pytest

from gmg_tui.genesis.output import lines
from gmg_tui.genesis.output.reader import Reader
from gmg_tui.model import Phase, WorkerState
from tests.genesis_text import samples


@pytest.mark.parametrize(
    ("line", "total", "n_envs"),
    [
        (samples.fps_line(1989.47, 16), 1989.47, 16),
        (samples.fps_line(59.03), 59.03, None),
        (samples.fps_line(43_012_345.67, 30000), 43_012_345.67, 30000),
        # 0.2.1 underlines what it highlights
        (
            b"\x1b[38;5;159m[Genesis] [11:08:26] [INFO] Running at \x1b[38;5;121m\x1b[4m1,234.50\x1b[0m\x1b[38;5;159m FPS "
            b"(\x1b[38;5;121m\x1b[4m123.45\x1b[0m\x1b[38;5;159m FPS per env, \x1b[38;5;121m\x1b[4m10\x1b[0m\x1b[38;5;159m "
            b"envs).\x1b[0m\n",
            1234.5,
            10,
        ),
        (b"[Genesis] [11:08:26] [INFO] Running at 72.10 FPS.\n", 72.1, None),
        (b"[Genesis] [26-11-21 11:08:26.123] [INFO] Running at 72.10 FPS.\n", 72.1, None),
        (b"[Genesis 11:08:26] Running at 1,072.10 FPS (67.01 FPS per env, 16 envs).\n", 1072.1, 16),
        (b"INFO:genesis:Running at ~<1,989.47>~ FPS (~<124.34>~ FPS per env, ~<16>~ envs).\n", 1989.47, 16),
        (b"[2026-11-21 10:00:00,123][genesis][INFO] - Running at ~~~~<12.00>~~~~ FPS.\n", 12.0, None),
        (b"[default0]:[Genesis] [11:08:26] [INFO] Running at 72.10 FPS.\r", 72.1, None),
        (b"total : 1,234,567.89 FPS\n", 1_234_567.89, None),
        (b"                       Computation: 45678 steps/s (collection: 1.234s, learning 0.456s)\n", 45678.0, None),
        (b"                  Steps per second: 45678 \n", 45678.0, None),
    ],
)
def test_a_progress_line_of_each_form_gives_its_figure(line: bytes, total: float, n_envs: int | None) -> None:
    reader = Reader(gpu_slot=True)
    assert reader.feed(line, 1.0)
    assert reader.fps is not None
    assert (reader.fps.last, reader.fps.samples, reader.n_envs) == (total, 1, n_envs)
    assert reader.state is WorkerState.RUNNING
    assert reader.had_progress


@pytest.mark.parametrize(
    "line",
    [
        b"[Genesis] [11:08:26] [INFO] Running at inf FPS.\n",
        b"[Genesis] [11:08:26] [INFO] Running at nan FPS (nan FPS per env, 4 envs).\n",
        b"Running at ,,, FPS.\n",
        b"Running at 1,2,3,,4 FPS.\n",
        b"Running at -5.00 FPS.\n",
        b"per env: 12.00 FPS\n",
        b"the total : 12.00 FPS\n",
        b"the camera records at 30 FPS\n",
    ],
)
def test_what_is_no_figure_is_not_taken_as_one(line: bytes) -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(line, 1.0)
    assert reader.fps is None
    assert not reader.had_progress


@pytest.mark.parametrize("path", samples.LOGS, ids=lambda path: path.name)
def test_every_line_of_the_real_logs_is_understood(path: object) -> None:
    """Each is a progress line, a phase, a remark of Genesis, or the native logger's; none is left over."""
    for raw in samples.read(path.name).splitlines(keepends=True):  # type: ignore[attr-defined]
        line = lines.plain(raw)
        is_fps = lines.FPS.search(raw) is not None
        assert is_fps == (b"Running at" in line)
        if line.startswith(b"[Genesis]"):
            assert lines.message(line) is not None
            assert (lines.OTHER.search(raw) is None) == is_fps
        else:
            assert lines.from_library(line)


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("Running on [NVIDIA A800 80GB PCIe] with backend gs.cuda. Device memory: 79.33 GB.", Phase.INITIALISING),
        ("Scene <4bc769b> created.", Phase.CREATING),
        ("Adding <gs.engine.entities.RigidEntity> panda_461fa35. idx: 1, morph: x.", Phase.ADDING),
        ("Adding <gs.RigidEntity>. idx: 1, uid: <4315a65>, morph: x.", Phase.ADDING),
        ("Running convex decomposition.", Phase.MESHES),
        ("Preprocessing SDF of mesh /x.gsd.", Phase.MESHES),
        ("Preprocessing geom idx 3.", Phase.MESHES),
        ("Sampling particles with pbs-32 sampler and generating `.ptc` file:", Phase.MESHES),
        ("Tetrahedralization with configuration x and generating `.tet` file:", Phase.MESHES),
        ("Convert mesh to skeleton:", Phase.MESHES),
        ("Building scene <4bc769b>...", Phase.BUILDING),
        ("Compiling simulation kernels...", Phase.COMPILING),
        ("Building visualizer...", Phase.VISUALIZER),
        ("Viewer created. Resolution: 1280×960", Phase.RUNNING),
        ("Neutral robot position (qpos0) exceeds joint limits.", None),
        ("Ignoring corrupted cache.", None),
    ],
)
def test_a_phase_is_known_by_how_its_line_begins(text: str, phase: Phase | None) -> None:
    line = lines.plain(samples.logged(text))
    assert lines.message(line) == (b"INFO", text.encode())
    assert lines.phase_of(text.encode()) is phase


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("🚀 Genesis initialized. 🔖 version: \x1b[38;5;121m1.4.5\x1b[0m\x1b[38;5;159m, 🎨 theme: dark", "1.4.5"),
        ("🚀 Genesis initialized. 🔖 version: 0.2.1, 🌱 seed: None, 📏 precision: '32'", "0.2.1"),
        ("🚀 Genesis initialized. 🌱 seed: None, 🔖 version: 0.3.3.", "0.3.3"),
        ("Genesis initialized. version: 1.5.0rc1+cu128, theme: raw", "1.5.0rc1+cu128"),
    ],
)
def test_the_version_is_read_from_each_greeting(line: str, version: str) -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(samples.logged(line), 1.0)
    assert reader.genesis_version == version


def test_native_and_library_remarks_are_not_the_scripts_own_output() -> None:
    reader = Reader(gpu_slot=True)
    for line in (
        b"[Quadrants] version 1.3.3, llvm 20.1.1, commit 1234567, linux, python 3.11.13\n",
        b"/x/torch/cuda/__init__.py:61: FutureWarning: The pynvml package is deprecated.\n  import pynvml\n",
        b"libEGL warning: egl: failed to create dri2 screen\n",
        b"\n   \n",
    ):
        assert not reader.feed(line, 1.0)
    assert reader.state is WorkerState.STARTING
    reader.feed(samples.logged("Building visualizer..."), 2.0)
    assert not reader.feed(samples.read("franka-cold.stderr.log"), 3.0)
    assert reader.state is WorkerState.COMPILING
