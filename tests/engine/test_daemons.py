"""Daemons that scripts leave behind."""

from __future__ import annotations

from pathlib import Path

from gmg_tui.model import WorkerState

from .harness import lives, running, spec_for

FORKS = """
import os, pathlib, sys, time
for _ in range(2):
    if os.fork():
        os._exit(0)
    if os.getsid(0) != os.getpid():
        os.setsid()
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(300)
"""
"""A script that becomes a daemon."""


async def test_a_daemon_ends_with_the_script_that_has_left_it_behind(tmp_path: Path) -> None:
    script, pid = tmp_path / "forks.py", tmp_path / "pid"
    script.write_text(FORKS)
    async with running(spec_for(str(pid), script=str(script))) as run:
        finished = await run.until_state("cpu0", WorkerState.FINISHED)
        assert "ended 1 process that the script left behind" in finished.warnings
        assert not pid.exists() or not lives(int(pid.read_text()))
