"""`python -m gmg_tui.engine.launchers.ray_driver ADDRESS gpu|cpu NODE`: a client of a Ray cluster.

Without a NODE (an empty word) it prints one line of JSON, `{"nodes": [name, …]}` or `{"error": "…"}`. With one it runs
an agent's program in an actor on that node, which holds all of the node's GPUs, and connects it to its own standard input
and output until either side ends.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from gmg_tui.engine.launchers.launcher import PROGRAM
from gmg_tui.session import AGENT_MARK

_BYTES = 1 << 16
_ACTOR_S = 45.0
"""How long an actor may wait for its node's GPUs."""


class AgentActor:
    """An agent's program on its node, whose standard input and output are forwarded by calls."""

    def __init__(self, program: tuple[str, ...]) -> None:
        here = program if os.access(program[0], os.X_OK) else ("gmg-tui", "agent")
        # Ray gives an actor without CPUs one thread (`set_omp_num_threads_if_unset`), which workers would inherit.
        env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        pipe = subprocess.PIPE
        process = subprocess.Popen(here, stdin=pipe, stdout=pipe, start_new_session=True, env=env)
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def write(self, data: bytes) -> None:
        """Write to the agent."""
        self._stdin.write(data)
        self._stdin.flush()

    def read(self) -> bytes:
        """What the agent sends, as soon as there is something; no bytes at its end."""
        return os.read(self._stdout.fileno(), _BYTES)


def _nodes(ray: Any, *, cpu: bool) -> dict[str, dict[str, Any]]:
    """The nodes that can have slots, by name; a node that left and came back has the same name, and another id."""
    nodes = [node for node in ray.nodes() if node["Alive"] and (cpu or node["Resources"].get("GPU"))]
    return {str(node["NodeName"]): node for node in sorted(nodes, key=lambda node: str(node["NodeName"]))}


def _start(ray: Any, node: dict[str, Any], *, cpu: bool) -> Any:
    """The actor on a node. Raises `LookupError`, and whatever Ray does."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    gpus = 0 if cpu else node["Resources"].get("GPU", 0)
    placed = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    options = {"num_cpus": 0, "num_gpus": gpus, "scheduling_strategy": placed, "max_concurrency": 3}
    actor = ray.remote(AgentActor).options(**options).remote(PROGRAM)
    ready, _ = ray.wait([actor.__ray_ready__.remote()], timeout=_ACTOR_S)
    if not ready:
        ray.kill(actor)
        why = f": other actors or tasks of Ray's hold some of its {gpus:g} GPUs" if gpus else ""
        raise LookupError(f"Ray has not started an actor on it for {_ACTOR_S:.0f} s{why}")
    return actor


def _forward(ray: Any, actor: Any) -> None:
    """Forward bytes both ways until either side ends."""

    def inward() -> None:
        with suppress(Exception):  # the actor or the cluster is gone
            while data := os.read(0, _BYTES):
                ray.get(actor.write.remote(data))
            ray.kill(actor)
        os._exit(0)  # whatever Ray's client waits for

    threading.Thread(target=inward, daemon=True).start()
    with suppress(Exception):
        while data := ray.get(actor.read.remote()):
            os.write(1, data)
    os._exit(0)


def main() -> None:
    """List the nodes, or connect to one."""
    address, kind, name = sys.argv[1:]
    cpu = kind == "cpu"
    answer: dict[str, object]
    try:
        import ray  # only this process loads it

        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, namespace="gmg-tui")
        nodes = _nodes(ray, cpu=cpu)
        if name:
            if name not in nodes:
                raise LookupError("it has left the Ray cluster")
            _forward(ray, _start(ray, nodes[name], cpu=cpu))
        answer = {"nodes": list(nodes)}
        if not nodes:
            answer = {"error": f"the cluster at {address} has no node with GPUs; --cpu N takes all nodes"}
    except ImportError:
        answer = {"error": "Ray is not installed here: pip install 'gmg-tui[ray]'"}
    except LookupError as error:
        answer = {"ok": False, "error": str(error.args[0])}
    except Exception as error:  # Ray has many
        answer = {"error": f"no cluster at {address}: {str(error).strip().partition(chr(10))[0]}"}
    print(f"{AGENT_MARK if name else ''}{json.dumps(answer)}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
