"""torchrun, started by the user: how its command line is recognised, its ranks found, and their lines told apart.

torch 2.13: torch/distributed/run.py, torch/distributed/elastic/multiprocessing/{api,tail_log}.py. Its report of a failure
is read by `gmg_tui.genesis.output.torchrun`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

GRACE_S = 40.0
"""How long torchrun may take to end: it gives its ranks 30 s after the signal, and kills them then."""
_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_PREFIX = re.compile(rb"(?:\[(?:rank|default)(\d{1,4})\]:[ ]?)+")
"""torch's own before the exceptions of a rank, and what `--tee` puts before each line."""
_MARKS = (b"[rank", b"[default")


def starts(script: str, *, module: bool) -> bool:
    """Whether a command line runs torchrun: as a module, or its own script."""
    return script in _MODULES if module else Path(script).name == "torchrun"


def instead(script: str) -> str:
    """What to do in its place, in one line."""
    return f"{script} starts its ranks itself, so that they are shown as one; gmg-tui --ddp TRAIN.py shows each of them"


def parted(block: bytes) -> Iterable[tuple[int | None, bytes]]:
    """The lines of a block in their order, in pieces of the same rank and without its prefix; None for nobody's."""
    if not any(mark in block for mark in _MARKS):
        yield None, block
        return
    for line in block.splitlines(keepends=True):
        found = _PREFIX.match(line)
        yield (None, line) if found is None else (int(found[1]), line[found.end() :])


def ranks_of(pids: Iterable[int], proc: Path = Path("/proc")) -> dict[int, int]:
    """The PIDs of the ranks among processes, by rank, as `RANK` in their environment says; of two the parent.

    What has ended, or is another user's, is left out.
    """
    found: dict[int, int] = {}
    for pid in sorted(pids):
        try:
            environ = (proc / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        rank = next((entry[5:] for entry in environ if entry.startswith(b"RANK=")), b"")
        if rank.isdigit():
            found.setdefault(int(rank), pid)
    return found
