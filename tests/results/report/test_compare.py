"""`gmg-tui report NAME1 NAME2`: different settings, and the rates."""

import csv
import io
import json
import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from msgspec import structs

from gmg_tui.model import Fps, Gpu, JobRecord, NodesSpec, Slot, SweepSpec, Versions, WorkerState
from gmg_tui.results.comparison import parse_arguments
from gmg_tui.results.rate_change import MeasuredRate, compare_rates
from gmg_tui.session.store.database import JobAttempt
from tests import tunings
from tests.results.report import stored
from tests.results.report.stored import report
from tests.session.store import records
from tests.workers import reached


async def _session(
    name: str,
    rates: dict[str, float | None],
    *args: str,
    running_s: float = 60.0,
    versions: Versions | None = None,
    **more: Any,
) -> Path:
    """A session with these rates by slot or job; one without a rate has failed."""
    listed, attempts = [], []
    for number, (slot, rate) in enumerate(rates.items(), 1):
        state = WorkerState.STOPPED if rate is not None else WorkerState.FAILED
        fps = None if rate is None else Fps(rate, rate, rate, 100, rate)
        reason = None if rate is not None else "out of memory"
        times: dict[str, Any] = {"pid": 7, "started": records.START, "ended": records.START + 100, "exit_code": 0}
        attempt = reached(1, args, fps, comparable=running_s >= 10, state=state, reason=reason, **times)
        attempts.append(JobAttempt(number, slot, None, attempt))
        begun: dict[str, Any] = {"slot": slot, "last": attempt, "started": records.START, "reason": reason}
        listed.append(JobRecord(number, slot, state=state, **begun))
    slots = tuple(Slot(slot, Gpu(n, f"GPU-{n}", "NVIDIA H100")) for n, slot in enumerate(rates))
    snapshot = more.pop("snapshot", None if "sweep" in more else stored.snapshot(**rates))
    about = {"slots": slots, "versions": versions}
    spec = {"args": args, **more}
    return await stored.session(name, listed, attempts=attempts, spec=spec, about=about, snapshot=snapshot)


def _lines(*names: str) -> dict[str, list[str]]:
    """The lines of the comparison's tables, by their first cell."""
    out, err, status = report(*names)
    assert (err, status) == ("", 0)
    return {line.split("  ")[0].strip(): line.split()[1:] for line in out.splitlines() if line}


async def test_changed_arguments_and_their_effect_on_the_rate() -> None:
    await _session(
        "old", {"gpu0": 1000.0, "gpu1": 1010.0}, "-B", "64", "--fast", versions=Versions("3.11", torch="2.8")
    )
    newer = Versions("3.11", torch="2.9")
    await _session("new", {"gpu0": 1100.0, "gpu1": 1116.0}, "-B", "64", versions=newer, env={"A": "1"})
    lines = _lines("old", "new")
    assert lines["torch"] == ["2.8", "2.9"]
    assert lines["--fast"] == ["yes", "–"]
    assert lines["$A"] == ["–", "1"]
    assert lines["gpu0"] == ["1,000", "1,100", "+10.0", "%"]
    assert lines["total"] == ["2,010", "2,216", "+10.2", "%"]
    assert "Python" not in lines
    data = json.loads(report("old", "new", "--json")[0])
    assert {difference["name"]: difference["values"] for difference in data["differences"]}["torch"] == ["2.8", "2.9"]
    assert data["slots"][0] == {"slot": "gpu0", "fps_mean": [1000.0, 1100.0], "change_pct": [0.0, 10.0]}
    table = list(csv.DictReader(io.StringIO(report("old", "new", "--csv")[0])))
    assert (table[0]["key"], table[0]["new_fps"], table[0]["new_change_pct"]) == ("gpu0", "1100.0", "10.0")


async def test_sessions_that_cannot_be_compared_are_reported_and_failed_workers_excluded() -> None:
    await _session("old", {"gpu0": 1000.0, "gpu1": None}, simulate=2)
    await _session("new", {"gpu0": 2000.0}, script="other.py", running_s=3.0)
    out = report("old", "new")[0]
    assert "not comparable: different scripts do different work in a step" in out
    assert "not comparable: only old ran on simulated GPUs" in out
    assert "old: excluded (failed): gpu1" in out
    assert "new: excluded (ran for less than 10 s): gpu0" in out
    assert "%" not in out


async def test_excluded_workers_are_in_no_total() -> None:
    await _session("old", {"gpu0": 1000.0, "gpu1": 1010.0})
    await _session("new", {"gpu0": 1100.0, "gpu1": None})
    lines = report("old", "new")[0].splitlines()
    assert "new: excluded (failed): gpu1" in lines
    assert [line.split() for line in lines if line.startswith("total")] == [
        ["total", "of", "1", "slot", "1,000", "1,100", "+10.0", "%"]
    ]
    data = json.loads(report("old", "new", "--json")[0])
    assert [each["total_fps"] for each in data["sessions"]] == [2010.0, 1100.0]


async def test_the_jobs_of_sweeps_are_compared_one_by_one_and_have_no_total() -> None:
    sweep = SweepSpec()
    await _session("old", {"n=1": 1000.0, "n=2": 5000.0}, sweep=sweep)
    await _session("new", {"n=2": 5500.0, "n=1": 1100.0}, sweep=sweep)
    lines = _lines("old", "new")
    assert lines["n=2"] == ["5,000", "5,500", "+10.0", "%"]
    assert "total" not in lines


