"""torchrun, started by the user: how its command line and its summary of a failed group are recognised.

torch 2.13: torch/distributed/run.py, torch/distributed/elastic/multiprocessing/{api,tail_log}.py and
errors/__init__.py (`ChildFailedError.format_msg`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gmg_tui.model import RunSpec
from gmg_tui.text import strip_ansi

GRACE_S = 40.0
"""How long torchrun may take to end: it gives its ranks 30 s after the signal, and kills them then."""
_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_SUMMARY = b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
_TRACEBACK = b"Traceback (most recent call last)"
_OF_A_RANK = re.compile(rb"^(?:\[(?:rank|default)\d{1,6}\]:\s?){1,2}")
"""Before each line of a rank: its rank, as torch writes it, or its local rank, as `--tee` does, which may precede that."""


def of_the_ranks(tail: Sequence[bytes]) -> Sequence[bytes]:
    """An attempt's last lines as its ranks printed them, where torchrun's traceback and summary of a failed group follow."""
    texts = [strip_ansi(line).strip() for line in tail]
    summary = next((index for index, text in enumerate(texts) if text.startswith(_SUMMARY)), None)
    if summary is None:
        return tail
    start = max(index for index in range(summary + 1) if texts[index].startswith(_TRACEBACK) or not index)
    return [_OF_A_RANK.sub(b"", line) for line in tail[:start]]


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
