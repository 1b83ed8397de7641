"""What is sent to a client, cut to what may be sent at once."""

from __future__ import annotations

import logging
from itertools import accumulate

from msgspec import structs

from gmg_tui import protocol
from gmg_tui.protocol import Answer

_log = logging.getLogger(__name__)

_MAX_LIST_BYTES = 4 << 20
"""A part of the queue, or what was tried, unless it is a single row."""


def framed(answer: Answer) -> bytes:
    """The frame of an answer: a long list is cut to its first rows, and what cannot be sent is an error."""
    try:
        data = protocol.frame(answer)
        while len(data) > _MAX_LIST_BYTES and (shorter := _halved(answer)) is not None:
            answer = shorter
            data = protocol.frame(answer)
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        _log.exception("an answer cannot be encoded")
        return protocol.frame(Answer(answer.id, error=f"the engine cannot send its answer: {type(error).__name__}"))
    if len(data) > protocol.MAX_MESSAGE_BYTES:
        return protocol.frame(Answer(answer.id, error=f"the engine's answer is too long: {len(data):,} bytes"))
    return data


def _halved(answer: Answer) -> Answer | None:
    """The answer with half of its list; None where it has none of several rows."""
    queue, tried = answer.queue, answer.tried
    if queue is not None and len(queue.jobs) > 1:
        return structs.replace(answer, queue=structs.replace(queue, jobs=queue.jobs[: len(queue.jobs) // 2]))
    if tried is not None and len(tried.rows) > 1:
        rows = tried.rows[: len(tried.rows) // 2]
        left_out = tried.left_out + len(tried.rows) - len(rows)
        return structs.replace(answer, tried=structs.replace(tried, rows=rows, left_out=left_out))
    return None


def newest(lines: list[bytes], most_bytes: int) -> list[bytes]:
    """The newest of `lines` with no more than `most_bytes` together, at least one."""
    sizes = accumulate(len(line) for line in reversed(lines))
    return lines[-max(1, sum(1 for size in sizes if size <= most_bytes)) :]
