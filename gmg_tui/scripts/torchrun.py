"""The variables that torchrun sets for a rank, and its output.

Sources: torch 2.13, in torch/distributed: run.py (`config_from_args`), elastic/agent/server/local_elastic_agent.py
(`_start_workers`, `_set_local_rank_env`), elastic/multiprocessing/{api,tail_log}.py, errors/__init__.py
(`ChildFailedError.format_msg`) and errors/error_handler.py (`ErrorHandler.record_exception`).
"""

import json
import logging
import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from gmg_tui.machine.files import open_regular
from gmg_tui.model import RunSpec
from gmg_tui.model.text import TRACEBACK, strip_ansi

_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
"""The address of a group on one machine."""
_ASYNC_ERRORS = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
GRACE_S = 40.0
"""Seconds to wait for torchrun, which kills its ranks 30 s after a signal."""
_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_SUMMARY = b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
_RANK_PREFIX = re.compile(rb"^(?:\[(?:rank|default)\d{1,6}\]:\s?){1,2}")
"""Prefixes of a rank's lines: the local rank (from `--tee`), then the rank (from torch)."""
_MAX_ERROR_FILE_BYTES = 1 << 20


class RecordedError(NamedTuple):
    """An exception from the `error.json` that torch's `@record` writes."""

    message: str
    """Class and text: `ValueError: …`."""
    traceback: str = ""
    """As Python prints it; may be empty."""


class _Error(Struct, rename={"extra": "extraInfo"}):
    message: str
    extra: dict[str, Any] = {}


class _ErrorFile(Struct):
    message: _Error | str
    """A string if written by a handler other than torch's."""


def read_error_file(path: Path) -> RecordedError | None:
    """Returns the exception that a rank recorded; None if there is no valid one. May block on disk I/O."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            content = json.loads(file.read(_MAX_ERROR_FILE_BYTES))  # msgspec's decoder rejects lone surrogates
        error = msgspec.convert(content, _ErrorFile).message
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as trouble:
        _log.warning("%s is ignored: %s", path, trouble)
        return None
    error = _Error(error) if isinstance(error, str) else error
    recorded = RecordedError(error.message, str(error.extra.get("py_callstack", "")))
    return recorded if recorded.message.strip() else None


def rank_output(tail: Sequence[bytes]) -> Sequence[bytes]:
    """Returns an attempt's last lines without rank prefixes, and without torchrun's traceback and summary."""
    texts = [strip_ansi(line).strip() for line in tail]
    summary = next((index for index, text in enumerate(texts) if text.startswith(_SUMMARY)), None)
    if summary is not None:
        tail = tail[: max(index for index in range(summary + 1) if texts[index].startswith(TRACEBACK) or not index)]
    return [_RANK_PREFIX.sub(b"", line) for line in tail]


def is_torchrun(script: str, *, module: bool) -> bool:
    """True if a command line runs torchrun, as a module or a script."""
    return script in _MODULES if module else Path(script).name == "torchrun"


def stop_timeout_s(spec: RunSpec) -> float:
    """Returns the time in seconds that workers are given to exit on SIGINT and SIGTERM, before SIGKILL."""
    grace_s = GRACE_S if is_torchrun(spec.script, module=spec.module) else 0.0
    return max(spec.sigint_wait_s, grace_s) + spec.sigterm_wait_s


def advice(script: str) -> str:
    """Returns the advice to use `--ddp` instead of torchrun."""
    return f"{script} starts its ranks itself, so they appear as one worker; gmg-tui --ddp TRAIN.py shows each"


class Rendezvous(NamedTuple):
    """The rendezvous of a rank with its group in one attempt."""

    rank: int
    world_size: int
    port: int
    """The port of the group's store, which rank 0 opens."""
    restarts: int
    max_restarts: int
    run_id: str
    """Unique to the group."""
    error_file: str
    """The path of the rank's `error.json`; a relative one is below the folder of the engine that starts it."""
    address: str = LOOPBACK
    """The address of rank 0's machine."""
    local_rank: int = 0
    """The number of the rank on its machine, from 0."""
    local_size: int = 1
    """The number of ranks on its machine."""
    machine: int = 0
    """The number of the rank's machine in the group, from 0."""
    machines: int = 1
    virtual_local_rank: bool = False
    """True if each rank sees only its own GPU and is local rank 0 (torchrun's `--virtual-local-rank`)."""


def variables(rendezvous: Rendezvous, base: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that torchrun sets for a rank, given the environment `base`."""
    rank, size = str(rendezvous.rank), str(rendezvous.world_size)
    values = {
        "RANK": rank,
        "LOCAL_RANK": "0" if rendezvous.virtual_local_rank else str(rendezvous.local_rank),
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": str(rendezvous.local_size),
        "GROUP_RANK": str(rendezvous.machine),
        "GROUP_WORLD_SIZE": str(rendezvous.machines),
        "ROLE_NAME": "default",
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": size,
        "MASTER_ADDR": rendezvous.address,
        "MASTER_PORT": str(rendezvous.port),
        "TORCHELASTIC_RESTART_COUNT": str(rendezvous.restarts),
        "TORCHELASTIC_MAX_RESTARTS": str(rendezvous.max_restarts),
        "TORCHELASTIC_RUN_ID": rendezvous.run_id,
        # Makes rank 0 open the store, as gmg-tui opens none (`torch/distributed/rendezvous.py`, `_create_c10d_store`).
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": rendezvous.error_file,
    }
    for name in (_ASYNC_ERRORS, "OMP_NUM_THREADS"):
        if name not in base:
            values[name] = "1"
    return values


def free_port() -> int | None:
    """Returns a free TCP port; None if there is none. Another program may take it before it is used."""
    try:
        with socket.socket() as unused:
            unused.bind(("", 0))  # without `listen`, which would show other users the port
            return int(unused.getsockname()[1])
    except OSError:
        return None
