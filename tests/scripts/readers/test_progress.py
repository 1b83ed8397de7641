"""The progress of a run: iterations, and bars of the real tqdm if it is installed."""

import io

import pytest

from gmg_tui.model import Phase, Progress, WorkerState
from gmg_tui.scripts.genesis.output.reader import Reader
from tests.scripts.genesis_text import samples


def _bar(line: bytes) -> Progress | None:
    reader = Reader(started=0.0)
    reader.feed(line, 1.0)
    return reader.progress


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" 43%|████▎     | 43/100 [00:04<00:05, 10.20it/s]", Progress(43.0, 100.0, "it")),
        ("train:  43%|####3     | 43/100 [00:04<01:05, 10.20it/s, loss=0.3]", Progress(43.0, 100.0, "it")),
        ("  0%|          | 0/100 [00:00<?, ?it/s]", Progress(0.0, 100.0, "it")),
        (" 10%|█         | 1/10 [00:03<00:30,  3.40s/it]", Progress(1.0, 10.0, "it")),
        (" 12%|█▏        | 1.20k/10.0k [00:01<2:07:20, 1.20kit/s]", Progress(1200.0, 10000.0, "it")),
        (" 12%|█▏        | 1.20k/10.0k [00:01<00:07, 1.20kstep/s]", Progress(1200.0, 10000.0, "step")),
        ("100%|██████████| 10/10 [00:01<00:00,  4.00 steps/s]", Progress(10.0, 10.0, "steps")),
        ("43it [00:04, 10.20it/s]", None),
        ("100%| done", None),
        ("  0%|          | 0/0 [00:00<?, ?it/s]", None),
        ("  0%|          | ../.. [00:00<?, ?it/s]", None),
    ],
)
def test_a_bar_gives_the_progress(line: str, expected: Progress | None) -> None:
    assert _bar(line.encode()) == expected


def test_no_time_is_left_at_the_total() -> None:
    reader, left = Reader(started=0.0), []
    for number in (38, 39, 40, 41):
        reader.feed(f"epoch {number}/40\n".encode(), float(number))
        left.append(reader.progress.eta_s)
    assert left == [None, 1.0, None, None]


@pytest.mark.parametrize("options", [{}, {"unit_scale": True}, {"unit": "step"}, {"ascii": True}, {"prefix": "a|b"}])
@pytest.mark.parametrize(("done", "total", "elapsed_s"), [(0, 50, 0), (7, 50, 3.5), (49, 50, 9000), (50, 50, 1e6)])
def test_bars_of_the_real_tqdm_are_parsed(done: int, total: int, elapsed_s: float, options: dict[str, object]) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    read = _bar(tqdm.format_meter(done, total, elapsed_s, ncols=100, **options).encode())
    assert (read.done, read.total) == (done, total)


def test_the_outer_one_of_nested_bars_counts() -> None:
    tqdm, drawn = pytest.importorskip("tqdm").tqdm, io.StringIO()
    reader, at = Reader(started=0.0), 0
    with tqdm(total=4, file=drawn, mininterval=0, desc="epoch") as outer:
        for done in range(1, 3):
            for _ in tqdm(range(9), file=drawn, mininterval=0, leave=False):
                reader.feed(drawn.getvalue()[at:].encode(), 1.0)
                at = len(drawn.getvalue())
                assert reader.progress is None or reader.progress.total == 4
            outer.update()
            reader.feed(drawn.getvalue()[at:].encode(), 1.0)
            at = len(drawn.getvalue())
            assert (reader.progress.done, reader.progress.total) == (done, 4)


def test_a_bar_that_is_alone_on_a_lower_row_counts() -> None:
    assert _bar(b"\n\r 43%|####      | 43/100 [00:04<00:05, 10.20it/s]\x1b[A\r") == Progress(43.0, 100.0, "it")


def test_a_bar_with_environments_in_its_postfix_gives_both() -> None:
    reader = Reader(started=0.0)
    reader.feed(b" 43%|####      | 43/100 [00:04<00:05, 10.20it/s, n_envs=4096]\n", 2.0)
    assert reader.n_envs == 4096
    assert reader.progress == Progress(43.0, 100.0, "it")


def test_a_bar_before_the_scene_is_built_is_not_simulation_progress() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(samples.logged("Scene <1234567> created."), 1.0)
    reader.feed(b"assets: 50%|#####     | 1/2 [00:01<00:01,  1.00it/s]\r", 2.0)
    assert reader.progress is not None
    assert (reader.phase, reader.had_progress) == (Phase.CREATING, False)


def test_a_bar_before_genesis_starts_is_discarded_at_its_start() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(b"\r  0%|          | 0/2 [00:00<?, ?it/s]", 1.0)
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, True)
    reader.feed(samples.logged("Running on [NVIDIA H100] with backend gs.cuda. Device memory: 79.33 GB."), 2.0)
    assert (reader.state, reader.had_progress, reader.progress) == (WorkerState.BUILDING, False, None)


def _iteration(number: int, total: int, steps: int) -> bytes:
    return (
        f"{'#' * 80}\n                      \x1b[1m Learning iteration {number}/{total} \x1b[0m\n\n"
        f"{'Total steps:':>40} {steps} \n{'Steps per second:':>40} 98304 \n{'Mean reward:':>40} 12.34\n{'ETA:':>40} 00:20:00\n"
    ).encode()


def test_iterations_give_the_time_left_from_their_pace_and_the_rate_from_their_steps() -> None:
    reader, rank = Reader(gpu_slot=True), Reader(gpu_slot=True, rank=True)
    rank.feed(_iteration(0, 1500, 1000), 100.0)
    reader.feed(_iteration(0, 1500, 1000), 100.0)
    assert reader.progress == Progress(1.0, 1500.0, "iteration")
    reader.feed(_iteration(1, 1500, 2000), 102.0)
    reader.feed(_iteration(2, 1500, 3000), 104.0)
    # Iterations 0, 1 and 2 are done: 1497 are left, of two seconds each.
    assert reader.progress == Progress(3.0, 1500.0, "iteration", 2994.0, 0.5)
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, True)
    assert (rank.fps_of_group, reader.fps_of_group) == (True, False), "alone, the rate is the worker's own"
    assert (reader.fps.last, reader.fps.samples, reader.fps.settled, reader.fps.mean) == (98304.0, 3, 500.0, 500.0)
    assert reader.metrics == {"reward": 12.34}


def test_iterations_take_precedence_over_bars_and_a_resumed_run_has_its_own_pace() -> None:
    reader = Reader(gpu_slot=True)
    reader.feed(_iteration(900, 1000, 9000) + b" 50%|#####     | 1/2 [00:01<00:01,  1.00it/s]\n", 10.0)
    reader.feed(_iteration(901, 1000, 9010), 20.0)
    assert reader.progress == Progress(902.0, 1000.0, "iteration", 980.0, 0.1)
    reader.feed(_iteration(0, 10, 10), 30.0)
    assert reader.progress == Progress(1.0, 10.0, "iteration")