async def test_tunings_are_compared_by_their_values() -> None:
    of_tuning = structs.replace(stored.snapshot(), tuning=tunings.ENDED)
    more: dict[str, Any] = {"sweep": SweepSpec(), "snapshot": of_tuning}
    rates = {"n_envs=64,gpu0": 900.0, "n_envs=64,gpu1": 1100.0, "n_envs=256,gpu0": 600.0}
    await _session("five", dict(rates), tune=tunings.SPEC, **more)
    await _session("ten", {"n_envs=64,gpu3": 1500.0}, tune=structs.replace(tunings.SPEC, knee_pct=10.0), **more)
    lines = _lines("five", "ten")
    assert lines["n_envs=64"] == ["1,000", "1,500", "+50.0", "%"]
    assert lines["n_envs=256"] == ["600", "–", "–"]
    assert lines["tune knee_pct"][-1] == "10.0"


async def test_a_value_whose_trials_are_all_short_is_named_once() -> None:
    of_tuning = structs.replace(stored.snapshot(), tuning=tunings.ENDED)
    short = {"n_envs=64,gpu0": 9.0, "n_envs=64,gpu1": 9.0}
    for name in ("one", "two"):
        await _session(name, dict(short), running_s=1.0, tune=tunings.SPEC, sweep=SweepSpec(), snapshot=of_tuning)
    assert "one: excluded (ran for less than 10 s): n_envs=64\n" in report("one", "two")[0]


async def test_a_slower_session_fails_the_command_but_an_equal_one_does_not() -> None:
    rates = {f"gpu{n}": 1000.0 + n for n in range(4)}
    await _session("old", dict(rates))
    await _session("same", {name: rate * (0.995 if name == "gpu1" else 1.004) for name, rate in rates.items()})
    await _session("slow", {name: rate * (0.95 if name == "gpu1" else 0.94) for name, rate in rates.items()})
    out, err, status = report("old", "same", "--fail-below", "3")
    assert (err, status) == ("", 0)
    assert "no difference beyond the noise" in out
    out, err, status = report("old", "slow", "--fail-below", "3")
    assert (err, status) == ("gmg-tui: slow: more than 3 % slower than old\n", 1)
    assert "slow: −5.8 % against old (95 %: " in out
    assert json.loads(report("old", "slow", "--json")[0])["changes"][0]["pairs"] == 4
    assert report("old", "--fail-below", "3")[2] == 2
    assert report("old", "slow", "--fail-below", "nan")[2] == 2


def _run(chance: random.Random, mean: float, seconds: int = 120) -> MeasuredRate:
    """A run whose rate varies by 2 % from second to second, and by 0.5 % from run to run."""
    true = mean * chance.gauss(1, 0.005)
    each = [true * chance.gauss(1, 0.02) for _ in range(seconds + 10)]
    settled = [fmean(each[second : second + 10]) for second in range(seconds)]
    return MeasuredRate(fmean(each), [fmean(settled[first : first + 10]) for first in range(10, seconds, 10)])


@pytest.mark.parametrize("slots", [1, 2, 4, 8])
def test_equal_sessions_rarely_fail_and_slower_ones_nearly_always(slots: int) -> None:
    chance = random.Random(slots)
    fails = dict.fromkeys((1.0, 0.95), 0)
    for share in fails:
        for _ in range(200):
            before, after = ({f"gpu{n}": _run(chance, mean) for n in range(slots)} for mean in (1e6, share * 1e6))
            made = compare_rates(before, after)
            fails[share] += made.is_slower(3)
    assert fails[1.0] <= 10
    assert fails[0.95] >= 180


async def test_many_sessions_drop_columns_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"a-session-with-a-long-name-{number}" for number in range(5)]
    for number, name in enumerate(names):
        await _session(name, {"gpu0": 1000.0 + number}, "-B", str(number))
    monkeypatch.setattr("gmg_tui.results.table.stdout_format", lambda: (80, False))
    out = report(*names)[0]
    assert "no room for: " in out
    table = out.split("\n\n")[2].splitlines()
    assert max(map(len, table[:2])) <= 80
    assert len(json.loads(report(*names, "--json")[0])["sessions"]) == 5


async def test_hostile_text_is_shown_literally(tmp_path: Path) -> None:
    await _session("old", {"gpu0": 1000.0}, "--name", "x")
    await _session("new", {"gpu0": 1000.0}, "--name", stored.HOSTILE)
    assert "\x1b" not in report("old", "new")[0]
    page = tmp_path / "page.html"
    assert report("old", "new", "--html", str(page))[2] == 0
    assert "<script>document" not in page.read_text()


async def test_nodes_are_shown_as_given() -> None:
    await _session("one", {"gpu0": 1000.0})
    await _session("two", {"n1/gpu0": 1000.0}, nodes=NodesSpec("local:2"))
    assert _lines("one", "two")["gmg-tui --nodes"][1:] == ["–", "local:2"]


def test_arguments_are_known_by_their_options() -> None:
    parsed = parse_arguments(["in.xml", "-B", "64", "--lr=1e-3", "--fast", "--seed", "-1", "out"])
    assert parsed == {"arguments": "in.xml out", "-B": "64", "--lr": "1e-3", "--fast": "yes", "--seed": "-1"}
