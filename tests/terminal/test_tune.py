"""A tuning in a real terminal: the command line of its answer reaches the clipboard."""

from __future__ import annotations

import asyncio
import base64
import shlex
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests import tunings
from tests.cli.scripted import ROOT, ScriptedEngine
from tests.terminal.screen import Terminal

pytestmark = pytest.mark.terminal


async def test_the_command_of_an_answer_is_copied(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    script = str(ROOT / "tests" / "job.py")
    args = ("--marks", str(marks), "--value", "{bs}")
    command = ("gmg-tui", "--cpu", "2", script, "--marks", str(marks), "--value", "32")
    tuning = replace(tunings.CUSTOM, ended=False, command=command, step="confirming 64")
    engine = ScriptedEngine()
    spec = replace(engine.session.spec, script=script, args=args, tune=tuning.spec, python=sys.executable)
    engine.session = replace(engine.session, spec=spec)
    engine.snapshot = replace(engine.snapshot, tuning=tuning, queue=tunings.snapshot(tuning).queue)
    async with engine:
        with Terminal("attach", spec.name, columns=80, rows=24) as terminal:
            await asyncio.to_thread(terminal.until, "confirming 64", "recommended", "samples_s over bs")
            terminal.press("\x10")
            await asyncio.to_thread(terminal.until, "Search for")
            terminal.press("copy")
            await asyncio.to_thread(terminal.until, "Copy command line")
            terminal.press("\r")
            await asyncio.to_thread(terminal.until, "Copied")
            copied = base64.b64encode(shlex.join(command).encode())
            assert b"\x1b]52;c;" + copied + b"\x07" in terminal.raw
            terminal.press("d")
            assert await asyncio.to_thread(terminal.until_ended) == 0
