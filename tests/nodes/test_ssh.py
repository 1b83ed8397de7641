"""Hosts that are reached by a real ssh: two names of this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from gmg_tui.model import LauncherKind, NodesSpec, RunSpec, WorkerState
from tests.engine.harness import running, spawn, spec_for
from tests.harm.patience import eventually
from tests.nodes.fleets import connected, nothing_left
from tests.sshd import Sshd, sshd

pytestmark = [pytest.mark.slow]

SLOTS = ("a/cpu0", "b/cpu0")
_ENDLESS = ("--lines", "1000000", "--phase-s", "0.01")


class Hosts(NamedTuple):
    """The server; the client's configuration, which knows `a`, `b`, `refused` and `closed`, is set."""

    server: Sshd
    folder: Path

    def spec(self, where: str, *args: str, least: int | None = None) -> RunSpec:
        """A run of one CPU slot on each of these hosts."""
        return spec_for(*args, cpu=1, nodes=NodesSpec(LauncherKind.SSH, where, least))


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    with sshd(tmp_path) as server:
        configure(server, tmp_path, monkeypatch)
        yield Hosts(server, tmp_path)


def configure(server: Sshd, folder: Path, monkeypatch: pytest.MonkeyPatch, address: str = "127.0.0.1") -> None:
    """Have gmg-tui's ssh reach the server at that address by the names of hosts."""
    options = list(server.flags)
    port, key = options[options.index("-p") + 1], options[options.index("-i") + 1]
    common = f"HostName {address}\n User {server.user}\n IdentitiesOnly yes\n StrictHostKeyChecking no\n"
    common += f" UserKnownHostsFile {folder}/known\n LogLevel ERROR\n"
    given = " ".join(f"{name}={os.environ[name]}" for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"))
    config = folder / "client"
    config.write_text(
        f"Host a b\n Port {port}\n IdentityFile {key}\n SetEnv {given}\n"
        f"Host refused\n Port {port}\n IdentityFile {folder}/host\n"
        f"Host closed\n Port {_closed_port()}\n IdentityFile {key}\n"
        f"Host *\n {common}"
    )
    monkeypatch.setenv("GMG_SSH", f"{server.client} -F {config}")


def _closed_port() -> int:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        return int(nobody.getsockname()[1])


async def test_a_run_over_two_hosts(hosts: Hosts) -> None:
    spec = hosts.spec("a,b", "--lines", "20", "--phase-s", "0.01")
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert [slot.name for slot in run.client.welcome.session.slots] == list(SLOTS)
    assert {worker["state"] for worker in run.summary()["workers"]} == {"finished"}
    nothing_left(spec)


async def test_hosts_that_cannot_be_reached_are_named_with_what_ssh_says(hosts: Hosts) -> None:
    process, said = await spawn(hosts.spec("a,refused,closed", *_ENDLESS))
    await process.wait()
    assert not said["ok"]
    assert said["error"].startswith("2 of 3 nodes cannot be used: refused: ")
    assert "Permission denied" in said["error"]
    assert "closed: ssh: connect to host 127.0.0.1" in said["error"]
    assert said["error"].endswith("; --min-nodes 1 goes on without")


async def test_half_of_the_hosts_are_enough_where_that_is_said(hosts: Hosts) -> None:
    spec = hosts.spec("a,refused", "--lines", "5", "--phase-s", "0.01", least=1)
    async with running(spec) as run:
        await run.until(lambda snapshot: snapshot.ended)
        assert [worker.slot for worker in run.snapshot.workers] == ["a/cpu0"]
    nothing_left(spec)


async def test_a_connection_that_is_cut_at_the_hosts_end_comes_back(hosts: Hosts, tmp_path: Path) -> None:
    spec = hosts.spec("a,b", *_ENDLESS, "--stamp", str(tmp_path / "stamp-{i}"))
    async with running(spec) as run:
        for slot in SLOTS:
            await run.until_state(slot, WorkerState.RUNNING)
        before = {slot: run.worker(slot).pid for slot in SLOTS}
        for child in psutil.Process(hosts.server.process.pid).children(recursive=True):
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
