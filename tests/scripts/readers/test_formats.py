"""The lines of trainers, by samples of real output, and users' formats."""

import re
from pathlib import Path

import pytest

from gmg_tui.model import Progress, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts.genesis.output.reader import Reader
from gmg_tui.scripts.readers import formats
from gmg_tui.scripts.readers.formats import Format, FormatLines, check, from_settings
from gmg_tui.scripts.readers.interface import Figures, number
from tests.workers import texts

_SAMPLES = Path(__file__).parents[2] / "samples" / "trainers"


def _after(name: str, *args: str) -> Reader:
    """A reader that has read a sample, a line each tenth of a second."""
    (path,) = _SAMPLES.glob(f"{name}-*.log")
    reader = Reader(started=0.0, args=args)
    for index, line in enumerate(path.read_bytes().splitlines(keepends=True)):
        reader.feed(line, index / 10)
    return reader


_OF_RSL_RL = {"reward", "episode_length", "action_std", "collection_time_s", "learning_time_s"}


@pytest.mark.parametrize(
    ("name", "last", "env_steps", "done", "metrics"),
    [
        ("rsl_rl", 6630.0, 576.0, Progress(4.0, 4.0, "iteration"), _OF_RSL_RL),
        ("rl_games", 17674.0, 2816.0, Progress(12.0, 12.0, "epoch"), set()),
        ("stable_baselines3", 895.0, 2048.0, Progress(3072.0, 8192.0, "step"), {"reward", "episode_length"}),
        ("skrl", None, None, Progress(1500.0, 1500.0, "it"), set()),
        ("lightning", None, None, Progress(80.0, 80.0, "batch"), {"epoch", "train_loss"}),
    ],
)
def test_real_output_of_trainers_is_parsed(
    name: str, last: float | None, env_steps: float | None, done: Progress, metrics: set[str]
) -> None:
    reader = _after(name, "--total-timesteps", "8192")
    fps = reader.fps
    assert (fps and fps.last, fps and fps.env_steps) == (last, env_steps)
    assert (reader.progress.done, reader.progress.total, reader.progress.unit) == (done.done, done.total, done.unit)
    assert set(reader.metrics) == metrics
    assert reader.state is WorkerState.RUNNING
    assert reader.had_progress


def test_a_training_that_is_one_compiled_loop_prints_its_rate_and_its_results() -> None:
    reader = _after("brax")
    assert reader.fps.last == 10010.37240034243
    assert reader.metrics == {"reward": 20.640625, "episode_length": 20.640625}


def test_each_format_names_its_source_and_is_valid() -> None:
    for name, row in formats.built_in().items():
        check(row.lines, name)
        assert row.source, name
        assert row.words, f"{name}: a flood of other lines would be matched"


@pytest.mark.parametrize(
    ("line", "metrics", "last", "steps"),
    [
        ("SPS: 5312", {}, 5312.0, None),
        ("global_step=4096, episodic_return=[123.5]", {"reward": 123.5}, None, 4096.0),
        ("1024000: reward=12.345", {"reward": 12.345}, None, 1024000.0),
        ("Epoch 3:  43%|####3 | 43/100 [00:04<00:05, 10.20it/s, v_num=0, train_loss=0.3]", {"epoch": 3.0, "train_loss": 0.3}, None, None),
    ],
)  # fmt: skip
def test_lines_without_a_sample(line: str, metrics: dict[str, float], last: float | None, steps: float | None) -> None:
    trainers = [FormatLines(row, built_in=True) for row in formats.built_in().values()]
    parsed = [figures for trainer in trainers for figures in trainer.read(line.encode())]
    merged = {name: value for figures in parsed for name, value in figures.metrics.items()}
    assert merged == metrics
    assert [rate for figures in parsed for rate in figures.rates] == ([last] if last else [])
    assert [figures.steps for figures in parsed if figures.steps] == ([steps] if steps else [])


def test_printed_environments_count_unless_a_better_source_exists() -> None:
    reader = Reader(started=0.0)
    reader.feed(b"{'seed': 1, 'num_envs': 64, 'eval_num_envs': 8}\n", 1.0)
    assert reader.n_envs == 64
    reader.feed(b"[Genesis] [07:00:00] [INFO] Running at 100.00 FPS (10.00 FPS per env, 10 envs).\n", 2.0)
    reader.feed(b"num_envs: 64\n", 3.0)
    assert reader.n_envs == 10


def _read(text: str, *patterns: str) -> list[Figures]:
    return list(FormatLines(Format(lines=check(patterns))).read(text.encode()))


def test_named_groups_give_the_figures() -> None:
    pattern = r"step (?P<done>\d+)/(?P<total>\d+): (?P<fps>[\d,.]+k?) sps on (?P<n_envs>\d+) worlds, loss (?P<metric_loss>\S+)"
    figures = _read("step 30/600: 1,250.5k sps on 4096 worlds, loss 2.5e-3\n", pattern)
    assert figures == [Figures((1_250_500.0,), None, 4096, 30.0, 600.0, "step", {"loss": 0.0025})]


def test_each_line_is_matched_with_all_patterns_and_without_colours() -> None:
    figures = _read("\x1b[32mfps\x1b[0m: 10\nworlds: 5\nneither\n", r"fps: (?P<fps>\d+)", r"worlds: (?P<n_envs>\d+)")
    assert figures == [Figures((10.0,)), Figures(n_envs=5)]


@pytest.mark.parametrize("text", ["fps: nan", "fps: inf", "fps: -5", "fps: 1e400", "fps: abc", "fps: 1.2.3"])
def test_values_that_are_not_rates_are_ignored(text: str) -> None:
    assert [figures.rates for figures in _read(text, r"fps: (?P<fps>\S+)")] == [()]


