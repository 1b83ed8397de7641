"""A network that drops all packets for a while: the host is in a network namespace of its own, behind a pair of interfaces."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gmg_tui.model import LauncherKind, NodesSpec, WorkerState
from tests.engine.harness import running, spec_for
from tests.harm.scale import full
from tests.nodes.fleets import connected, nothing_left
from tests.nodes.test_faults import numbers
from tests.nodes.test_ssh import configure
from tests.sshd import sshd

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

AWAY_S = full(60.0, short=15.0)
"""For how long nothing comes through."""
HERE, THERE = "192.168.253.1", "192.168.253.2"


class Network(NamedTuple):
    """The namespace, and the name of the interface on this side."""

    name: str
    link: str

    def drop(self, *, all_packets: bool) -> None:
        """Lose every packet to the namespace, or none."""
        _ip("-n", self.name, "link", "set", "there", "down" if all_packets else "up")


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, capture_output=True)


@pytest.fixture
def network() -> Iterator[Network]:
    name = f"gmg{os.getpid()}"
    made = Network(name, f"{name}h"[:15])
    try:
        try:
            _ip("netns", "add", name)
            _ip("link", "add", made.link, "type", "veth", "peer", "name", "there", "netns", name)
            _ip("addr", "add", f"{HERE}/24", "dev", made.link)
            _ip("-n", name, "addr", "add", f"{THERE}/24", "dev", "there")
            _ip("link", "set", made.link, "up")
            made.drop(all_packets=False)
            _ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespace can be made: {error}")
        yield made
    finally:
        subprocess.run(("ip", "netns", "delete", name), check=False, capture_output=True)


async def test_packets_that_are_dropped_cost_no_line_and_no_worker(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sshd(tmp_path, THERE, ("ip", "netns", "exec", network.name)) as server:
        configure(server, tmp_path, monkeypatch, THERE)
        words = ("--lines", "1000000", "--phase-s", "0.01", "--stamp", str(tmp_path / "stamp"))
        spec = spec_for(*words, cpu=1, nodes=NodesSpec(LauncherKind.SSH, "a"))
        async with running(spec) as run:
            await run.until_state("a/cpu0", WorkerState.RUNNING)
            before = run.worker("a/cpu0").pid
            network.drop(all_packets=True)
            await run.until(lambda s: (s.nodes[0].silent_s or 0.0) >= AWAY_S, timeout_s=AWAY_S + 60)
            assert run.snapshot.nodes[0].lost_since is None
            network.drop(all_packets=False)
            await run.until(lambda s: connected(s)["a"] and s.nodes[0].silent_s is None, timeout_s=240)
            end = run.worker("a/cpu0").log_lines
            await run.until(lambda _: run.worker("a/cpu0").log_lines > end)
            assert (run.worker("a/cpu0").pid, run.worker("a/cpu0").attempt) == (before, 1)
            await run.client.end()
        assert run.output("a/cpu0").count(b"Running at") >= len(numbers(tmp_path / "stamp"))
        nothing_left(spec)
