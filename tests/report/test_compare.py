"""`gmg-tui report NAME1 NAME2` as a real process, on stores as engines leave them."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from gmg_tui.model import (
    Answer,
    Attempt,
    AttemptMetrics,
    Batch,
    Best,
    Fps,
    Gpu,
    JobRecord,
    LauncherKind,
    NodesSpec,
    Slot,
    SlotKind,
    SweepSpec,
    TuneSpec,
    Tuning,
    Versions,
    WorkerState,
)
from gmg_tui.report.compare.settings import arguments
from gmg_tui.results import tuning
from gmg_tui.store.records import JobAttempt
from tests.store import records

from . import stored


async def _gmg(*words: str, columns: int = 120) -> tuple[str, str, int | None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gmg_tui", "report", *words),
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "COLUMNS": str(columns)},
    )
    out, err = await process.communicate()
    return out.decode(), err.decode(), process.returncode


async def _session(
    name: str,
    rates: dict[str, float | None],
    *args: str,
    running_s: float = 60.0,
    versions: Versions | None = None,
    driver: str | None = None,
    state: WorkerState = WorkerState.STOPPED,
    **spec: Any,
) -> Path:
    """A plain run with these settled rates by slot; one without a rate has failed."""
    listed, attempts = [], []
    for number, (slot, rate) in enumerate(rates.items(), 1):
        state = state if rate is not None else WorkerState.FAILED
        fps = None if rate is None else Fps(rate, rate, rate, 100, rate)
        reason = None if rate is not None else "out of memory"
        listed.append(
            JobRecord(number, slot, state=state, slot=slot, fps=fps, n_envs=64, started=records.START, reason=reason)
        )
        metrics = AttemptMetrics(1, args, fps=rate, settled=rate, given=args, running_s=running_s)
        end = records.START + 100
        attempt = Attempt(1, args, 7, records.START, end, 0, state, reason, metrics)
        attempts.append(JobAttempt(number, slot, None, None, attempt))
    slots = tuple(
        Slot(slot, SlotKind.GPU, Gpu(place, f"GPU-{place}", "NVIDIA H100", driver=driver, cuda="13.0"))
        for place, slot in enumerate(rates)
    )
    about = {"slots": slots, "versions": versions}
    return await stored.session(name, listed, attempts=attempts, spec={"args": args, **spec}, about=about)


async def test_what_differs_and_what_it_did_to_the_rate() -> None:
    installed = Versions("3.11.7", "1.4.5", "2.8.0")
    await _session("old", {"gpu0": 1000.0, "gpu1": 1010.0}, "-B", "64", "--fast", versions=installed, driver="570.1")
    newer = Versions("3.11.7", "1.4.5", "2.9.0")
    await _session("new", {"gpu0": 1100.0, "gpu1": 1116.0}, "-B", "64", versions=newer, driver="580.2", env={"A": "1"})
    out, err, status = await _gmg("old", "new")
    assert (err, status) == ("", 0)
    rows = {line.split("  ")[0].strip(): line.split()[1:] for line in out.splitlines() if line}
    assert rows["torch"] == ["2.8.0", "2.9.0"]
    assert rows["driver"] == ["570.1", "580.2"]
    assert rows["--fast"] == ["yes", "–"]
    assert rows["A"] == ["–", "1"]
    assert rows["gpu0"] == ["1,000", "1,100", "+10.0", "%"]
    assert rows["total"] == ["2,010", "2,216", "+10.2", "%"]
    assert "± 0.7 %" in out
    assert "Genesis 1.4.5" in out
    assert "4 things differ at once (--fast, A, torch, driver)" in out
    said = json.loads((await _gmg("old", "new", "--json"))[0])
    assert {one["name"]: one["values"] for one in said["differences"]}["torch"] == ["2.8.0", "2.9.0"]
    assert said["slots"][0] == {"slot": "gpu0", "fps_settled": [1000.0, 1100.0], "change_pct": [None, 10.0]}
    assert said["changes"][0]["total_pct"] == pytest.approx(10.249, abs=0.001)
    assert [one["total_fps_settled"] for one in said["sessions"]] == [2010.0, 2216.0]


async def test_the_csv_has_the_rows_of_all_with_what_differs(tmp_path: Path) -> None:
    await _session("old", {"gpu0": 1000.0}, "-B", "64")
    await _session("new", {"gpu0": 500.0, "gpu1": 700.0}, "-B", "128")
    found = list(csv.DictReader(io.StringIO((await _gmg("old", "new", "--csv"))[0])))
    assert [(row["session"], row["name"], row["fps_settled"], row["argument:-B"]) for row in found] == [
        ("old", "gpu0", "1000.0", "64"),
        ("new", "gpu0", "500.0", "128"),
        ("new", "gpu1", "700.0", "128"),
    ]
    assert [row["change_pct"] for row in found] == ["", "-50.0", ""]
    page = tmp_path / "page.html"
    assert await _gmg("old", "new", "--html", str(page)) == (f"{page}\n", "", 0)
    written = page.read_text()
    assert "−50.0 %" in written
    assert "only one of old and new has a rate of gpu1" in written


async def test_a_change_within_the_spread_of_the_slots_is_said_to_be_none() -> None:
    await _session("old", {"gpu0": 1000.0, "gpu1": 1000.0, "gpu2": 1000.0})
    await _session("new", {"gpu0": 1030.0, "gpu1": 985.0, "gpu2": 1000.0})
    out = (await _gmg("old", "new"))[0]
    assert "nothing differs of what was recorded" in out
    assert "new: the change is within the spread of the 3 slots: it may be none" in out


async def test_what_is_no_comparison_is_said() -> None:
    await _session("old", {"gpu0": 1000.0, "gpu1": None}, simulate=2)
    await _session("new", {"gpu0": 2000.0}, script="other.py", running_s=3.0)
    out = (await _gmg("old", "new"))[0]
    assert "not a comparison: the scripts are different (sim.py and other.py)" in out
    assert "not a comparison: old is simulated, the rest is not" in out
    assert "old: gpu1 failed: out of memory" in out
    assert "new: too short to be settled, and left out: gpu0 2,000 FPS" in out
    assert "%" not in out


async def test_a_short_run_that_finished_counts_and_is_told() -> None:
    await _session("old", {"gpu0": 1000.0})
    await _session("new", {"gpu0": 1000.0}, running_s=3.0, state=WorkerState.FINISHED)
    out = (await _gmg("old", "new"))[0]
    assert "new: gpu0 ran for less than 10 s: where a loop stalls, such a rate may be off by 10 %" in out
    assert "+0.0 %" in out


async def test_the_jobs_of_sweeps_are_compared_one_by_one_and_have_no_total() -> None:
    sweep = SweepSpec((Batch("", "sim.py", ("-B", "{n}")),))
    await _session("old", {"n=1": 1000.0, "n=2": 5000.0}, sweep=sweep)
    await _session("new", {"n=2": 5500.0, "n=1": 1100.0}, sweep=sweep)
    out = (await _gmg("old", "new"))[0]
    rows = {line.split("  ")[0].strip(): line.split()[1:] for line in out.splitlines() if line}
    assert rows["n=2"] == ["5,000", "5,500", "+10.0", "%"]
    assert rows["mean"] == ["–", "–", "+10.0", "%", "±", "0.0"]
    assert "total" not in rows
    assert "jobs of a sweep run one after another: there is no total" in out


async def test_a_session_from_before_versions_has_none() -> None:
    await _session("old", {"gpu0": 1000.0})
    await _session("new", {"gpu0": 1000.0}, versions=Versions("3.11.7", "1.4.5", "2.8.0"))
    rows = {line.split("  ")[0]: line.split()[1:] for line in (await _gmg("old", "new"))[0].splitlines() if line}
    assert rows["torch"] == ["n/a", "2.8.0"]


async def test_many_sessions_leave_out_what_does_not_fit_and_say_so() -> None:
    names = [f"a-session-with-a-long-name-{number}" for number in range(5)]
    for number, name in enumerate(names):
        await _session(name, {"gpu0": 1000.0 + number}, "-B", str(number))
    out = (await _gmg(*names, columns=80))[0]
    assert "not enough room for" in out
    assert all(len(line) <= 80 for line in out.split("the same")[0].splitlines() if not line.startswith("a-session"))
    assert len(json.loads((await _gmg(*names, "--json"))[0])["changes"]) == 4


async def test_hostile_words_are_only_shown(tmp_path: Path) -> None:
    await _session("old", {"gpu0": 1000.0}, "--name", "x")
    await _session("new", {"gpu0": 1000.0}, "--name", stored.HOSTILE)
    assert "\x1b" not in (await _gmg("old", "new"))[0]
    page = tmp_path / "page.html"
    await _gmg("old", "new", "--html", str(page))
    assert "<script>" not in page.read_text()


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        (["old", "nobody"], "gmg-tui: no session nobody; there are: old\n", 1),
        (["old", "old"], "gmg-tui: old is named twice; give the names of different sessions\n", 2),
        (["old", "new", "--best", "job"], "gmg-tui: --best orders the jobs of one session; give one name\n", 2),
    ],
)
async def test_what_cannot_be_compared_is_said_in_one_line(words: list[str], said: str, status: int) -> None:
    await _session("old", {"gpu0": 1000.0})
    assert await _gmg(*words) == ("", said, status)


def test_arguments_are_known_by_their_options() -> None:
    found = arguments(["in.xml", "-B", "64", "--lr=1e-3", "--fast", "--seed", "-1", "out"])
    assert found == {"arguments": "in.xml out", "-B": "64", "--lr": "1e-3", "--fast": "yes", "--seed": "-1"}


async def _tuning(name: str, rates: dict[str, float], knee_pct: float) -> None:
    """A tuning with these settled rates, by the names of its trials."""
    tune = TuneSpec(knee_pct=knee_pct)
    sweep = SweepSpec((Batch("", "sim.py", ("-B", "{n_envs}")),))
    folder = await _session(name, dict(rates), tune=tune, sweep=sweep)
    best = Best(64, max(rates.values()))
    answer = Answer("NVIDIA H100", ("gpu0",), fastest=best, knee=best)
    tuning.write(folder, Tuning(tune, "ended", answers=(answer,), ended=True))


async def test_tunings_are_compared_by_their_values_and_what_they_found() -> None:
    await _tuning("five", {"n_envs=64,gpu0": 900.0, "n_envs=64,gpu1": 1100.0, "n_envs=256,gpu0": 600.0}, 5)
    await _tuning("ten", {"n_envs=64,gpu3": 1500.0}, 10)
    out, err, status = await _gmg("five", "ten")
    assert (err, status) == ("", 0)
    rows = {line.split("  ")[0].strip(): line.split()[1:] for line in out.splitlines() if line}
    assert rows["--knee"] == ["5", "10"]
    assert rows["n_envs=64"] == ["1,000", "1,500", "+50.0", "%"]
    assert rows["n_envs=256"] == ["600", "–", "–"]
    assert "ten found n_envs: fastest 64 (1,500 FPS), knee 64 (1,500 FPS)" in out
    assert "their totals" not in out
    assert "no rate is known" not in out
    assert len((await _gmg("five", "ten", "--csv"))[0].splitlines()) == 5


async def test_nodes_are_told_as_they_were_given() -> None:
    nodes = NodesSpec(LauncherKind.LOCAL, "2")
    await _session("one", {"gpu0": 1000.0})
    await _session("two", {"n1/gpu0": 1000.0, "n2/gpu0": 1000.0}, nodes=nodes)
    out, _, _ = await _gmg("one", "two")
    assert ["--nodes", "–", "local:2"] in [line.split() for line in out.splitlines()]
    assert "one and two have no slot in common whose rate is known" in out
