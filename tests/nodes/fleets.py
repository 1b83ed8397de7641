"""Sessions on nodes that are agents of this machine, and what they have left behind."""

from __future__ import annotations

import os
from typing import Any

import psutil

from gmg_tui.model import LauncherKind, NodesSpec, RunSpec, Snapshot
from gmg_tui.session import nodes_folder
from tests.engine.harness import spec_for, sweep_for
from tests.harm.patience import wait_until

SLOTS = ("n1/cpu0", "n1/cpu1", "n2/cpu0", "n2/cpu1")


def nodes(count: int = 2, *, orphan_wait_s: float = 60.0, lost_after_s: float = 15.0) -> NodesSpec:
    """So many agents here; a busy machine may keep one silent for seconds."""
    return NodesSpec(LauncherKind.LOCAL, str(count), orphan_wait_s=orphan_wait_s, lost_after_s=lost_after_s)


def on_nodes(*args: str, where: NodesSpec | None = None, **more: Any) -> RunSpec:
    """A plain run on two nodes with two slots each."""
    return spec_for(*args, cpu=2, nodes=where or nodes(), **more)


def sweep_on_nodes(jobs: Any, *batches: Any, cpu: int = 2, where: NodesSpec | None = None, **more: Any) -> RunSpec:
    """A sweep on two nodes with `cpu` slots each."""
    return sweep_for(jobs, *batches, cpu=cpu, nodes=where or nodes(), **more)


def of_session(spec: RunSpec) -> list[psutil.Process]:
    """The workers' processes of a session, by the marks in their environment."""
    return marked(spec.name)


def marked(name: str) -> list[psutil.Process]:
    """The workers' processes of a session of that name; sessions of other tests have it too."""
    state = os.environ["XDG_STATE_HOME"]
    marks = [(one, _environ(one)) for one in psutil.process_iter()]
    return [one for one, env in marks if (env.get("GMG_SESSION"), env.get("XDG_STATE_HOME")) == (name, state)]


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except psutil.Error:
        return {}


def agents(spec: RunSpec) -> list[psutil.Process]:
    """The agents of a session, and their watchdogs: they hold their logs open, which lie beside the sessions."""
    return with_files_of(f"{nodes_folder()}/{spec.name}@")


def agent(spec: RunSpec, node: str) -> psutil.Process:
    """The agent of one node."""
    held = with_files_of(f"{nodes_folder()}/{spec.name}@{node}-")
    (found,) = (one for one in held if "watchdog" not in " ".join(one.cmdline()))
    return found


def with_files_of(folder: str) -> list[psutil.Process]:
    """The processes that have the log of an agent open whose folder begins so."""
    found = []
    for process in psutil.process_iter():
        try:
            paths = [one.path for one in process.open_files()]
        except psutil.Error:
            continue
        if any(folder in path and path.endswith("/engine.log") for path in paths):
            found.append(process)
    return found


def bridge(engine_pid: int, node: str) -> psutil.Process:
    """The process by which the engine is connected to a node's agent."""
    (found,) = (one for one in psutil.Process(engine_pid).children() if _is_bridge(one, node))
    return found


def _is_bridge(process: psutil.Process, node: str) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return words[-2:] == ["gmg_tui", "agent"] and _environ(process).get("GMG_NODE") == node


def nothing_left(spec: RunSpec) -> None:
    """Wait until no worker and no agent of the session is left."""
    wait_until(lambda: not of_session(spec) and not agents(spec))


def connected(snapshot: Snapshot) -> dict[str, bool]:
    """Which nodes are connected."""
    return {node.name: node.connected for node in snapshot.nodes}
