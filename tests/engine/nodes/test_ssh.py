"""Hosts that are reached by a real ssh: two names of this machine."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from gmg_tui.model import NodesSpec, RunSpec, WorkerState
from tests.engine.harness import running, spawn, spec_for
from tests.engine.nodes.fleets import ENDLESS, connected, nothing_left
from tests.patience import eventually
from tests.sshd import Sshd, sshd

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ssh")]

SLOTS = ("a/cpu0", "b/cpu0")
HostsSpec = Callable[..., RunSpec]
"""A run of one CPU slot on each of the hosts, which are `a`, its alias `alias`, `b`, `refused` and `closed`."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def _machine(folder: Path, name: str) -> Path:
    """A folder for `PYTHONPATH` that makes this machine another one."""
    (folder / name).mkdir()
    (folder / name / "sitecustomize.py").write_text(f"import socket\nsocket.gethostname = lambda: '{name}'\n")
    return folder / name


@pytest.fixture
def hosts(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostsSpec:
    options = list(server.flags)
    port, key = options[options.index("-p") + 1], options[options.index("-i") + 1]
    given = " ".join(f"{name}={os.environ[name]}" for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        closed = nobody.getsockname()[1]
    config = tmp_path / "client"
    config.write_text(
        f"Host a alias\n SetEnv {given} PYTHONPATH={_machine(tmp_path, 'a')}\n"
        f"Host b\n SetEnv {given} PYTHONPATH={_machine(tmp_path, 'b')}\n"
        f"Host a alias b\n Port {port}\n IdentityFile {key}\n"
        f"Host refused\n Port {port}\n IdentityFile {Path(key).parent / 'host'}\n"
        f"Host closed\n Port {closed}\n IdentityFile {key}\n"
        f"Host *\n HostName 127.0.0.1\n User {server.user}\n IdentitiesOnly yes\n StrictHostKeyChecking no\n"
        f" UserKnownHostsFile {tmp_path}/known\n LogLevel ERROR\n"
    )
    monkeypatch.setenv("GMG_SSH", f"{server.client} -F {config}")

    def spec(where: str, *args: str) -> RunSpec:
        return spec_for(*args, cpu=1, nodes=NodesSpec(f"ssh:{where}"))

    return spec


async def test_unreachable_hosts_are_named_with_the_error_of_ssh(hosts: HostsSpec) -> None:
    _, answer = await spawn(hosts("refused,closed", *ENDLESS))
    assert answer["error"].startswith("2 of 2 nodes cannot be used: refused: ")
    assert "Permission denied" in answer["error"]
    assert "closed: ssh: connect to host 127.0.0.1" in answer["error"]


async def test_two_names_of_one_machine_are_refused(hosts: HostsSpec) -> None:
    """Else each of its GPUs would have two workers."""
    spec = hosts("a,b,alias", *ENDLESS)
    _, answer = await spawn(spec)
    assert answer["error"] == "a and alias are the same machine; name it once, as one agent runs all its slots"
    nothing_left(spec)


async def test_a_connection_cut_by_the_host_is_restored(hosts: HostsSpec, server: Sshd, tmp_path: Path) -> None:
    spec = hosts("a,b", *ENDLESS, "--stamp", str(tmp_path / "stamp-{i}"))
    async with running(spec) as run:
        for slot in SLOTS:
            await run.until_state(slot, WorkerState.RUNNING)
        before = {slot: run.worker(slot).pid for slot in SLOTS}
        for child in psutil.Process(server.process.pid).children(recursive=True):
            if child.name().startswith("sshd"):
                child.kill()
        await eventually(lambda: all(f"{host} is connected again" in run.log() for host in ("a", "b")))
        await run.until(lambda snapshot: all(connected(snapshot).values()))
        end = run.worker("a/cpu0").log_lines
        await run.until(lambda _: run.worker("a/cpu0").log_lines > end)
        assert {slot: run.worker(slot).pid for slot in SLOTS} == before
        await run.client.end()
    written = (tmp_path / "stamp-0").read_text().count("\n")
    assert run.output("a/cpu0").count(b"Running at") >= written
    nothing_left(spec)
