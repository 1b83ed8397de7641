"""How far a run is: rsl_rl's iterations and tqdm's bars, drawn by the real tqdm where it is installed."""

from __future__ import annotations

import pytest

from gmg_tui.genesis.output import progress
from gmg_tui.genesis.output.reader import Reader
from gmg_tui.model import Phase, Progress, WorkerState
from tests.genesis_text import samples


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" 43%|████▎     | 43/100 [00:04<00:05, 10.20it/s]", Progress(43.0, 100.0, "it", 5.0, 10.2)),
        ("train:  43%|####3     | 43/100 [00:04<01:05, 10.20it/s, loss=0.3]", Progress(43.0, 100.0, "it", 65.0, 10.2)),
        ("  0%|          | 0/100 [00:00<?, ?it/s]", Progress(0.0, 100.0, "it", None)),
        (" 10%|█         | 1/10 [00:03<00:30,  3.40s/it]", Progress(1.0, 10.0, "it", 30.0, 1 / 3.4)),
        (" 12%|█▏        | 1.20k/10.0k [00:01<2:07:20, 1.20kit/s]", Progress(1200.0, 10000.0, "it", 7640.0, 1200.0)),
        (" 12%|█▏        | 1.20k/10.0k [00:01<00:07, 1.20kstep/s]", Progress(1200.0, 10000.0, "step", 7.0, 1200.0)),
        (" 50%|█████     | 5/10 [00:01<00:01,  4.00kernels/s]", Progress(5.0, 10.0, "kernels", 1.0, 4.0)),
        ("100%|██████████| 10/10 [00:01<00:00,  4.00 steps/s]", Progress(10.0, 10.0, "steps", 0.0, 4.0)),
        ("43it [00:04, 10.20it/s]", None),
        ("100%| done", None),
        ("  0%|          | 0/0 [00:00<?, ?it/s]", None),
        ("  0%|          | ../.. [00:00<?, ?it/s]", None),
    ],
)
def test_a_bar_gives_how_far_and_how_long(line: str, expected: Progress | None) -> None:
    assert progress.bar(line.encode()) == expected


@pytest.mark.parametrize("options", [{}, {"unit_scale": True}, {"unit": "step"}, {"ascii": True}, {"prefix": "a|b"}])
@pytest.mark.parametrize(("done", "total", "elapsed_s"), [(0, 50, 0), (7, 50, 3.5), (49, 50, 9000), (50, 50, 1e6)])
def test_each_bar_of_the_real_tqdm_is_read(done: int, total: int, elapsed_s: float, options: dict[str, object]) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    line = tqdm.format_meter(done, total, elapsed_s, ncols=100, **options)
    read = progress.bar(line.encode())
    assert read is not None
    assert (read.done, read.total, read.unit) == (done, total, options.get("unit", "it"))
    if done:
        assert read.eta_s == pytest.approx((total - done) * elapsed_s / done, abs=1)
    else:
        assert read.eta_s is None


def test_bars_overwrite_each_other_with_carriage_returns() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(logged_ready(), 1.0)
    for step in range(4):
        assert reader.feed(f"\r {step * 25}%|##        | {step}/4 [00:01<00:03,  1.00it/s]".encode(), 2.0)
    assert reader.progress == Progress(3.0, 4.0, "it", 3.0, 1.0)
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, True)


def test_a_bar_before_the_scene_is_built_is_no_progress_of_the_simulation() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(samples.logged("Scene <1234567> created."), 1.0)
    reader.feed(b"assets: 50%|#####     | 1/2 [00:01<00:01,  1.00it/s]\r", 2.0)
    assert reader.progress is not None
    assert (reader.phase, reader.had_progress) == (Phase.CREATING, False)


def test_a_bar_before_genesis_begins_is_forgotten_then() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(b"\r  0%|          | 0/2 [00:00<?, ?it/s]", 1.0)
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, True)
    reader.feed(samples.logged("Running on [NVIDIA H100] with backend gs.cuda. Device memory: 79.33 GB."), 2.0)
    assert (reader.state, reader.had_progress, reader.progress) == (WorkerState.BUILDING, False, None)


def logged_ready() -> bytes:
    return samples.logged("Building visualizer...")


def iteration(number: int, total: int) -> bytes:
    return (
        f"{'#' * 80}\n                      \x1b[1m Learning iteration {number}/{total} \x1b[0m\n\n"
        f"{'Steps per second:':>40} 98304 \n{'ETA:':>40} 00:20:00\n"
    ).encode()


def test_iterations_give_the_time_left_from_their_pace() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(iteration(0, 1500), 100.0)
    assert reader.progress == Progress(1.0, 1500.0, "iteration", None)
    reader.feed(iteration(1, 1500), 102.0)
    reader.feed(iteration(2, 1500), 104.0)
    # Iterations 0, 1 and 2 are done: 1497 are left, of two seconds each.
    assert reader.progress == Progress(3.0, 1500.0, "iteration", 2994.0)
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, True)
    assert reader.fps is not None
    assert (reader.fps.last, reader.fps.samples, reader.fps.settled) == (98304.0, 3, pytest.approx(98304.0))


def test_iterations_count_for_more_than_bars_and_a_resumed_run_has_its_own_pace() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(iteration(900, 1000) + b" 50%|#####     | 1/2 [00:01<00:01,  1.00it/s]\n", 10.0)
    reader.feed(iteration(901, 1000), 20.0)
    assert reader.progress == Progress(902.0, 1000.0, "iteration", 980.0)
    reader.feed(iteration(0, 10), 30.0)
    assert reader.progress == Progress(1.0, 10.0, "iteration", None)


def test_the_reward_of_an_iteration_belongs_to_its_progress() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(b"\x1b[1m Learning iteration 299/300 \x1b[0m\n", 1.0)
    reader.feed(b"              Mean reward: 12.34\n     Mean episode length: 900.00\n", 1.1)
    assert reader.progress == Progress(300.0, 300.0, "iteration", None, None, "12.34")
