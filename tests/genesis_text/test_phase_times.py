"""What is remembered of a script's runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gmg_tui.genesis.phase_times import KEPT, MAX_SCRIPTS, PhaseTimes, key_of
from gmg_tui.model import Phase


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "phase_times.json"


def _building(times: PhaseTimes, seconds: float) -> None:
    times.record([(Phase.BUILDING, seconds)], warm=False)


def _usual(path: Path, key: str) -> float | None:
    return PhaseTimes(path, key).usual(Phase.BUILDING, warm=False)


def test_the_median_of_the_last_runs_is_expected_of_the_next(path: Path) -> None:
    first = PhaseTimes(path, "/a/sim.py on gpu")
    assert first.usual(Phase.COMPILING, warm=False) is None
    for seconds in (1000.0, 100.0, 90.0, 95.0, 110.0, 105.0):
        first.record([(Phase.COMPILING, seconds), (Phase.RUNNING, 3600.0)], warm=False)
    first.save()
    again = PhaseTimes(path, "/a/sim.py on gpu")
    assert again.usual(Phase.COMPILING, warm=False) == 100.0, f"of the last {KEPT}"
    assert again.usual(Phase.RUNNING, warm=False) is None
    assert PhaseTimes(path, "/a/sim.py on cpu").usual(Phase.COMPILING, warm=False) is None


def test_cold_starts_say_nothing_about_warm_ones(path: Path) -> None:
    times = PhaseTimes(path, "a")
    times.record([(Phase.COMPILING, 83.0)], warm=False)
    assert times.usual(Phase.COMPILING, warm=True) is None
    times.record([(Phase.COMPILING, 3.0)], warm=True)
    times.save()
    again = PhaseTimes(path, "a")
    assert [again.usual(Phase.COMPILING, warm=warm) for warm in (False, True)] == [83.0, 3.0]


def test_caches_are_warm_until_genesis_changes_or_they_are_gone(path: Path) -> None:
    times = PhaseTimes(path, "a", "genesis_world-1.4.5")
    assert (times.meshes_written, times.kernels_saved) == (False, False)
    times.simulated()
    assert (times.meshes_written, times.kernels_saved) == (True, False)
    times.saved()
    times.record([(Phase.BUILDING, 1.0)], warm=False)
    times.save()

    same = PhaseTimes(path, "a", "genesis_world-1.4.5")
    assert (same.meshes_written, same.kernels_saved) == (True, True)
    cleaned = PhaseTimes(path, "a", "genesis_world-1.4.5", caches_exist=False)
    assert (cleaned.meshes_written, cleaned.kernels_saved) == (False, False)
    assert cleaned.usual(Phase.BUILDING, warm=False) == 1.0
    updated = PhaseTimes(path, "a", "genesis_world-1.5.0")
    assert (updated.meshes_written, updated.kernels_saved) == (False, False)
    assert updated.usual(Phase.BUILDING, warm=False) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (["-B", "4096"], ["-B", "65_536"], True),
        (["--lr=1e-3", "--seed", "{i}"], ["--lr=0.5", "--seed", "{i}"], True),
        (["--robot", "go2"], ["--robot", "go1"], False),
        (["--fast"], [], False),
    ],
)
def test_arguments_matter_but_for_their_numbers(one: list[str], other: list[str], same: bool) -> None:
    assert (key_of("sim.py", one, "gpu") == key_of("sim.py", other, "gpu")) is same
    assert key_of("sim.py", one, "gpu") != key_of("sim.py", one, "cpu")


def test_two_sessions_do_not_lose_each_others_scripts(path: Path) -> None:
    one, other = PhaseTimes(path, "one"), PhaseTimes(path, "other")
    _building(one, 1.0)
    _building(other, 2.0)
    one.save()
    other.save()
    assert [_usual(path, key) for key in ("one", "other")] == [1.0, 2.0]


def test_the_script_that_ran_longest_ago_is_forgotten(path: Path) -> None:
    for number in range(MAX_SCRIPTS + 2):
        times = PhaseTimes(path, f"script {number}")
        _building(times, 1.0)
        times.save()
        if number == 0:
            continue
        again = PhaseTimes(path, "script 0")
        _building(again, float(number))
        again.save()
    assert _usual(path, "script 0") == MAX_SCRIPTS - 1, "the median of the last five"
    assert _usual(path, "script 1") is None
    assert _usual(path, f"script {MAX_SCRIPTS + 1}") == 1.0


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"[]",
        b'{"a": 1}',
        b"\xff\xff",
        b'{"a": {"cold": {"building scene": "x"}}}',
        b'{"a": {"of another version": %s}}' % (b"[" * 50_000 + b"]" * 50_000),
    ],
)
def test_a_broken_file_is_as_good_as_none_and_is_written_over(path: Path, broken: bytes) -> None:
    path.write_bytes(broken)
    times = PhaseTimes(path, "a")
    assert times.usual(Phase.BUILDING, warm=False) is None
    _building(times, 1.0)
    times.save()
    assert _usual(path, "a") == 1.0


def test_a_pipe_in_its_place_is_not_waited_for_and_is_replaced(path: Path) -> None:
    os.mkfifo(path)
    times = PhaseTimes(path, "a")
    _building(times, 1.0)
    times.save()
    assert _usual(path, "a") == 1.0


def test_what_could_not_be_written_is_written_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "not there" / "phase_times.json"
    times = PhaseTimes(path, "a")
    _building(times, 1.0)
    with pytest.raises(OSError, match="not there"):
        times.save()
    path.parent.mkdir()
    times.save()
    assert _usual(path, "a") == 1.0


@pytest.mark.parametrize("form", [("--seed", "{}"), ("--seed={}",), ("env.seed={}",)])
def test_another_seed_has_kernels_of_its_own(form: tuple[str, ...]) -> None:
    keys = {key_of("a.py", [part.format(seed) for part in form], "cpu") for seed in (1, 2, 1)}
    assert len(keys) == 2
    assert key_of("a.py", ["--seed", "1", "-B", "8"], "cpu") == key_of("a.py", ["--seed", "1", "-B", "64"], "cpu")
