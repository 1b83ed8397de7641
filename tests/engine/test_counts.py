"""The current rate from the probe's counts, in made-up time: that of whole periods over about ten seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from gmg_tui.engine.attempts.counts import PREFIX, Counts, make_folder
from gmg_tui.probe.site import gmg_probe

SECOND_NS = 1_000_000_000
LOOPS = {"one step": (1, 0.02, 0.0), "a step each second": (1, 1.0, 0.0), "learning": (24, 0.002, 0.15), "long": (24, 0.05, 5.0)}  # fmt: skip


def _periods(loop: str, pauses: bool) -> Iterator[list[float]]:
    """The pauses before the steps of each period, seconds; one of them begins with a pause that is longer than usual."""
    count, step_s, learning_s = LOOPS[loop]
    passed_s, paused = 0.0, not pauses
    while passed_s < 70:
        late_s = 2.0 + learning_s if passed_s > 20 and not paused else 0.0
        paused = paused or late_s > 0
        yield [learning_s + step_s + late_s, *[step_s] * (count - 1)]
        passed_s += learning_s + late_s + count * step_s


@pytest.mark.parametrize(
    ("loop", "pauses", "near"),
    [*((loop, False, 0.01) for loop in LOOPS), ("one step", True, 0.01), ("learning", True, 0.03)],
)
def test_the_current_rate_covers_whole_periods_also_after_a_long_pause(
    loop: str, pauses: bool, near: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns, look_ns = SECOND_NS, 2 * SECOND_NS
    monkeypatch.setattr(gmg_probe, "monotonic_ns", lambda: now_ns)
    monkeypatch.setattr(gmg_probe, "folder", str(tmp_path))
    monkeypatch.setattr(gmg_probe, "_counts", gmg_probe._Counts())  # type: ignore[no-untyped-call]
    step = gmg_probe._counting(lambda _: None, "num_envs", "vector")  # type: ignore[no-untyped-call]
    environment = SimpleNamespace(num_envs=8)
    seen, ends, counts, done = [], [], Counts(tmp_path), 0
    for period in _periods(loop, pauses):
        for pause_s in period:
            if (
                pause_s < 2 + LOOPS[loop][2] and now_ns + pause_s * SECOND_NS > look_ns
            ):  # during a long one it is the rate so far
                counts.read(now_ns / SECOND_NS)
                seen.append((now_ns / SECOND_NS, counts.rate))
                look_ns = now_ns + SECOND_NS
            now_ns += round(pause_s * SECOND_NS)
            step(environment)
            done += 8
        ends.append((now_ns / SECOND_NS, done))
    longest_s = 10 + 3 + len(LOOPS[loop]) + sum(LOOPS[loop][1:])
    for at, rate in seen:
        windows = [
            (steps - before) / (end - begin)
            for end, steps in ends
            if at - max(4.0, LOOPS[loop][2] + 2) < end <= at + 0.01
            for begin, before in ends
            if 8 <= end - begin <= longest_s
        ]
        if windows and at > 30:
            assert rate is not None
            assert (1 - near) * min(windows) <= rate <= (1 + near) * max(windows), (
                at,
                rate,
                min(windows),
                max(windows),
            )
    last = counts.rate
    counts.read(now_ns / SECOND_NS)
    for second in range(40):  # it takes long to end
        counts.read(now_ns / SECOND_NS + second)
    counts.close()
    assert counts.rate == pytest.approx(last, rel=0.1)
    assert counts.env_steps == done - 8  # the time is that from the end of the first step


def test_files_of_killed_engines_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    dead = next(pid for pid in range(2, 1 << 22) if not psutil.pid_exists(pid))
    left, other = tmp_path / f"{PREFIX}{dead}-abc", tmp_path / f"{PREFIX}{os.getpid()}-abc"
    for folder in (left, other):
        folder.mkdir()
    made = make_folder()
    assert made is not None
    assert made.parent == tmp_path
    assert not left.exists()
    assert other.exists()
