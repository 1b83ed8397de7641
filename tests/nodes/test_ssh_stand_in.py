"""Hosts that do not share the session's folder: their logs stay there, and are brought at the end.

A program of this test stands in for ssh: it runs the command here, and has the agent told of another folder.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from gmg_tui.model import LauncherKind, NodesSpec, WorkerState
from gmg_tui.session import nodes_folder
from tests.engine.harness import running, spec_for
from tests.harm.patience import eventually
from tests.nodes.fleets import agent, agents, nothing_left, of_session

_SSH = """\
#!/bin/sh
for word; do host=$last; last=$word; done
{ IFS= read -r first; printf '%s\\n' "$first" | sed 's#"folder":"/#"folder":"/elsewhere/#'; exec cat; } | sh -c "$last"
"""
_LOGS = (sys.executable, "-m", "gmg_tui", "logs")


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


async def test_logs_that_an_engine_could_not_bring_are_collected(hosts: NodesSpec) -> None:
    spec = spec_for("--lines", "1000000", "--phase-s", "0.01", cpu=1, nodes=structs.replace(hosts, orphan_wait_s=1.0))
    async with running(spec) as run:
        for slot in ("a/cpu0", "b/cpu0"):
            await run.until_state(slot, WorkerState.RUNNING)
        run.process.kill()
        await run.process.wait()
        await eventually(lambda: not of_session(spec) and not agents(spec))
        kept = {path.parent.name: path.read_bytes() for path in nodes_folder().glob("*/logs/*/cpu0.log")}
        assert set(kept) == {"a", "b"}
        gmg = (sys.executable, "-m", "gmg_tui", "collect", spec.name)
        done = await asyncio.to_thread(subprocess.run, gmg, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert [line.partition(",")[0] for line in done.stdout.splitlines()] == ["a: 1 log", "b: 1 log"]
        assert {name: run.output(f"{name}/cpu0") for name in kept} == kept
        assert list(nodes_folder().iterdir()) == []
        again = await asyncio.to_thread(subprocess.run, gmg, capture_output=True, text=True)
        assert again.stdout == "a: nothing\nb: nothing\n"


def test_there_is_nothing_to_collect_of_one_machine() -> None:
    done = subprocess.run((sys.executable, "-m", "gmg_tui", "collect", "none"), capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("gmg-tui: no session none")


async def test_logs_of_a_running_session_are_brought_when_asked_for(hosts: NodesSpec) -> None:
    spec = spec_for("--lines", "1000000", "--phase-s", "0.01", cpu=1, nodes=hosts)
    async with running(spec) as run:
        await run.until_state("a/cpu0", WorkerState.RUNNING)
        (there,) = nodes_folder().glob(f"{spec.name}@a-*")
        log = there / "logs" / "a" / "cpu0.log"
        whole = await asyncio.to_thread(subprocess.run, (*_LOGS, spec.name, "a/cpu0"), capture_output=True)
        assert whole.stderr == b""
        assert b"Running at" in whole.stdout
        assert log.read_bytes().startswith(whole.stdout)
        await eventually(lambda: log.stat().st_size > len(whole.stdout))
        last = await asyncio.to_thread(subprocess.run, (*_LOGS, spec.name, "a/cpu0", "-n", "3"), capture_output=True)
        assert len(last.stdout.splitlines()) == 3
        assert run.output("a/cpu0").endswith(last.stdout)
        assert len(run.output("a/cpu0")) > len(whole.stdout)
        assert not (run.folder / "logs" / "b").exists()


async def test_a_log_that_is_followed_comes_to_its_end(hosts: NodesSpec, tmp_path: Path) -> None:
    spec = spec_for("--lines", "400", "--phase-s", "0.01", cpu=1, nodes=hosts)
    async with running(spec) as run:
        with (tmp_path / "followed").open("wb") as file:
            following = await asyncio.create_subprocess_exec(*_LOGS, spec.name, "b/cpu0", "-f", stdout=file)
        await run.until(lambda snapshot: snapshot.ended)
        await run.client.close()
        await run.process.wait()
        assert await following.wait() == 0
        assert (tmp_path / "followed").read_bytes() == run.output("b/cpu0")


async def test_a_log_whose_node_is_away_is_shown_as_far_as_it_is_here(hosts: NodesSpec) -> None:
    spec = spec_for("--lines", "1000000", "--phase-s", "0.01", cpu=1, nodes=hosts)
    async with running(spec) as run:
        await run.until_state("a/cpu0", WorkerState.RUNNING)
        await run.client.bring_log("logs/a/cpu0.log", lambda _: None)
        here = run.output("a/cpu0")
        stopped = agent(spec, "a")
        stopped.suspend()
        shown = await asyncio.to_thread(subprocess.run, (*_LOGS, spec.name, "a/cpu0"), capture_output=True)
        stopped.resume()
        assert shown.stdout == here
        assert shown.stderr.startswith(b"gmg-tui: the log is shown as far as it is here: a ")