@pytest.mark.parametrize(
    ("line", "metric", "expected"),
    [
        ("                            Mean reward: nan", "reward", "nan"),
        ("                      Mean total reward: -inf", "reward", "-inf"),
        ("| rollout/ep_rew_mean  ep_rew_mean | nan |", None, None),
        ("|    ep_rew_mean     | nan          |", "reward", "nan"),
        ("global_step=4096, episodic_return=[nan]", "reward", "nan"),
        ("8192: reward=nan", "reward", "nan"),
        ("'eval/episode_reward': Array(nan, dtype=float32)", "reward", "nan"),
        ("Epoch 3:  10%|#   | 8/80 [00:01<00:10, 7.2it/s, train_loss=nan.0]", "train_loss", "nan"),
        ('gmg:fps {"fps": 100.0, "reward": NaN}', "reward", "nan"),
        ('gmg:fps {"fps": 100.0, "reward": -inf}', "reward", "-inf"),
    ],
)
def test_numbers_that_are_not_finite_replace_the_last_finite_one(line: str, metric: str | None, expected: str) -> None:
    reader = Reader(started=0.0)
    reader.feed(b"Mean reward: 6\n|    ep_rew_mean     | 6          |\n", 1.0)
    reader.feed(line.encode() + b"\n", 2.0)
    assert metric is None or str(reader.metrics[metric]) == expected
    newest = {name: value for name, value, _ in reader.fresh_metrics()}
    assert str(newest.get(metric or "reward")) == (expected or "6.0")


def test_number_formats_of_scripts() -> None:
    texts = {"1,234.5": 1234.5, "1_000": 1000.0, "5.7M": 5.7e6, "12k": 12e3, "1e6": 1e6, "-2": -2.0, ".5": 0.5}
    assert {text: number(text) for text in texts} == pytest.approx(texts)
    assert [number(text) for text in ("", "k", "1.2.3", "0x10", "1 2", "5,7", "1,23,456")] == [None] * 7


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (("(?P<fps>",), "not a regular expression: missing ), unterminated subpattern at position 0"),
        ((r"(?P<fps>\d)|(?P<fps>.)",), "not a regular expression: redefinition of group name 'fps'"),
        (("(?P<fps>\udcff)",), "not a regular expression: "),
        ((r"(?P<fps>\d+)(?= FPS)",), "RE2 has no look-around"),
        ((r"(?P<fps>\d+) (?P=fps)",), "back-references or possessive repetition: invalid"),
        ((r"fps: (\d+)",), "no named group; use (?P<fps>…)"),
        (("",), "no named group"),
        ((r"(?P<speed>\d+)",), "unknown group speed; use"),
        ((r"(?P<metric_>\d+)",), "unknown group metric_"),
        ((r"/(?P<total>\d+)",), "total needs done"),
    ],
)
def test_an_invalid_pattern_is_refused_in_one_line(patterns: tuple[str, ...], message: str) -> None:
    with pytest.raises(GmgError, match=re.escape(message)) as error:
        check(patterns, "config.toml line 3")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"config.toml line 3 '{patterns[0]}': ")


def test_patterns_take_linear_time() -> None:
    patterns = r"(?P<fps>(a+)+b)", r"^(?P<metric_loss>(?:\w+\s?)*)!$", r"end (?P<steps>\d+)"
    assert _read(f"{'a' * 8000} end 7\n" * 100, *patterns) == [Figures(steps=7.0, done=7.0)] * 100


def test_a_reader_uses_the_matches_of_a_pattern() -> None:
    pattern = r"it (?P<done>\d+)/(?P<total>\d+) (?P<fps>\d+) sps n=(?P<n_envs>\d+) r=(?P<metric_reward>\S+)"
    reader = Reader(started=0.0, formats=from_settings({}, check([pattern])))
    for second in range(1, 21):
        reader.feed(f"it {second}/40 {1000 * second} sps n=64 r={second}.5\n".encode(), float(second))
    assert (reader.fps.last, reader.fps.samples, reader.fps.max, reader.n_envs) == (20_000.0, 20, 20_000.0, 64)
    assert reader.fps.settled == pytest.approx(15_500.0), "of the last ten seconds"
    assert (reader.state, reader.had_progress) == (WorkerState.RUNNING, True)
    assert reader.progress == Progress(20.0, 40.0, "step", 20.0, 1.0)
    assert reader.fresh_metrics()[-1] == ("reward", 20.5, 20)
    assert reader.fresh_metrics() == []


def test_a_table_of_the_settings_describes_lines() -> None:
    table = {"lines": [r"epoch (?P<done>\d+) of (?P<total>\d+)"], "words": ["epoch"], "unit": "epoch", "first": 0}
    reader = Reader(started=0.0, formats=from_settings({"mine": table}))
    reader.feed(b"epoch 4 of 10\n", 2.0)
    assert reader.progress == Progress(5.0, 10.0, "epoch")


def test_an_unmatched_pattern_is_reported_once_the_script_runs_or_has_ended() -> None:
    rows = from_settings({"other": {"lines": [r"(?P<fps>\d+) Hz"]}}, [r"FPS=(?P<fps>\d+)"])
    short, long, right = (Reader(started=0.0, formats=rows) for _ in range(3))
    for _ in range(5):
        short.feed(b"step 7 fps: 1236\n", 1.0)
    right.feed(b"step 7 FPS=1236\n", 1.0)
    assert short.signs == ()
    short.is_complete = right.is_complete = True
    assert (texts(short.signs), right.signs) == (("no line matches --pattern",), ())
    for second in (1.0, 60.0):
        long.feed(b"step 7 of 10\n", second)
    assert texts(long.signs) == ("no line matches --pattern",)
