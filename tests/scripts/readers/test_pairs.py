"""Pairs of names and values on lines with progress, in no known format."""

from pathlib import Path

import pytest

from gmg_tui.scripts.genesis.output.reader import Reader
from gmg_tui.scripts.readers.interface import Figures
from gmg_tui.scripts.readers.pairs import PairLines

_SAMPLES = Path(__file__).parents[2] / "samples"
_METRICS = {
    "epoch 12/60 loss 0.31 acc 0.95": {"loss": 0.31, "acc": 0.95},
    "Epoch [3/100], Step [100/600], Loss: 0.2543": {"Loss": 0.2543},
    "Epoch 3/100 - loss: 0.25 - val_loss: 0.31 - accuracy: 95.2%": {"loss": 0.25, "val_loss": 0.31, "accuracy": 95.2},
    "iter 5 of 100: reward=12.3, mean length: 40": {"reward": 12.3, "mean_length": 40.0},
    "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.305400": {"Loss": 2.3054},
    "[12/60] loss: 0.3 lr: 1e-3": {"loss": 0.3, "lr": 1e-3},
    "2026-11-27 07:43:02,123 - INFO - step 100: train loss=2.31, lr=0.0003": {"train_loss": 2.31, "lr": 0.0003},
    "step 100 | loss 2.31 | norm 0.98 | lr 3e-4 | 12.3 ms": {"loss": 2.31, "norm": 0.98, "lr": 3e-4},
    "iter 250: loss 2.1, time 12.3ms, mfu 3.2%": {"loss": 2.1, "mfu": 3.2},
    "{'loss': 2.31, 'learning_rate': 5e-05, 'epoch': 0.01}": {"loss": 2.31, "learning_rate": 5e-05},
    "Episode: 12  Score: 200.0": {"Score": 200.0},
    "Iteration 3/10 finished, with mean reward: 12, length: 40": {"mean_reward": 12.0, "length": 40.0},
    " 43%|####| 43/100 [00:04<00:05, 10.20it/s, loss=0.3]": {"loss": 0.3},
}
_PROSE = (
    "Step 2: num_workers: 4",
    "[1/4] Installing dependencies",
    "step 3 of 5: downloading 20 files",
    "epoch 1/10 took 12 s",
    "Epoch 1/10 on GPU 0",
    "In step 1 of 2, the error: 3 files failed",
    "Saving checkpoint at iteration 1200: model_1200.pt",
    '  File "train.py", line 12, in step',
    "epochs: 10, lr: 0.001, batch: 64",
    "batch=64 lr=0.1",
    '{"epochs": 10, "lr": 0.1}',
    "num_steps: 1000, dt: 0.01",
    "step 12 of 20, ETA: 0:12:30",
    'gmg:result {"step": 3, "loss": 0.5}',
    "Running at 1,024.50 FPS in step 3 of the benchmark",
    "usage: train.py [--epoch 3] [--lr 0.1]",
)


def _read(text: str) -> list[Figures]:
    return list(PairLines().read(text.encode() + b"\n"))


@pytest.mark.parametrize(("line", "metrics"), _METRICS.items())
def test_pairs_on_a_line_with_progress_are_metrics(line: str, metrics: dict[str, float]) -> None:
    (figures,) = _read(line)
    assert figures.metrics == metrics


@pytest.mark.parametrize("line", _PROSE)
def test_prose_and_options_are_not_metrics(line: str) -> None:
    assert not any(figures.metrics for figures in _read(line))


@pytest.mark.parametrize(
    "path", [*_SAMPLES.glob("trainers/*"), *_SAMPLES.glob("genesis-*/*")], ids=lambda path: path.name
)
def test_lines_known_to_other_readers_give_no_pairs(path: Path) -> None:
    allowed = {"train_loss"} if "lightning" in path.name else set()
    assert {name for figures in _read(path.read_text()) for name in figures.metrics} <= allowed


def test_progress_without_a_total_is_the_step_of_the_metrics() -> None:
    reader = Reader(started=0.0)
    reader.feed(b"epoch 3/60\nstep 100 loss 0.5\nepoch 4/60 loss 0.4\n", 1.0)
    assert reader.fresh_metrics() == [("loss", 0.5, 100), ("loss", 0.4, 4)]
    assert (reader.progress.done, reader.progress.total, reader.progress.unit) == (4.0, 60.0, "epoch")


def test_a_known_trainer_or_a_pattern_with_metrics_is_read_alone() -> None:
    reader = Reader(started=0.0)
    reader.feed(b"fps step: 7 fps total: 15 epoch: 1/12 frames: 256\nepoch 2/12 loss: 0.5\n", 1.0)
    reader.feed(b"epoch 3/12 loss: 0.5\n", 2.0)
    assert reader.fresh_metrics() == []


def test_lines_between_genesis_rates_are_read_however_many_rates_follow() -> None:
    rate = b"[Genesis] [07:00:23] [INFO] Running at 1,000.00 FPS (10.00 FPS per env, 100 envs).\n"
    reader = Reader(started=0.0)
    reader.feed(rate, 1.0)  # while it starts, it is read line by line
    reader.feed(b"epoch 3/10 loss 0.5\n" + 150 * rate, 2.0)
    assert (reader.metrics, reader.n_envs) == ({"loss": 0.5}, 100)
    assert reader.fps.samples == 151
