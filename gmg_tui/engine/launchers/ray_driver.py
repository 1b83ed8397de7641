"""`python -m gmg_tui.engine.launchers.ray_driver ADDRESS SOCKET gpu|cpu [NAME=ID…]`: what speaks with a Ray cluster.

It prints one line of JSON, `{"nodes": {name: id}}` or `{"error": "…"}`, and listens at the socket until its standard input
ends. Each connection begins with a line of JSON, a node's name and words of a command of gmg-tui; an actor on that node
runs it, an agent's holds all of the node's GPUs, and the connection carries what the command reads and writes.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from gmg_tui.engine.launchers.launcher import AGENT, PROGRAM
from gmg_tui.session import AGENT_MARK

_BYTES = 1 << 16
_ACTOR_S = 45.0
"""How long an actor may wait for its node's GPUs."""
_GPU = "GPU"
_SET_BY_RAY = ("OMP_NUM_THREADS",)
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Carrier:
    """The actor: a command of gmg-tui on its node, whose standard input and output are carried by calls."""

    def __init__(self, program: tuple[str, ...], words: tuple[str, ...]) -> None:
        own = program if os.access(program[0], os.X_OK) else ("gmg-tui",)
        self._process = subprocess.Popen(
            (*own, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env=_environ(words)
        )

    def write(self, data: bytes) -> None:
        """Take what is for the agent; no bytes mean that no more come."""
        stdin = self._process.stdin
        assert stdin is not None
        if data:
            stdin.write(data)
            stdin.flush()
        else:
            stdin.close()

    def read(self) -> bytes:
        """What the agent says, as soon as there is something; no bytes at its end."""
        stdout = self._process.stdout
        assert stdout is not None
        return os.read(stdout.fileno(), _BYTES)


def _environ(words: tuple[str, ...]) -> dict[str, str]:
    """The actor's environment, without what Ray sets for an actor that has no CPU and, but for an agent's, no GPU.

    `ray._private.utils.set_omp_num_threads_if_unset` gives it one thread, which workers would inherit; and
    earlier releases of Ray hide all GPUs from one that has none.
    """
    raylet = Path(f"/proc/{os.environ.get('RAY_RAYLET_PID') or os.getppid()}/environ")
    begun: dict[str, str] = {}
    with suppress(OSError):
        begun = dict(entry.split("=", 1) for entry in os.fsdecode(raylet.read_bytes()).split("\0") if "=" in entry)
    found = dict(os.environ)
    for name in _SET_BY_RAY if words == AGENT else (*_SET_BY_RAY, _VISIBLE):
        found.pop(name, None)
        if name in begun:
            found[name] = begun[name]
    return found


class Cluster:
    """The cluster, and the names that its nodes have here."""

    def __init__(self, address: str, known: dict[str, str], *, cpu: bool) -> None:
        import ray  # only this process loads it

        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, namespace="gmg-tui")
        self._ray: Any = ray
        self._cpu = cpu
        self._lock = threading.Lock()
        found = self._alive()
        names = _unique([str(node["NodeName"]) for node in found])
        self.ids = known or {name: str(node["NodeID"]) for name, node in zip(names, found, strict=True)}

    def _alive(self) -> list[dict[str, Any]]:
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        nodes = [node for node in nodes if self._cpu or node["Resources"].get(_GPU)]
        return sorted(nodes, key=lambda node: (str(node["NodeName"]), str(node["NodeID"])))

    def _node(self, name: str) -> dict[str, Any]:
        """The node of that name; one that no name has, where that is gone. Raises `LookupError`."""
        with self._lock:
            alive = {str(node["NodeID"]): node for node in self._alive()}
            known = self.ids.get(name)
            if known not in alive:
                spare = [one for one in alive if one not in self.ids.values()]
                if not spare:
                    raise LookupError("it has left the Ray cluster")
                known = self.ids[name] = spare[0]
            return alive[known]

    def carrier(self, name: str, words: tuple[str, ...]) -> Any:
        """An actor on the node that runs a command. Raises `LookupError`, and whatever Ray does."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node = self._node(name)
        gpus = 0 if self._cpu or words != AGENT else node["Resources"].get(_GPU, 0)
        placed = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        actor = self._ray.remote(Carrier).options(
            num_cpus=0, num_gpus=gpus, scheduling_strategy=placed, max_concurrency=3
        )
        made = actor.remote(PROGRAM, words)
        ready, _ = self._ray.wait([made.__ray_ready__.remote()], timeout=_ACTOR_S)
        if not ready:
            self._ray.kill(made)
            raise LookupError(self._why_not(node["NodeID"], gpus))
        return made

    def _why_not(self, node_id: str, gpus: float) -> str:
        """Why no actor that wants so many GPUs has started on a node."""
        from ray._private import state

        free: Any = state.available_resources_per_node
        held = gpus - free().get(node_id, {}).get(_GPU, 0.0) if gpus else 0.0
        if not held:
            return f"Ray has not started an actor on it for {_ACTOR_S:.0f} s"
        whose = (
            "is held by another actor or task of Ray's" if held == 1 else "are held by other actors or tasks of Ray's"
        )
        return f"{held:g} of its {gpus:g} GPUs {whose}"

    def get(self, reference: Any) -> Any:
        """The result of a call. Raises whatever Ray does."""
        return self._ray.get(reference)

    def kill(self, actor: Any) -> None:
        """End an actor."""
        with suppress(Exception):  # it has ended, or the cluster is gone
            self._ray.kill(actor)


def serve(cluster: Cluster, connection: socket.socket) -> None:
    """Carry one connection until either side ends."""
    with connection, connection.makefile("rb") as reader:
        try:
            name, *words = json.loads(reader.readline())
            actor = cluster.carrier(name, tuple(words))
        except Exception as error:  # Ray has many
            said = {"ok": False, "error": str(error).strip().partition("\n")[0] or type(error).__name__}
            with suppress(OSError):
                connection.sendall(AGENT_MARK.encode() + json.dumps(said).encode() + b"\n")
                connection.shutdown(socket.SHUT_WR)
                while reader.read1(_BYTES):  # closed with something unread, it would lose what was said
                    pass
            return
        threading.Thread(target=_inward, args=(cluster, actor, reader), daemon=True).start()
        try:
            while data := cluster.get(actor.read.remote()):
                connection.sendall(data)
        except Exception:  # noqa: S110 - the actor, the cluster or the engine is gone: the connection's end says so
            pass
        finally:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            cluster.kill(actor)


def _inward(cluster: Cluster, actor: Any, reader: Any) -> None:
    try:
        while data := reader.read1(_BYTES):
            cluster.get(actor.write.remote(data))
        cluster.get(actor.write.remote(b""))
    except Exception:
        cluster.kill(actor)


def _unique(names: list[str]) -> list[str]:
    """The names, each another: nodes on one machine have the same."""
    found: list[str] = []
    for name in names:
        count = sum(one == name or one.startswith(f"{name}-") for one in found)
        found.append(f"{name}-{count + 1}" if count else name)
    return found


def main() -> None:
    """Serve until standard input ends."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    address, path, kind, *words = sys.argv[1:]
    known = dict(word.rsplit("=", 1) for word in words)
    said: dict[str, object]
    try:
        cluster = Cluster(address, known, cpu=kind == "cpu")
        said = {"nodes": cluster.ids}
        if not cluster.ids:
            said = {"error": f"the cluster at {address} has no node with GPUs; --cpu N takes all nodes"}
    except ImportError:
        said = {"error": "Ray is not installed here: pip install 'gmg-tui[ray]'"}
    except Exception as error:  # Ray has many
        said = {"error": f"no cluster at {address}: {str(error).strip().partition(chr(10))[0]}"}
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if "nodes" in said:
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - of an earlier driver
        listening.bind(path)
        listening.listen(64)
    print(json.dumps(said), flush=True)
    if "nodes" not in said:
        return
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=serve, args=(cluster, connection), daemon=True).start()


def _end_with_input() -> None:
    while os.read(0, _BYTES):
        pass
    os._exit(0)  # whatever Ray's client waits for; its actors end with it


if __name__ == "__main__":
    main()
