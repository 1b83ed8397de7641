"""Agents on the nodes of a Ray cluster: `--nodes ray`, or `ray:ADDRESS`.

Ray's client needs its own threads, signals and memory, so it runs in a separate process for each node: `python -m
gmg_tui.engine.launchers.ray ADDRESS gpu|cpu NODE` runs an agent's program in an actor that holds all of the node's GPUs,
and connects the agent to its own standard input and output. An empty NODE prints the names of all nodes.
"""

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, NoReturn

import psutil

from gmg_tui.engine.launchers.agent_script import agent_script
from gmg_tui.engine.launchers.launcher import Launcher
from gmg_tui.machine import processes
from gmg_tui.model.errors import GmgError
from gmg_tui.scripts import interpreter
from gmg_tui.session import AGENT_MARK

_ANSWER_TIMEOUT_S = 45.0
"""Time limit for a cluster to answer."""
_CHUNK_BYTES = 1 << 16
_CLUSTER_OPTION = "--gcs-address="
"""The option of Ray's processes that names their cluster."""


class Ray(Launcher):
    """The nodes of a Ray cluster: the one at `where` or `RAY_ADDRESS`, or else this machine's."""

    def __init__(self, where: str, *, cpu: bool = False) -> None:
        # In `--nodes ray://host:10001`, `ray:` is part of the address: that of a Ray Client server.
        self._address = f"ray:{where}" if where.startswith("//") else where or "auto"
        self._kind = "cpu" if cpu else "gpu"

    async def list_nodes(self) -> tuple[str, ...]:
        """Returns the names of the nodes with GPUs, or of all nodes for CPU slots. Raises `GmgError`."""
        driver = await self.connect("")
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                return tuple((await driver.greet(b""))["nodes"])
        except (GmgError, OSError, EOFError) as error:
            cluster = "Ray's newest cluster" if self._address == "auto" else f"the cluster at {self._address}"
            late = f"{cluster} has not answered for {_ANSWER_TIMEOUT_S:.0f} s; name another: --nodes ray:ADDRESS"
            raise GmgError(f"--nodes ray: {late if isinstance(error, TimeoutError) else error}") from error
        finally:
            await driver.close()

    def command(self, node: str) -> Sequence[str]:
        """Returns the command that connects to a node's agent, or lists all nodes if `node` is empty."""
        return (sys.executable, "-P", "-m", __name__, self._address, self._kind, node)


class AgentActor:
    """A Ray actor that runs an agent's program on its node, and forwards its standard input and output."""

    def __init__(self, script: str) -> None:
        # Ray sets one thread for an actor without CPUs (`set_omp_num_threads_if_unset`), which workers would inherit.
        command = ("/usr/bin/env", "--unset=OMP_NUM_THREADS", "/bin/sh", "-c", script)
        self._process: Any = Popen(command, bufsize=0, stdin=PIPE, stdout=PIPE, start_new_session=True)

    def write(self, data: bytes) -> None:
        """Writes to the agent."""
        self._process.stdin.write(data)

    def read(self) -> bytes:
        """Waits for the agent's next output and returns it; empty at its end."""
        return os.read(self._process.stdout.fileno(), _CHUNK_BYTES)


def _name_nodes(usable: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the nodes by unique name: of two named `host`, the one with the higher address becomes `host-2`.

    Node IDs are not stable: a node that rejoins gets a new one.
    """
    names, nodes = {str(node["NodeName"]) for node in usable}, dict[str, dict[str, Any]]()
    for node in sorted(usable, key=lambda node: (str(node.get("NodeManagerAddress")), str(node["NodeID"]))):
        name = str(node["NodeName"])
        aliases = (f"{name}-{number}" for number in count(2))
        nodes[name if name not in nodes else next(new for new in aliases if new not in {*names, *nodes})] = node
    return nodes


def _forward_streams(ray: Any, node: dict[str, Any], *, cpu: bool) -> NoReturn:
    """Runs an agent on a node, and forwards bytes both ways until one side ends."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    gpus = 0 if cpu else node["Resources"].get("GPU", 0)
    strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    options = {"num_cpus": 0, "num_gpus": gpus, "scheduling_strategy": strategy, "max_concurrency": 3}
    print(
        f"waiting for Ray to start an actor with {gpus:g} GPUs, which other jobs may hold", file=sys.stderr, flush=True
    )
    actor = ray.remote(AgentActor).options(**options).remote(agent_script())

    def forward_input() -> None:
        with suppress(Exception):  # the actor or the cluster is gone
            while data := os.read(0, _CHUNK_BYTES):
                ray.get(actor.write.remote(data))
            ray.kill(actor)
        os._exit(0)  # even if Ray's client is waiting for something

    threading.Thread(target=forward_input, daemon=True).start()
    with suppress(Exception):
        while data := ray.get(actor.read.remote()):
            os.write(1, data)
    os._exit(0)


def find_own_cluster() -> str:
    """Returns the address of the newest Ray cluster that this user has started on this machine.

    Raises `ConnectionError` if there is none. Ray would use any user's cluster, whose pickled answers could run code here.
    Another user can run any set-user-ID program under the name of `raylet`, so the executable must be one.
    """
    found = list[tuple[int, str]]()
    for proc in processes.scan().by_pid.values():
        with suppress(OSError, psutil.Error):  # it has ended
            process = psutil.Process(proc.pid)
            if {*process.uids()} != {os.getuid()} or Path(process.exe()).name != "raylet":
                continue
            words = processes.command_line(proc.pid).split()  # may block: of another user's process, for ever
            addresses = [word.removeprefix(_CLUSTER_OPTION) for word in words if word.startswith(_CLUSTER_OPTION)]
            found += ((proc.started_ticks, address) for address in addresses[:1])
    if not found:
        raise ConnectionError
    return max(found)[1]


def main() -> None:
    """Prints the nodes' names, or connects to the agent of one."""
    # End with the engine: Ray's client may not notice for minutes (prctl(2), PR_SET_PDEATHSIG).
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    address, kind, name = sys.argv[1:]
    cpu = kind == "cpu"
    os.chdir("/")  # Ray's workers import from their driver's folder
    try:
        import ray  # only this process loads it

        if address == "auto":
            address = os.environ.get("RAY_ADDRESS") or "auto"
        ray.init(
            address=find_own_cluster() if address == "auto" else address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace="gmg-tui",
        )
        list_nodes: Any = ray.nodes
        usable = [node for node in list_nodes() if node["Alive"] and (cpu or node["Resources"].get("GPU"))]
        nodes = _name_nodes(usable)
        if name in nodes:
            _forward_streams(ray, nodes[name], cpu=cpu)
        no_nodes = f"the cluster at {address} has no node with GPUs; --cpu N uses all nodes"
        error = "it has left the Ray cluster" if name else no_nodes
        answer = {"ok": True, "nodes": sorted(nodes)} if nodes and not name else {"error": error}
    except ImportError:
        answer = {"error": f"Ray is not installed here: {interpreter.install_command(sys.executable, 'ray')}"}
    except Exception as problem:  # Ray raises many types
        reason = str(problem).strip().partition("\n")[0]
        if address == "auto" and isinstance(problem, ConnectionError):  # Ray suggests an option of its own commands
            reason = "you are not running Ray on this machine; name the cluster: --nodes ray:ADDRESS"
        answer = {"error": reason if address == "auto" else f"no cluster at {address}: {reason}"}
    print(f"{AGENT_MARK}{json.dumps(answer)}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
