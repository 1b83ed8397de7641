"""A real Ray cluster of two nodes with four GPUs each, as it counts them, on this machine.

`python -m tests.engine.nodes.ray_cluster ENVIRON ENVIRON` prints its address; then each line of standard input is obeyed and
answered. `ENVIRON` is a JSON object for each node, with variables for what runs there. It ends with its input.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.patience import LONG_S

ROOT = Path(__file__).parents[3]
GPUS = 4
"""Of each node."""
_NODE: dict[str, Any] = {"num_cpus": 2, "num_gpus": GPUS}


class RayCluster:
    """The cluster, in a separate process; `address` is empty where Ray does not start.

    `folders` are the variables of all that runs in it, `environs` those of each node.
    """

    def __init__(self, folders: Mapping[str, str], *environs: Mapping[str, str]) -> None:
        self.folders = folders
        command = [sys.executable, "-m", "tests.engine.nodes.ray_cluster", *map(json.dumps, environs)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, **folders},
        )
        assert self.process.stdout is not None
        self.address = next((line for line in self.process.stdout if line[:1].isdigit()), "").strip()

    def do(self, what: str) -> str:
        """Send a command to `main`. Returns its answer."""
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return next(line for line in self.process.stdout if line.startswith("done"))[len("done ") :].strip()

    def free_gpus(self) -> float:
        return float(self.do("free"))

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(LONG_S)


def main(*environs: str) -> None:
    import ray
    from ray.cluster_utils import Cluster

    first, second = map(json.loads, environs)
    cluster: Any = Cluster(
        initialize_head=True,
        head_node_args={**_NODE, "node_name": "first", "include_dashboard": False, "env_vars": first},
    )
    other = cluster.add_node(**_NODE, node_name="second", env_vars=second)
    print(cluster.address, flush=True)

    resources: Any = ray.available_resources
    for line in sys.stdin:
        answer = 0.0
        match line.strip():
            case "remove":
                cluster.remove_node(other)
            case "add":  # another in its place
                other = cluster.add_node(**_NODE, node_name="second", env_vars=second)
            case "free":
                ray.init(cluster.address, ignore_reinit_error=True)
                answer = resources().get("GPU", 0.0)
        print("done", answer, flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
