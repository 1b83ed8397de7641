"""A tuning in a real terminal: its command line reaches the clipboard, and its answer becomes a plain run."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gmg_tui.model import WorkerState
from gmg_tui.protocol import Update
from tests import tunings
from tests.cli.scripted import ROOT, ScriptedEngine
from tests.terminal.screen import ENTER, Terminal

pytestmark = pytest.mark.terminal


async def test_an_answer_is_copied_and_becomes_a_plain_run(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    script = str(ROOT / "tests" / "job.py")
    args = ("--marks", str(marks), "--value", "{bs}")
    command = ("gmg-tui", "--cpu", "2", script, "--marks", str(marks), "--value", "64")
    found = replace(tunings.MINIMUM, ended=False, command=command, step="confirming 64")
    engine = ScriptedEngine()
    spec = replace(engine.session.spec, script=script, args=args, tune=found.spec, python=sys.executable)
    engine.session = replace(engine.session, spec=spec)
    engine.snapshot = replace(engine.snapshot, tuning=found, queue=tunings.snapshot(found).queue)
    async with engine:
        with Terminal("attach", spec.name, columns=80, rows=24) as terminal:
            await asyncio.to_thread(terminal.until, "confirming 64", "▸ B best", "step_ms over bs")
            terminal.press("y")
            await asyncio.to_thread(terminal.until, "Copied")
            copied = base64.b64encode(shlex.join(command).encode())
            assert b"\x1b]52;c;" + copied + b"\x07" in terminal.raw
            terminal.press("\t")
            await asyncio.to_thread(terminal.until, "▸ K knee")
            terminal.press(ENTER)
            await asyncio.to_thread(terminal.until, "with bs = 32 on all 2 slots?")
            terminal.press("y")
            await engine.ends.get()
            ended = tuple(replace(worker, state=WorkerState.STOPPED) for worker in engine.snapshot.workers)
            over = replace(found, ended=True, step="stopped")
            engine.snapshot = replace(
                engine.snapshot, workers=ended, tuning=over, queue=tunings.snapshot(replace(over, trials=())).queue
            )
            engine._tell(Update(engine.snapshot))
            await engine.leave(ended=True)
            await asyncio.to_thread(terminal.until, "job-1", "all workers have ended: 2 finished", timeout_s=60.0)
            terminal.press("q")
            assert await asyncio.to_thread(terminal.until_ended) == 0
    told = [json.loads(mark.read_text()) for mark in marks.iterdir()]
    assert sorted((one["GMG_SLOT"], one["value"]) for one in told) == [("cpu0", "32"), ("cpu1", "32")]
    said = terminal.raw.decode(errors="replace")
    assert "run it: gmg-tui --cpu 2" in said
    assert "with bs = 32 on the slots of the tuning" in said
