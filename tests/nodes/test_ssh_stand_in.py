"""Hosts that do not share the session's folder: their logs stay there, and are brought at the end.

A program of this test stands in for ssh: it runs the command here, and has the agent told of another folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gmg_tui.model import LauncherKind, NodesSpec
from gmg_tui.session import nodes_folder
from tests.engine.harness import running, spec_for
from tests.nodes.fleets import nothing_left

_SSH = """\
#!/bin/sh
for word; do host=$last; last=$word; done
{ IFS= read -r first; printf '%s\\n' "$first" | sed 's#"folder":"/#"folder":"/elsewhere/#'; exec cat; } | sh -c "$last"
"""


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodesSpec:
    program = tmp_path / "ssh"
    program.write_text(_SSH)
    program.chmod(0o755)
    monkeypatch.setenv("GMG_SSH", str(program))
    return NodesSpec(LauncherKind.SSH, "a,robot@b")


async def test_logs_that_stay_on_their_hosts_are_brought_at_the_end(hosts: NodesSpec) -> None:
    spec = spec_for("--lines", "50", "--phase-s", "0.01", cpu=1, nodes=hosts)
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert not (run.folder / "logs" / "a").exists()
        (there,) = nodes_folder().glob(f"{spec.name}@a-*")
        kept = (there / "logs" / "a" / "cpu0.log").read_bytes()
        await run.client.close()
        await run.process.wait()
        assert run.output("a/cpu0") == kept
        assert b"Running at" in run.output("b/cpu0")
    assert list(nodes_folder().iterdir()) == []
    nothing_left(spec)
