"""Hosts that do not share the session's folder, answer late, or have another version of gmg-tui.

A program of this test stands in for ssh: it runs the command here, and gives the agent another folder and machine.
"""

import asyncio
import os
import pwd
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import psutil
import pytest
from msgspec import structs

import gmg_tui
from gmg_tui.cli import agent
from gmg_tui.engine.attempts.code_check import check_code
from gmg_tui.engine.launchers.launcher import Ssh
from gmg_tui.model import AgentSpec, DdpSpec, NodesSpec, WorkerState
from gmg_tui.model.errors import GmgError
from gmg_tui.session import nodes_folders
from gmg_tui.session.paths import RANKS
from tests.engine.harness import lives, program, running, spawn, spec_for, sweep_for
from tests.engine.nodes.fleets import ENDLESS, nothing_left
from tests.patience import eventually
from tests.workers import texts

_SSH = """\
#!/bin/sh
for word; do host=$last; last=$word; done
{ IFS= read -r first; printf '%s\\n' "$first" | sed 's#"folder":"/#"folder":"/elsewhere/#'; exec cat; } | sh -c "$last" | {
    while IFS= read -r line; do
        printf '%s\\n' "$line" | sed 's#"machine":"#&'"$host"' #'
        case $line in *'"machine"'*) break ;; esac
    done
    exec cat
}
"""
_LOGS = (sys.executable, "-m", "gmg_tui", "logs")


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodesSpec:
    program = tmp_path / "ssh"
    program.write_text(_SSH)
    program.chmod(0o755)
    monkeypatch.setenv("GMG_SSH", str(program))
    return NodesSpec("ssh:a,robot@b")


async def test_logs_are_complete_before_the_copy_on_the_host_is_removed(hosts: NodesSpec, tmp_path: Path) -> None:
    spec = spec_for("--lines", "200", "--phase-s", "0.01", cpu=1, nodes=hosts)
    async with running(spec) as run:
        with (tmp_path / "followed").open("wb") as file:
            following = await asyncio.create_subprocess_exec(*_LOGS, spec.name, "b/cpu0", "-f", stdout=file)
        await run.until(lambda snapshot: snapshot.ended)
        (there,) = nodes_folders()[0].glob(f"{spec.name}@a-*")
        kept = (there / "logs" / "a" / "cpu0.log").read_bytes()
        await run.client.close()
        await run.process.wait()
        assert run.output("a/cpu0") == kept
        assert b"Running at" in run.output("b/cpu0")
        assert await following.wait() == 0
        assert (tmp_path / "followed").read_bytes() == run.output("b/cpu0")
    nothing_left(spec)
    await eventually(lambda: not list(nodes_folders()[0].iterdir()))


async def test_logs_that_could_not_be_copied_stay_on_their_nodes(hosts: NodesSpec) -> None:
    spec = spec_for(*ENDLESS, cpu=1, nodes=structs.replace(hosts, orphan_wait_s=1.0))
    async with running(spec) as run:
        for slot in ("a/cpu0", "b/cpu0"):
            await run.until_state(slot, WorkerState.RUNNING)
        run.process.kill()
        await run.process.wait()
        nothing_left(spec)
    kept = {path.parent.name: path.read_bytes() for path in nodes_folders()[0].glob("*/logs/*/cpu0.log")}
    assert all(b"caching compiled kernels" in kept[node] for node in ("a", "b"))


@pytest.mark.parametrize("queued", [False, True], ids=["run", "sweep"])
async def test_a_slow_host_joins_later(hosts: NodesSpec, tmp_path: Path, *, queued: bool) -> None:
    up = tmp_path / "up"
    (tmp_path / "ssh").write_text(_SSH.replace("{ IFS", f'[ "$host" = a ] || [ -e {up} ] || exit 255\n{{ IFS', 1))
    go = tmp_path / "go"
    spec = spec_for(*ENDLESS, cpu=1, nodes=hosts)
    if queued:
        spec = sweep_for([{}] * 2, program("--until", str(go)), cpu=1, nodes=hosts)
    async with running(spec) as run:
        await run.until(lambda _: run.worker("a/cpu0").pid)
        assert (run.worker("b/cpu0").state, run.worker("b/cpu0").pid) == (WorkerState.WAITING, None)
        assert any(note.startswith("b: has not answered") for note in texts(run.snapshot.alerts))
        up.touch()
        await run.until(lambda _: run.worker("b/cpu0").pid)
        assert run.snapshot.nodes[1].lost_since is None
        go.touch()
        await (run.until_done() if queued else run.client.end())
    nothing_left(spec)


