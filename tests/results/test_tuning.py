"""`tune.json` has its form, is read back as it was meant, and a file that is none gives one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gmg_tui.errors import GmgError
from gmg_tui.model import Best, Edge, MemoryLine, Together, Trial, Tuning
from gmg_tui.results import tuning as file
from tests import tunings


def _told(tuning: Tuning, **names: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.encoded(tuning, **names))
    return found


def _has(whole: object, part: object) -> bool:
    """Whether `whole` says all that `part` says."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and _has(whole[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(_has, whole, part))
    return whole == part


def test_a_tuning_in_full() -> None:
    trial = tunings.measured(
        1, 4096, "gpu0", rate=23_900_000.0, rate_low=23_700_000.0, rate_high=24_100_000.0, memory_mib=3578.0
    )
    answer = replace(
        tunings.ENDED.answers[0],
        fastest=Best(17_000, 11_500_000.0),
        knee=Best(15_000, 10_970_000.0),
        largest=Best(18_000),
        edge=Edge(20_000, "CUDA out of memory"),
        memory=MemoryLine(430.0, 0.79),
        together=Together(17_000, 91_000_000.0, 98.9),
    )
    command = ("gmg-tui", "sim.py", "-B", "17000")
    found = _told(Tuning(tunings.SPEC, "", (trial,), (answer,), command=command), session="tune-1", script="sim.py")
    assert list(found) == [
        *("session", "script", "variable", "metric", "goal", "trials"),
        *("fastest", "knee", "largest", "edge", "memory", "together", "command", "models"),
    ]
    expected = {
        "session": "tune-1",
        "script": "sim.py",
        "variable": "n_envs",
        "metric": "fps",
        "goal": "max",
        "trials": [
            {
                "value": 4096,
                "slot": "gpu0",
                "state": "measured",
                "rate": 23_900_000.0,
                "rate_low": 23_700_000.0,
                "rate_high": 24_100_000.0,
                "memory_mib": 3578.0,
                "gpu_util_pct": 60.48,
                "power_w": 346.533,
                "start_s": 41.0,
                "measured_s": 12.0,
                "reason": None,
            }
        ],
        "fastest": {"value": 17_000, "rate": 11_500_000.0},
        "knee": {"value": 15_000, "rate": 10_970_000.0},
        "largest": {"value": 18_000},
        "edge": {"value": 20_000, "reason": "CUDA out of memory"},
        "memory": {"base_mib": 430.0, "per_unit_mib": 0.79},
        "together": {"rate": 91_000_000.0, "of_alone_pct": 98.9},
        "command": ["gmg-tui", "sim.py", "-B", "17000"],
    }
    assert _has(found, expected), found


def test_what_is_not_known_is_null() -> None:
    found = _told(tunings.FIRST)
    unknown = ("session", "script", "fastest", "knee", "largest", "edge", "memory", "together", "command")
    assert {name: found[name] for name in unknown} == dict.fromkeys(unknown)
    (trial,) = found["trials"]
    figures = ("rate", "rate_low", "rate_high", "memory_mib", "gpu_util_pct", "power_w", "start_s", "measured_s")
    assert {name: trial[name] for name in figures} == dict.fromkeys(figures)
    assert trial["state"] == "running"


def test_of_several_models_that_of_the_most_slots_is_at_the_top() -> None:
    found = _told(tunings.TWO_MODELS)
    assert [model["model"] for model in found["models"]] == [tunings.H100, tunings.A100]
    assert found["fastest"] == found["models"][0]["fastest"]
    assert found["models"][1]["fastest"]["value"] == 8192


@pytest.mark.parametrize("name", ["FIRST", "LADDER", "EDGE", "ENDED", "MINIMUM", "TWO_MODELS"])
def test_it_is_read_back(tmp_path: Path, name: str) -> None:
    meant: Tuning = getattr(tunings, name)
    file.write(tmp_path, meant, session="tune-1", script="sim.py")
    found = file.read(tmp_path)
    assert found is not None
    assert (found.session, found.script) == ("tune-1", "sim.py")
    assert file.plain(found.tuning) == file.plain(meant)
    assert list(tmp_path.iterdir()) == [tmp_path / file.TUNE]


def test_without_the_file_nothing_was_tuned(tmp_path: Path) -> None:
    assert file.read(tmp_path) is None


_WHOLE = file.encoded(tunings.ENDED, session="tune-1", script="sim.py")


@given(st.integers(0, len(_WHOLE) - 3))
@settings(deadline=None, max_examples=60)
def test_a_cut_file_gives_one_line(tmp_path_factory: pytest.TempPathFactory, end: int) -> None:
    folder = tmp_path_factory.mktemp("cut")
    (folder / file.TUNE).write_bytes(_WHOLE[:end])
    with pytest.raises(GmgError, match="is not a tuning") as raised:
        file.read(folder)
    assert "\n" not in str(raised.value)


def _with(**changes: Any) -> bytes:
    return json.dumps({**json.loads(_WHOLE), **changes}).encode()


def _trial(**changes: Any) -> bytes:
    (first, *_) = json.loads(_WHOLE)["trials"]
    return _with(trials=[{**first, **changes}])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b"\xff\xfe",
        b"{}",
        _with(trials={}),
        _with(goal="median"),
        _with(models=[1]),
        _with(command="rm -rf"),
        _trial(value="4096"),
        _trial(value=1 << 80),
        _trial(value=1 << 63),
        _trial(rate="fast"),
        _trial(state="gone"),
        b" " * (9 << 20),
    ],
    ids=range(15),
)
def test_a_hostile_file_gives_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / file.TUNE).write_bytes(data)
    with pytest.raises(GmgError, match="is not a tuning") as raised:
        file.read(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_pipe_or_a_folder_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / file.TUNE)
    with pytest.raises(GmgError, match="cannot be read"):
        file.read(tmp_path)


_figures = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@given(_figures, _figures, st.none() | st.text())
@settings(deadline=None)
def test_any_figure_is_json(rate: float | None, power_w: float | None, reason: str | None) -> None:
    trial = Trial(1, 64, "gpu0", tunings.FIRST.trials[0].kind, rate=rate, power_w=power_w, reason=reason)
    data = file.encoded(replace(tunings.FIRST, trials=(trial,)))
    json.loads(data, parse_constant=lambda text: pytest.fail(text))
