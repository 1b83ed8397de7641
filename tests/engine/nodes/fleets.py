"""Sessions on nodes that are agents of this machine, and the processes of such sessions."""

import os
from typing import Any

import psutil

from gmg_tui.model import NodesSpec, RunSpec, Snapshot
from gmg_tui.session import nodes_folders
from tests.engine.harness import spec_for, sweep_for
from tests.patience import wait_until

SLOTS = ("n1/cpu0", "n1/cpu1", "n2/cpu0", "n2/cpu1")
ENDLESS = ("--lines", "1000000", "--phase-s", "0.01")


def nodes(count: int = 2, *, orphan_wait_s: float = 60.0, lost_after_s: float = 15.0) -> NodesSpec:
    """So many agents here; a busy machine may keep one silent for seconds."""
    return NodesSpec(f"local:{count}", orphan_wait_s=orphan_wait_s, lost_after_s=lost_after_s)


def on_nodes(*args: str, where: NodesSpec | None = None, **more: Any) -> RunSpec:
    return spec_for(*args, nodes=where or nodes(), **{"cpu": 2, **more})


def sweep_on_nodes(jobs: Any, what: Any = None, cpu: int = 2, where: NodesSpec | None = None, **more: Any) -> RunSpec:
    return sweep_for(jobs, what, cpu=cpu, nodes=where or nodes(), **more)


def marked(name: str) -> list[psutil.Process]:
    """The workers' processes of a session of that name; sessions of other tests have it too."""
    mark = (name, os.environ["XDG_STATE_HOME"])
    environs = [(process, _environ(process)) for process in psutil.process_iter()]
    return [process for process, env in environs if (env.get("GMG_SESSION"), env.get("XDG_STATE_HOME")) == mark]


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except psutil.Error:
        return {}


def agents_of(name: str, node: str = "") -> list[psutil.Process]:
    """The agents of a session, and their watchdogs: they have the agents' logs open."""
    folder = f"{nodes_folders()[0]}/{name}@{f'{node}-' if node else ''}"
    agents = []
    for process in psutil.process_iter():
        try:
            paths = [file.path for file in process.open_files()]
        except psutil.Error:
            continue
        if any(folder in path and path.endswith("/engine.log") for path in paths):
            agents.append(process)
    return agents


def agent(spec: RunSpec, node: str) -> psutil.Process:
    processes = agents_of(spec.name, node)
    (process,) = (each for each in processes if "watchdog" not in " ".join(each.cmdline()))
    return process


def bridge(engine_pid: int, node: str) -> psutil.Process:
    """The process by which the engine is connected to a node's agent."""
    children = [child for child in psutil.Process(engine_pid).children() if _environ(child).get("GMG_NODE") == node]
    (process,) = (child for child in children if child.cmdline()[-2:] == ["gmg_tui", "agent"])
    return process


def nothing_left(spec: RunSpec) -> None:
    wait_until(lambda: not marked(spec.name) and not agents_of(spec.name))


def connected(snapshot: Snapshot) -> dict[str, bool]:
    return {node.name: node.connected for node in snapshot.nodes}