async def test_a_job_that_may_still_be_running_on_a_host_that_is_away_does_not_start_elsewhere(
    hosts: NodesSpec, tmp_path: Path
) -> None:
    """As after the engine's machine was restarted while the network was down."""
    away, go = tmp_path / "away", tmp_path / "go"
    (tmp_path / "ssh").write_text(_SSH.replace("{ IFS", f'[ "$host" = a ] && [ -e {away} ] && exit 255\n{{ IFS', 1))
    spec = sweep_for([{}, {}], program("--until", str(go)), cpu=1, nodes=hosts)
    async with running(spec) as run:
        left = await run.pid("a/cpu0")
        await run.pid("b/cpu0")
        away.touch()
        run.process.kill()
        await run.process.wait()
    async with running(spec) as run:
        await run.pid("b/cpu0")
        (waiting,) = (job for job in (await run.jobs()).values() if job.state is WorkerState.WAITING)
        assert "it may still be running on a node that has not answered" in str(waiting.reason)
        assert lives(left)
        go.touch()
        await run.until(lambda _: run.queue.finished == 1)
        assert run.queue.waiting == 1
        away.unlink()
        await run.client.end()
    nothing_left(spec)


async def test_hosts_with_fish_as_login_shell_are_supported(
    hosts: NodesSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    # In fish, a backslash escapes a quote between single quotes.
    folder = tmp_path / """it's one of $HOME's\\'"(touch ran)\\'"""
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "ssh").write_text(_SSH.replace('sh -c "$last"', f'{fish} -c "$last"'))
    spec = spec_for("--lines", "5", "--phase-s", "0.01", cpu=1, nodes=hosts)
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
    assert {worker["state"] for worker in run.summary()["workers"]} == {"finished"}
    assert not list(tmp_path.rglob("ran"))


async def test_growing_logs_are_copied_while_the_session_runs(hosts: NodesSpec) -> None:
    spec = spec_for(*ENDLESS, cpu=1, nodes=hosts)
    async with running(spec) as run:
        await run.until_state("a/cpu0", WorkerState.RUNNING)
        here = run.folder / "logs" / "a" / "cpu0.log"
        await eventually(lambda: here.exists() and b"Running at" in here.read_bytes())
        (stand_in,) = (each for each in psutil.Process(run.process.pid).children() if "a" in each.cmdline())
        stand_in.kill()
        size = here.stat().st_size
        await eventually(lambda: here.stat().st_size > size + 10_000)
        (there,) = nodes_folders()[0].glob(f"{spec.name}@a-*")
        log = there / "logs" / "a" / "cpu0.log"
        assert log.read_bytes().startswith(here.read_bytes())


async def test_a_group_over_hosts_without_an_address_is_refused(hosts: NodesSpec, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from gmg_tui.machine import address\naddress.address_for = lambda _: None\n"
    )
    (tmp_path / "ssh").write_text(_SSH.replace("{ IFS", f"export PYTHONPATH={tmp_path}\n{{ IFS", 1))
    spec = spec_for(*ENDLESS, cpu=1, nodes=hosts, ddp=DdpSpec())
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        reasons = [worker.reason or "" for worker in run.snapshot.workers]
        assert any("a has reported no address that other nodes can reach" in reason for reason in reasons), reasons
    nothing_left(spec)


async def test_ranks_on_hosts_record_their_errors_in_the_agents_folders(hosts: NodesSpec) -> None:
    """The session's folder may be one that a host cannot make."""
    spec = spec_for("--lines", "1", "--phase-s", "0.01", cpu=1, nodes=hosts, ddp=DdpSpec())
    async with running(spec) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended)
    assert {(worker.state, worker.reason) for worker in snapshot.workers} == {(WorkerState.FINISHED, None)}
    assert not Path(spec.folder, RANKS).exists()


