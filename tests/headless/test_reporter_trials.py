"""What the reporter prints for a tuning: its steps, its trials and its answer."""

import pytest
from msgspec.structs import replace

from gmg_tui.headless.reporter import Reporter
from gmg_tui.model import TrialState, Tuning
from gmg_tui.results.report_text import render_end
from tests import tunings


def _printed(*steps: Tuning) -> list[list[str]]:
    reporter = Reporter(tunings.session(steps[0]))
    return [list(reporter.report_trials(tuning)) for tuning in steps]


def test_a_start_an_end_and_a_step_are_reported_once_each() -> None:
    first, again, ladder, same = _printed(tunings.FIRST, tunings.FIRST, tunings.LADDER, tunings.LADDER)
    assert first == ["n_envs: doubled values, while that is faster", "gpu0   trial 1: n_envs=64 starts (ladder)"]
    assert again == same == []
    assert ladder == [
        "gpu0   trial 1: n_envs=64 measured 133,472 FPS ±0.9 %, 481 MiB",
        "gpu1   trial 2: n_envs=256 starts (ladder)",
        "gpu1   trial 2: n_envs=256 measured 521,484 FPS ±0.9 %, 632 MiB",
        "gpu2   trial 3: n_envs=1,024 starts (ladder)",
        "gpu2   trial 3: n_envs=1,024 measured 1,916,211 FPS ±0.9 %, 1.2 GiB",
        "gpu3   trial 4: n_envs=4,096 starts (ladder)",
        "gpu3   trial 4: n_envs=4,096 measured 5,696,782 FPS ±0.9 %, 3.6 GiB",
        "n_envs: ladder: up to 16,384 (about 5:12 left)",
        "gpu4   trial 5: n_envs=8,192 starts (ladder)",
        "gpu5   trial 6: n_envs=16,384 starts (ladder)",
        "gpu6   trial 7: n_envs=4,096 starts (common)",
    ]


def test_the_trials_before_a_tuning_was_resumed_are_not_reported_again() -> None:
    (reported,) = _printed(replace(tunings.LADDER, earlier=4))
    assert [line.split(":")[0] for line in reported if "trial" in line] == [
        f"gpu{n}   trial {n + 1}" for n in (4, 5, 6)
    ]


def test_a_failure_shows_its_reason_and_a_trial_that_never_ran_has_no_start() -> None:
    _, reported = _printed(tunings.LADDER, tunings.EDGE)
    assert f"gpu7   trial 10: n_envs=20,000 failed: {tunings.OUT_OF_MEMORY}" in reported
    skipped = [line for line in reported if "trial 14" in line]
    assert skipped == ["gpu6   trial 14: n_envs=15,000 skipped: gpu6 was throttled: measured again"]


def test_a_repeated_trial_is_reported_again() -> None:
    running = replace(tunings.FIRST, trials=(tunings.measuring(1, 64, "gpu0"),))
    skipped = replace(running, trials=(replace(running.trials[0], state=TrialState.SKIPPED, reason="lost"),))
    reported = _printed(running, skipped, running)
    assert reported[1] == ["gpu0   trial 1: n_envs=64 skipped: lost"]
    assert reported[2] == ["gpu0   trial 1: n_envs=64 starts (ladder)"]


def test_the_answer_is_a_short_table_with_the_command() -> None:
    assert render_end(tunings.session(tunings.ENDED), tunings.snapshot(tunings.ENDED)) == [
        "n_envs = 15,000 on 8 slots: 86,011,956 FPS ±0.4 %, 98.9 % of their rate alone",
        "answer       n_envs         FPS      ±  VRAM GiB  GPU %    W  FPS/W",
        "recommended  15,000  10,975,342  0.6 %      12.0     97  610  18.0k",
        "fastest      17,000  11,443,958  0.6 %      13.5     97  610  18.8k",
        "largest      18,000  11,126,934  0.6 %      14.3     97  610  18.2k",
        f"limit: 20,000 did not run: {tunings.OUT_OF_MEMORY}",
        "slots: gpu5 −8.0 %",
        "warning: gpu5 is 8 % slower than the other GPUs of its model",
        "n_envs also affects what is learned, not just how fast.",
        "run it: gmg-tui franka.py -B 15000 --seed '{seed}'",
        "tuning: /home/me/.local/state/gmg-tui/sessions/tune-1/tune.json",
        "logs: /home/me/.local/state/gmg-tui/sessions/tune-1/logs/",
    ]


def test_a_missing_answer_is_reported() -> None:
    ended = replace(tunings.FIRST, ended=True)
    assert render_end(tunings.session(ended), tunings.snapshot(ended))[0] == "no value of n_envs was measured"


@pytest.mark.parametrize(
    ("tuning", "status"),
    [
        (tunings.ENDED, 0),
        (replace(tunings.EDGE, ended=True, stopped=True), 130),
        (replace(tunings.FIRST, ended=True), 1),
    ],
)
def test_failed_trials_do_not_fail_the_tuning(tuning: Tuning, status: int) -> None:
    assert tunings.snapshot(tuning).exit_status == status
