"""Hostile output, in blocks of any size."""

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gmg_tui.scripts.genesis.output.reader import Reader
from tests.scripts.genesis_text import samples
from tests.workers import texts

LINES = [
    samples.fps_line(1234.56, 16),
    samples.fps_line(2345.67, 16),
    samples.fps_line(72.1),
    b"INFO:genesis:Running at ~<1,989.47>~ FPS (~<124.34>~ FPS per env, ~<16>~ envs).\n",
    b"[Genesis] [11:08:26] [INFO] Running at inf FPS.\n",
    samples.logged("Running on [NVIDIA H100] with backend gs.cuda. Device memory: 79.33 GB."),
    samples.logged("Genesis initialized. version: 0.4.5, theme: dark"),
    samples.logged("Scene <4bc769b> created."),
    samples.logged("Adding <gs.RigidEntity>. idx: 1"),
    samples.logged("Preprocessing SDF of mesh x."),
    samples.logged("Building scene <4bc769b>..."),
    samples.logged("Compiling simulation kernels..."),
    samples.logged("Building visualizer..."),
    samples.logged("Ignoring corrupted cache."),
    samples.logged("💤 Exiting Genesis and caching compiled kernels..."),
    samples.logged("\x1b[31m something else", "WARNING"),
    b" Learning iteration 3/10\n",
    b"Steps per second: 500\n",
    b"total : 12.50 FPS\n",
    b"\r 50%|#####     | 1/2 [00:01<00:01,  1.00it/s]",
    b"own line\n",
    b"  indented\r\n",
    b"Traceback (most recent call last):\n",
    b"ValueError: x\n",
    b"\n",
    b"\x00\xff\x1b]0;t\x07[Genesis\n",
]


def shown(reader: Reader) -> tuple[object, ...]:
    fps = reader.fps
    return (
        reader.phase,
        reader.state,
        (fps.last, fps.max, fps.samples, fps.settled, pytest.approx(fps.mean)) if fps else None,
        reader.n_envs,
        reader.progress,
        reader.genesis.device,
        reader.genesis.backend,
        reader.genesis.version,
        reader.signs,
        reader.had_progress,
        reader.failure(1),
    )


def block(lines: list[bytes]) -> bytes:
    return b"".join(line if line.endswith((b"\n", b"\r")) else line + b"\r" for line in lines)


@given(st.lists(st.sampled_from(LINES), max_size=40), st.data())
def test_results_do_not_depend_on_how_a_stream_is_split(lines: list[bytes], data: st.DataObject) -> None:
    whole = Reader(gpu_slot=True)
    whole.feed(block(lines), 5.0)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(lines)))))
    pieces = Reader(gpu_slot=True)
    pieces.feed(b"", 5.0)
    for start, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        pieces.feed(block(lines[start:end]), 5.0)
    assert shown(whole) == shown(pieces)


FRAGMENTS = [b"Running at ", b"[Genesis] [06:58:16] [INFO] ", b" FPS", b"%|", b"Learning iteration ", b"1/", b"9" * 30]


@given(st.lists(st.binary(max_size=200) | st.sampled_from([*LINES, *FRAGMENTS]), max_size=30), st.integers(-70, 300))
@example([b"Learning iteration 999999999999/0\n"], 1)
@example([b"100%|" + b"#" * 5000 + b"| 1/1 [0<0, 1it/s]\n"], 1)
def test_no_output_raises_an_exception(parts: list[bytes], exit_code: int) -> None:
    reader = Reader(gpu_slot=True)
    for part in parts:
        reader.feed(part, 1.0)
        assert reader.fps is None or reader.fps.samples > 0
    reason = reader.failure(exit_code).reason
    for text in (reason, reader.genesis.device or "", *texts(reader.signs)):
        assert len(text) <= 200
        assert not any(ord(sign) < 32 for sign in text)


@pytest.mark.parametrize(
    "piece",
    [
        b"x" * 65536,
        b"\n",
        b"Running at " * 5000,
        b"[Genesis] [06:58:16] [INFO] " * 3000,
        samples.logged("Building scene <1>...") + samples.logged("Compiling simulation kernels..."),
        samples.fps_line(5.0, 3) * 300,
        b"%|" * 30000,
        b"\n" * 262_000 + samples.logged("x"),
        b"Errno 2]" * 8000 + b"\n" + b"Broken pipe." * 5000 + b"\n",
    ],
    ids=[
        *("endless line", "blank lines", "half a figure", "half a head", "scenes for ever", "figures", "half a bar"),
        *("many blank lines", "half a failure"),
    ],
)
def test_memory_is_bounded_and_time_is_linear(piece: bytes) -> None:
    """A reader that is not linear would exceed the test's time limit."""
    reader = Reader(gpu_slot=True)
    for _ in range(20):
        reader.feed(piece, 1.0)
    tracemalloc.start()
    for _ in range(2000 if len(piece) < 1000 else 40):
        reader.feed(piece, 1.0)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 600_000
    assert reader.failure(1).reason.startswith("exit code 1")


def test_a_very_long_line_does_not_hide_earlier_lines() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(b"Mean reward: 7\n" + b"x" * 200_000 + b"\n" + b"y" * 70_000 + b"\nMean episode length: 9\n", 1.0)
    assert reader.metrics == {"reward": 7.0, "episode_length": 9.0}