async def test_a_group_needs_all_hosts_and_another_version_of_gmg_tui_is_rejected(
    hosts: NodesSpec, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import gmg_tui\ngmg_tui.__version__ = '9.9.9'\n")
    other = f'[ "$host" = a ] || export PYTHONPATH={tmp_path}\n{{ IFS'
    (tmp_path / "ssh").write_text(_SSH.replace("{ IFS", other, 1))
    spec = spec_for(cpu=1, nodes=hosts, ddp=DdpSpec())
    _, answer = await spawn(spec)
    here = gmg_tui.__version__
    assert answer["error"] == (
        f"1 of 2 nodes cannot be used: b: it has gmg-tui 9.9.9, but this machine has {here}; install the same version"
    )
    nothing_left(spec)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
async def test_a_node_runs_no_script_that_another_user_has_made(hosts: NodesSpec, tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    (tmp_path / "ssh").write_text(_SSH.replace("{ IFS", f"chown {nobody} {tmp_path}/scratch\n{{ IFS", 1))
    script, ran = tmp_path / "scratch" / "job.py", tmp_path / "ran"
    script.parent.mkdir()
    script.write_text(f"open({str(ran)!r}, 'w')")
    spec = spec_for(script=str(script), cpu=1, nodes=hosts)
    async with running(spec) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended)
    reason = f"{script.parent} belongs to nobody here, unlike on the session's machine: not run"
    assert [worker.reason for worker in snapshot.workers] == [reason] * 2
    assert not ran.exists()


async def test_a_node_without_the_working_directory_runs_no_script_of_the_same_name_at_home(
    hosts: NodesSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "scratch"
    (tmp_path / "ssh").write_text(_SSH.replace("{ IFS", f"mv {here} {tmp_path}/gone 2>&-\n{{ IFS", 1))
    for folder in (here, tmp_path / "home"):
        folder.mkdir()
        (folder / "job.py").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with running(structs.replace(spec_for(script="job.py", cpu=1, nodes=hosts), cwd=str(here))) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended)
    reason = f"{here}/job.py cannot be used here: No such file or directory"
    assert [worker.reason for worker in snapshot.workers] == [reason] * 2


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
async def test_a_home_below_an_administrator_s_folder_takes_the_place_of_a_missing_working_directory(
    hosts: NodesSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, home = tmp_path / "scratch", tmp_path / "homes" / "me"
    (tmp_path / "ssh").write_text(_SSH.replace("{ IFS", f"mv {here} {tmp_path}/gone 2>&-\n{{ IFS", 1))
    here.mkdir()
    home.mkdir(parents=True)
    shutil.chown(home.parent, "nobody")
    monkeypatch.setenv("HOME", str(home))
    spec = spec_for("--lines", "1", "--phase-s", "0.01", cpu=1, nodes=hosts)
    async with running(structs.replace(spec, cwd=str(here))) as run:
        snapshot = await run.until(lambda snapshot: snapshot.ended)
    assert {(worker.state, worker.reason) for worker in snapshot.workers} == {(WorkerState.FINISHED, None)}


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as another user")
def test_the_owner_of_the_working_directory_is_not_trusted_with_the_script(tmp_path: Path) -> None:
    (script := tmp_path / "job.py").write_text("")
    shutil.chown(script, "nobody")
    spec = spec_for(script=str(script), agent=AgentSpec("n1", "s", "id", cwd_owners=("nobody",)))
    with pytest.raises(GmgError, match="belongs to nobody here"):
        check_code(spec)


def test_a_node_runs_no_script_that_is_missing_when_it_looks(tmp_path: Path) -> None:
    """Another user may create it before it is run, or a module of the same name be in another folder."""
    agent_spec = AgentSpec("n1", "s", "id")
    for spec in (
        spec_for(script=str(tmp_path / "scratch" / "job.py"), agent=agent_spec),
        structs.replace(spec_for(script="job", agent=agent_spec), module=True, cwd=str(tmp_path / "scratch")),
    ):
        with pytest.raises(GmgError, match=r"scratch.* cannot be used here: No such file or directory"):
            check_code(spec)


def test_a_running_agent_is_found_although_another_user_has_changed_where_sockets_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by a folder in /tmp that was there when the agent started."""
    agent_spec = AgentSpec("n1", "s", "id", gmg_tui.__version__, replaces=("earlier",))
    running = SimpleNamespace(record=SimpleNamespace(session=SimpleNamespace(spec=SimpleNamespace(socket="/x/a.sock"))))
    asked: list[Path] = []

    async def request_end(path: Path) -> None:
        asked.append(path)

    monkeypatch.setattr("gmg_tui.session.is_locked", lambda _: Path("/x/a.sock") not in asked)
    monkeypatch.setattr("gmg_tui.session.inspect", lambda _: running)
    monkeypatch.setattr(agent, "_connect", lambda path: "connected" if path == Path("/x/a.sock") else None)
    monkeypatch.setattr(agent, "_request_end", request_end)
    assert agent._connect_or_start(msgspec.json.encode(spec_for(agent=agent_spec))) == "connected"
    agent._end_earlier_agent(agent_spec, "earlier")
    assert asked[-1] == Path("/x/a.sock")


def test_no_host_can_be_an_option_of_ssh() -> None:
    for host in ("-V", "-V@h", "-oProxyCommand=x@h"):
        with pytest.raises(GmgError, match="is not a host"):
            Ssh(f"a,{host}")
    command = Ssh("a,me@b").command("b")
    assert command[command.index("--") + 1] == "me@b"
