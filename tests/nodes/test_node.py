"""One node: a connection that fails leaves no process, and silence makes it lost."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil
import pytest

from gmg_tui.engine.launchers.launcher import Launcher
from gmg_tui.engine.nodes.node import Node
from gmg_tui.model import LauncherKind, NodesSpec, Session
from gmg_tui.session import AGENT_MARK
from tests.engine.harness import spec_for

_GREETED = f"""echo '{AGENT_MARK}{{"ok":true}}'; """


class Shell(Launcher):
    """Its agents are commands of a shell."""

    def __init__(self, command: str) -> None:
        self._command = command

    async def nodes(self) -> tuple[str, ...]:
        return ("n1",)

    def command(self, node: str) -> Sequence[str]:
        return ("sh", "-c", self._command)


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("echo no route to it >&2; exec 1>&-; sleep 600", "no route to it"),
        (f"{_GREETED} head -c 1000 /dev/zero; sleep 600", "it sent something that is no message"),
        (f"{_GREETED} exec 1>&-; sleep 600", "no engine answers at n1's agent"),
    ],
    ids=["unreachable", "nonsense", "broken"],
)
async def test_a_failed_connection_leaves_no_process(command: str, error: str) -> None:
    spec = spec_for(nodes=NodesSpec(LauncherKind.LOCAL))
    node = Node("n1", spec, Shell(command), lambda: None, lambda _: None)
    node.start(spec)
    failed = await node.answered
    assert failed is not None
    assert error in str(failed)
    await node.end(kill=True, within_s=0.0)
    assert not [child for child in psutil.Process().children(recursive=True) if "sleep" in child.cmdline()]


async def test_a_silent_node_is_lost_unless_the_engine_itself_was_stopped() -> None:
    spec = spec_for(nodes=NodesSpec(LauncherKind.LOCAL))
    node = Node("n1", spec, Shell("true"), lambda: None, lambda _: None)
    node.session, now = Session(spec, (), 0, 0.0, ""), time.monotonic()
    node.check(now + 100.0, delayed_s=99.0)
    assert node.lost_since is None
    node.check(now + 114.0, delayed_s=0.0)
    assert node.lost_since is None
    node.check(now + 116.0, delayed_s=0.0)
    assert node.lost_since is not None
