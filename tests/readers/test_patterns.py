"""Progress lines in a script's own words."""

from __future__ import annotations

import re

import pytest

from gmg_tui.errors import GmgError
from gmg_tui.readers import make
from gmg_tui.readers.interface import Figures, number
from gmg_tui.readers.patterns import LINE, Patterns, check


def _read(text: str, *patterns: str) -> list[Figures]:
    return list(Patterns(check(patterns)).read(text.encode()))


def test_named_groups_give_the_figures() -> None:
    pattern = r"step (?P<done>\d+)/(?P<total>\d+): (?P<fps>[\d,.]+k?) sps on (?P<n_envs>\d+) worlds, loss (?P<metric_loss>\S+)"
    found = _read("step 30/600: 1,250.5k sps on 4096 worlds, loss 2.5e-3\n", pattern)
    assert found == [Figures(1_250_500.0, 4096, 30.0, 600.0, {"loss": 0.0025})]


def test_each_line_is_tried_with_all_patterns_and_without_its_colours() -> None:
    found = _read("\x1b[32mfps\x1b[0m: 10\nworlds: 5\nneither\n", r"fps: (?P<fps>\d+)", r"worlds: (?P<n_envs>\d+)")
    assert found == [Figures(fps=10.0), Figures(n_envs=5)]


@pytest.mark.parametrize("text", ["fps: nan", "fps: inf", "fps: -5", "fps: 1e400", "fps: abc", "fps: 1.2.3"])
def test_what_is_no_rate_is_left_out(text: str) -> None:
    assert [one.fps for one in _read(text, r"fps: (?P<fps>\S+)")] == [None]


def test_numbers_as_scripts_write_them() -> None:
    texts = {"1,234.5": 1234.5, "1_000": 1000.0, "5.7M": 5.7e6, "12k": 12e3, "1e6": 1e6, "-2": -2.0, ".5": 0.5}
    assert {text: number(text) for text in texts} == pytest.approx(texts)
    assert [number(text) for text in ("", "k", "1.2.3", "0x10", "nan", "1 2")] == [None] * 6


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        (("(?P<fps>",), "no regular expression: "),
        ((r"fps: (\d+)",), "no named group; use (?P<fps>…)"),
        (("",), "no named group"),
        ((r"(?P<speed>\d+)",), "the group speed has no meaning; use"),
        ((r"(?P<metric_>\d+)",), "the group metric_ has no meaning"),
        ((r"/(?P<total>\d+)",), "total needs done"),
        ((r"(a+)+ (?P<fps>\d+)",), "a repetition inside a repetition may take for ever"),
        ((r"(?:(?:\w*\s?)*)* (?P<fps>\d+)",), "a repetition inside a repetition"),
        ((r"(?:x|(?:[^,]+,)*)+(?P<fps>\d+)",), "a repetition inside a repetition"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_in_one_line(patterns: tuple[str, ...], said: str) -> None:
    with pytest.raises(GmgError, match=re.escape(said)) as error:
        check(patterns, "config.toml line 3")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"config.toml line 3 {patterns[0]!r}: ")


def test_usual_patterns_are_taken() -> None:
    usual = (
        r"(?P<fps>\d+(?:,\d{3}){0,5}(?:\.\d+)?) FPS",
        r"^\[.*?\] (?P<done>\d+) of (?P<total>\d+)",
        r"(?:ab)+(?P<fps>\d+)",
    )
    assert check(usual) == usual


def test_a_pattern_that_is_too_slow_is_used_no_more_and_told() -> None:
    slow, quick = r".*.*.*.*(?P<fps>\d+)!", r"n=(?P<n_envs>\d+)"
    patterns = Patterns(check((slow, quick)))
    block = ("7" * LINE + "\nn=5\n").encode()
    assert [one.n_envs for one in patterns.read(block)] == [5]
    assert patterns.warnings == (f"--pattern {slow!r} takes too long for a line and is not used any more",)
    assert [one.n_envs for one in patterns.read(block)] == [5]


def test_only_the_beginning_of_a_line_is_matched() -> None:
    assert _read("x" * LINE + " fps: 5\n", r"fps: (?P<fps>\d+)") == []


def test_a_reader_counts_what_a_pattern_finds() -> None:
    metrics: list[dict[str, float]] = []
    pattern = r"it (?P<done>\d+)/(?P<total>\d+) (?P<fps>\d+) sps n=(?P<n_envs>\d+) r=(?P<metric_reward>\S+)"
    reader = make(check([pattern]), False, 0.0, metrics=metrics.append)
    for second in range(1, 21):
        assert reader.feed(f"it {second}/40 {1000 * second} sps n=64 r={second}.5\n".encode(), float(second))
    assert reader.fps is not None
    assert (reader.fps.last, reader.fps.samples, reader.fps.max, reader.n_envs) == (20_000.0, 20, 20_000.0, 64)
    assert reader.fps.settled is not None
    assert reader.state.value == "running"
    assert reader.had_progress
    assert reader.progress is not None
    assert (reader.progress.done, reader.progress.total, reader.progress.eta_s) == (20.0, 40.0, pytest.approx(20.0))
    assert metrics[-1] == {"reward": 20.5}


def test_a_pattern_counts_instead_of_the_lines_of_genesis() -> None:
    reader = make(check([r"mine (?P<fps>\d+)"]), False, 0.0)
    reader.feed(b"[Genesis] [07:00:00] [INFO] Running at 100.00 FPS (10.00 FPS per env, 10 envs).\n", 1.0)
    reader.feed(b"mine 7\n", 2.0)
    reader.feed(b"[Genesis] [07:00:01] [INFO] Running at 100.00 FPS (10.00 FPS per env, 10 envs).\n", 3.0)
    assert reader.fps is not None
    assert (reader.fps.last, reader.fps.samples) == (7.0, 1)
