"""`python -m tests.nodes.ray_cluster`: a Ray of two nodes with four GPUs each, as it counts them, on this machine.

It prints its address; then each line of standard input is obeyed and answered: `remove` takes the second node away, `add`
makes another. It ends with its input.
"""

from __future__ import annotations

import sys
from typing import Any

from ray.cluster_utils import Cluster

_NODE: dict[str, Any] = {"num_cpus": 2, "num_gpus": 4}


def main() -> None:
    cluster: Any = Cluster(initialize_head=True, head_node_args={**_NODE, "include_dashboard": False})
    other = cluster.add_node(**_NODE)
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line.strip() == "remove":
            cluster.remove_node(other)
        else:
            other = cluster.add_node(**_NODE)
        print("done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
