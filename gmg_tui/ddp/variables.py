"""The variables by which a rank finds the others of its group, as torchrun sets them.

torch 2.13: `torch/distributed/elastic/agent/server/local_elastic_agent.py`, `_start_workers` and
`_set_local_rank_env`; `OMP_NUM_THREADS`: `torch/distributed/run.py`, `config_from_args`.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from typing import NamedTuple

_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
"""Where the ranks of a group find each other on one machine."""
_ASYNC_ERRORS = "TORCH_NCCL_ASYNC_ERROR_HANDLING"


class Meeting(NamedTuple):
    """Where, and as what, a rank meets the others of its group in one attempt."""

    rank: int
    """From 0."""
    world_size: int
    """How many ranks the group has."""
    port: int
    """Where rank 0 opens the group's store."""
    restarts: int
    """How often the group has been restarted."""
    max_restarts: int
    run_id: str
    """The same for all ranks, and no other group's."""
    error_file: str
    """Where `torch.distributed.elastic.multiprocessing.errors.record` writes an exception, absolute."""
    address: str = LOOPBACK
    """The machine of rank 0, as the others reach it."""
    local_rank: int = 0
    """From 0, among the ranks on its machine."""
    local_size: int = 1
    """How many of the ranks are on its machine."""
    machine: int = 0
    """The number of its machine among those of the group, from 0."""
    machines: int = 1
    virtual_local_rank: bool = False
    """Whether each rank sees its own GPU alone, and is local rank 0 (torchrun's `--virtual-local-rank`)."""


def variables(meeting: Meeting, base: Mapping[str, str]) -> dict[str, str]:
    """What torchrun sets for a rank; `base` has the variables that it leaves alone."""
    rank, size = str(meeting.rank), str(meeting.world_size)
    values = {
        "RANK": rank,
        "LOCAL_RANK": "0" if meeting.virtual_local_rank else str(meeting.local_rank),
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": str(meeting.local_size),
        "GROUP_RANK": str(meeting.machine),
        "GROUP_WORLD_SIZE": str(meeting.machines),
        "ROLE_NAME": "default",
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": size,
        "MASTER_ADDR": meeting.address,
        "MASTER_PORT": str(meeting.port),
        "TORCHELASTIC_RESTART_COUNT": str(meeting.restarts),
        "TORCHELASTIC_MAX_RESTARTS": str(meeting.max_restarts),
        "TORCHELASTIC_RUN_ID": meeting.run_id,
        # gmg-tui opens no store for the group, so rank 0 does (`torch/distributed/rendezvous.py`, `_create_c10d_store`).
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": meeting.error_file,
    }
    for name in (_ASYNC_ERRORS, "OMP_NUM_THREADS"):
        if name not in base:
            values[name] = "1"
    return values


def free_port() -> int:
    """A TCP port that nobody listens on at this moment, 0 where there is none; another program may take it meanwhile."""
    try:
        with socket.create_server(("", 0)) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        _log.warning("no port for a group: %s", error.strerror)
        return 0
