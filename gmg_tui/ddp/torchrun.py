"""torchrun, started by the user: how its command line and the lines of its ranks are recognised.

torch 2.13: torch/distributed/run.py, torch/distributed/elastic/multiprocessing/{api,tail_log}.py, and for its summary of a
failed group, below which the rank's own exception is lost, errors/__init__.py (`ChildFailedError.format_msg`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gmg_tui.model import RunSpec
from gmg_tui.text import strip_ansi

GRACE_S = 40.0
"""How long torchrun may take to end: it gives its ranks 30 s after the signal, and kills them then."""
_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_SUMMARY = b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
_TRACEBACK = b"Traceback (most recent call last)"
_FIRST_FAILURE = re.compile(
    rb"^Root Cause \(first observed failure\):.*?^\s*rank\s*: (\d{1,6}) \(local_rank: (\d{1,6})\)"
    rb".*?^\s*exitcode\s*: (-?\d{1,6})\b",
    re.MULTILINE | re.DOTALL,
)
_OF_A_RANK = re.compile(rb"\[(?P<by>rank|default)(?P<number>\d{1,6})\]:\s?(?:\[rank\d{1,6}\]:\s?)?")
"""Before each line of a rank: its rank, as torch writes it, or its local rank, as `--tee` does, which may precede that."""


class FirstFailure(NamedTuple):
    """The rank that failed first."""

    rank: int
    exit_code: int
    """Negative is a signal's number."""
    tail: list[bytes]
    """What was printed before torchrun's traceback, without the marks of this rank and the lines of others."""


def first_failure(tail: Sequence[bytes]) -> FirstFailure | None:
    """The first failure that torchrun's summary in an attempt's last lines names; None without a summary."""
    texts = [strip_ansi(line).strip() for line in tail]
    end = next((index for index in range(len(texts) - 1, -1, -1) if texts[index].startswith(_SUMMARY)), None)
    failure = _FIRST_FAILURE.search(b"\n".join(texts[end:])) if end is not None else None
    if end is None or failure is None:
        return None
    start = next((index for index in range(end, -1, -1) if texts[index].startswith(_TRACEBACK)), end)
    rank, local_rank, exit_code = failure.groups()
    kept = []
    for line in tail[:start]:
        mark = _OF_A_RANK.match(line)
        if mark is None or mark["number"] == (rank if mark["by"] == b"rank" else local_rank):
            kept.append(line[mark.end() :] if mark is not None else line)
    return FirstFailure(int(rank), int(exit_code), kept)


def starts(script: str, *, module: bool) -> bool:
    """Whether a command line runs torchrun: as a module, or its own script."""
    return script in _MODULES if module else Path(script).name == "torchrun"


def stop_s(spec: RunSpec) -> float:
    """How long a session's workers may take to end after SIGINT and SIGTERM."""
    grace_s = GRACE_S if starts(spec.script, module=spec.module) else 0.0
    return max(spec.sigint_wait_s, grace_s) + spec.sigterm_wait_s


def instead(script: str) -> str:
    """What to do instead, in one line."""
    return f"{script} starts its ranks itself, so they appear as one worker; gmg-tui --ddp TRAIN.py displays each"
