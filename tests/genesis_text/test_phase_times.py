"""How long the phases of a script took the last time."""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.genesis.phase_times import MAX_SCRIPTS, PhaseTimes
from gmg_tui.model import Phase


def test_the_times_of_the_last_run_are_there_for_the_next(tmp_path: Path) -> None:
    path = tmp_path / "phase_times.json"
    first = PhaseTimes.load(path, "/a/sim.py on gpu")
    assert first.usual(Phase.COMPILING) is None
    first.record(Phase.COMPILING, 100.0)
    first.record(Phase.COMPILING, 6.0)
    first.record(Phase.RUNNING, 3600.0)
    first.save()
    again = PhaseTimes.load(path, "/a/sim.py on gpu")
    assert again.usual(Phase.COMPILING) == 6.0
    assert again.usual(Phase.RUNNING) is None
    assert PhaseTimes.load(path, "/a/sim.py on cpu").usual(Phase.COMPILING) is None


def test_two_sessions_do_not_lose_each_others_scripts(tmp_path: Path) -> None:
    path = tmp_path / "phase_times.json"
    one, other = PhaseTimes.load(path, "one"), PhaseTimes.load(path, "other")
    one.record(Phase.BUILDING, 1.0)
    other.record(Phase.BUILDING, 2.0)
    one.save()
    other.save()
    assert PhaseTimes.load(path, "one").usual(Phase.BUILDING) == 1.0
    assert PhaseTimes.load(path, "other").usual(Phase.BUILDING) == 2.0


def test_the_script_that_ran_longest_ago_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "phase_times.json"
    for number in range(MAX_SCRIPTS + 2):
        times = PhaseTimes.load(path, f"script {number}")
        times.record(Phase.BUILDING, 1.0)
        times.save()
        if number == 0:
            continue
        again = PhaseTimes.load(path, "script 0")
        again.record(Phase.BUILDING, float(number))
        again.save()
    assert PhaseTimes.load(path, "script 0").usual(Phase.BUILDING) == MAX_SCRIPTS + 1
    assert PhaseTimes.load(path, "script 1").usual(Phase.BUILDING) is None
    assert PhaseTimes.load(path, f"script {MAX_SCRIPTS + 1}").usual(Phase.BUILDING) == 1.0


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b'{"a": 1}', b"\xff\xff", b'{"a": {"building scene": "x"}}'])
def test_a_broken_file_is_as_good_as_none_and_is_written_over(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "phase_times.json"
    path.write_bytes(broken)
    times = PhaseTimes.load(path, "a")
    assert times.usual(Phase.BUILDING) is None
    times.record(Phase.BUILDING, 1.0)
    times.save()
    assert PhaseTimes.load(path, "a").usual(Phase.BUILDING) == 1.0


def test_what_could_not_be_written_is_written_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "not there" / "phase_times.json"
    times = PhaseTimes.load(path, "a")
    times.record(Phase.BUILDING, 1.0)
    with pytest.raises(OSError, match="not there"):
        times.save()
    path.parent.mkdir()
    times.save()
    assert PhaseTimes.load(path, "a").usual(Phase.BUILDING) == 1.0
