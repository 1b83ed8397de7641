"""The plain run that takes the place of a tuning: the same script, slots and settings, with the value."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gmg_tui import session as sessions
from gmg_tui.commands.interactive import Shown
from gmg_tui.commands.options import RunOptions
from gmg_tui.commands.run import follow_up
from gmg_tui.commands.successors import plain_run
from gmg_tui.errors import GmgError
from tests import tunings
from tests.cli.scripted import ROOT


def test_the_value_stands_where_the_variable_stood_and_all_else_stays() -> None:
    session = tunings.session(tunings.ENDED)
    spec = replace(session.spec, env={"BS": "{n_envs}", "RUN": "{{n_envs}}-{slot}"}, summary="/tmp/tune.json", cwd="/")
    session = replace(session, spec=spec)
    made = plain_run(session, 17_000, tunings.EIGHT)
    assert made.args == ("-B", "17000", "--seed", "{seed}")
    assert made.env == {"BS": "17000", "RUN": "{{n_envs}}-{slot}"}
    assert made.gpus == ",".join(f"GPU-{index:08d}" for index in range(8))
    assert (made.name, made.cpu, made.summary, made.sweep, made.tune) == ("franka-1", None, None, None, None)
    assert (made.script, made.cwd, made.python) == (spec.script, "/", spec.python)
    assert Path(made.folder).is_dir()
    assert made.folder != spec.folder


def test_slots_that_were_not_tuned_on_are_left_alone() -> None:
    made = plain_run(tunings.session(tunings.ENDED), 17_000, ("gpu2", "gpu5"))
    assert made.gpus == "GPU-00000002,GPU-00000005"


def test_shares_of_the_cpu_are_as_many() -> None:
    made = plain_run(tunings.session(tunings.MINIMUM), 64, ("cpu0", "cpu1"))
    assert (made.gpus, made.cpu, made.args) == (None, 2, ("64",))


def test_a_session_that_tuned_nothing_has_none() -> None:
    session = tunings.session(tunings.ENDED)
    with pytest.raises(GmgError, match="nothing was tuned"):
        plain_run(replace(session, spec=replace(session.spec, tune=None)), 1, tunings.EIGHT)


def test_it_runs_once_the_tuning_has_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = tunings.session(tunings.MINIMUM)
    marks = tmp_path / "marks"
    marks.mkdir()
    args = ("--marks", str(marks), "--value", "{bs}")
    script = str(ROOT / "tests" / "job.py")
    spec = replace(session.spec, script=script, args=args, cwd=str(ROOT), python=sys.executable)
    shown = Shown(130, replace(session, spec=spec), 64, tunings.MINIMUM.slots)
    assert follow_up(shown, RunOptions(headless=True)) == 0
    told = [json.loads(mark.read_text()) for mark in marks.iterdir()]
    assert sorted((one["GMG_SLOT"], one["value"]) for one in told) == [("cpu0", "64"), ("cpu1", "64")]
    assert {one["GMG_SESSION"] for one in told} == {"job-1"}
    assert sessions.find("job-1", running=False).state == "ended"
    assert "job.py with bs = 64 on the slots of the tuning" in capfd.readouterr().err


def test_without_a_value_the_status_is_that_of_the_session() -> None:
    assert follow_up(Shown(130, tunings.session(tunings.ENDED)), RunOptions()) == 130
    assert follow_up(1, RunOptions()) == 1
