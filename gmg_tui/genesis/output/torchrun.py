"""torchrun's summary of a failed group, below which the rank's own exception is lost.

Texts of torch 2.13: `torch/distributed/elastic/multiprocessing/errors/__init__.py` (`ChildFailedError.format_msg`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gmg_tui.genesis.output import lines

_SUMMARY = b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
_TRACEBACK = b"Traceback (most recent call last)"
_ROOT_CAUSE = b"Root Cause (first observed failure):"
_RANK = re.compile(rb"rank\s*: (\d{1,6}) \(local_rank: (\d{1,6})\)")
_EXIT_CODE = re.compile(rb"exitcode\s*: (-?\d{1,6})\b")
_OF_A_RANK = re.compile(rb"\[(?P<by>rank|default)(?P<number>\d{1,6})\]:\s?(?:\[rank\d{1,6}\]:\s?)?")
"""Before each line of a rank: its rank, as torch writes it, or its local rank, as `--tee` does, which may precede that."""


class FirstFailure(NamedTuple):
    """The rank that failed first."""

    rank: int
    exit_code: int
    """Negative is a signal's number."""
    tail: list[bytes]
    """What was printed before torchrun's own traceback, without the marks of this rank and the lines of others."""


def first_failure(tail: Sequence[bytes]) -> FirstFailure | None:
    """The first failure that torchrun's summary in an attempt's last lines names; None without a summary."""
    texts = [lines.plain(line) for line in tail]
    end = next((index for index in range(len(texts) - 1, -1, -1) if texts[index].startswith(_SUMMARY)), None)
    if end is None or _ROOT_CAUSE not in texts[end:]:
        return None
    cause = b"\n".join(texts[end + texts[end:].index(_ROOT_CAUSE) :])
    rank, code = _RANK.search(cause), _EXIT_CODE.search(cause)
    if rank is None or code is None:
        return None
    start = next((index for index in range(end, -1, -1) if texts[index].startswith(_TRACEBACK)), end)
    return FirstFailure(int(rank[1]), int(code[1]), [*_of_rank(tail[:start], rank[1], rank[2])])


def _of_rank(tail: Sequence[bytes], rank: bytes, local_rank: bytes) -> list[bytes]:
    kept = []
    for line in tail:
        mark = _OF_A_RANK.match(line)
        if mark is None:
            kept.append(line)
        elif mark["number"] == (rank if mark["by"] == b"rank" else local_rank):
            kept.append(line[mark.end() :])
    return kept
