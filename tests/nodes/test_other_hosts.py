"""Nodes that are not like the session's own machine: another version of gmg-tui, another clock.

A program of this test stands in for ssh: on host `b` all Pythons first run a module that makes them so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gmg_tui
from gmg_tui import session
from gmg_tui.model import LauncherKind, NodesSpec
from gmg_tui.store import reader
from tests.engine.harness import running, spawn, spec_for
from tests.nodes.fleets import nothing_left

_SSH = """\
#!/bin/sh
for word; do host=$last; last=$word; done
test "$host" = b && export PYTHONPATH={folder}
exec sh -c "$last"
"""


@pytest.fixture
def unlike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], NodesSpec]:
    """Two hosts, on the second of which each Python runs this program first."""

    def make(program: str) -> NodesSpec:
        (tmp_path / "sitecustomize.py").write_text(program)
        ssh = tmp_path / "ssh"
        ssh.write_text(_SSH.format(folder=tmp_path))
        ssh.chmod(0o755)
        monkeypatch.setenv("GMG_SSH", str(ssh))
        return NodesSpec(LauncherKind.SSH, "a,b")

    return make


async def test_another_version_of_gmg_tui_is_refused_with_both_versions(unlike: Callable[[str], NodesSpec]) -> None:
    spec = spec_for(cpu=1, nodes=unlike("import gmg_tui\ngmg_tui.__version__ = '9.9.9'\n"))
    process, said = await spawn(spec)
    await process.wait()
    ours = gmg_tui.__version__
    assert said["error"] == (
        f"1 of 2 nodes cannot be used: b: it has gmg-tui 9.9.9, and here is {ours}; install the same"
        "; --min-nodes 1 goes on without"
    )
    nothing_left(spec)


async def test_a_clock_that_is_off_is_said_and_allowed_for(unlike: Callable[[str], NodesSpec]) -> None:
    nodes = unlike("import time\n_true = time.time\ntime.time = lambda: _true() + 600.0\n")
    spec = spec_for("--lines", "60", "--phase-s", "0.01", cpu=1, nodes=nodes)
    async with running(spec) as run:
        await run.until(lambda snapshot: any("ahead" in note for note in snapshot.notes))
        (said,) = (note for note in run.snapshot.notes if "ahead" in note)
        assert re.fullmatch(r"b: its clock is (9:5\d|10:0\d) ahead of this machine's", said)
        await run.until(lambda snapshot: snapshot.ended)
        now = time.time()
    with reader.open_store(run.folder / session.STORE) as stored:
        started = [one.attempt.started for those in stored.attempts.values() for one in those]
    assert len(started) == 2
    assert all(abs(now - moment) < 120 for moment in started)
    nothing_left(spec)
