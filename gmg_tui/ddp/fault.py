"""Which rank of a group is at fault when a collective does not end, from what all ranks have printed.

The rank with the lowest last enqueued collective is the one for which the others wait. A rank counts a collective as
enqueued once the call of NCCL has returned, so one that "never entered" may also hang within that call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gmg_tui.ddp.observations import Observations, TimedOut, Works

_NAMED = 8
"""How many ranks are named; of more, the others are counted."""


def at_fault(observations_by_rank: Mapping[int, Observations]) -> str | None:
    """Which rank is at fault, or that none is, in one sentence; None where the ranks have reported nothing of it.

    Args:
        observations_by_rank: Of all ranks of the group, also of those that have printed nothing.
    """
    return _in_collective(observations_by_rank) or _at_start(observations_by_rank) or _stuck(observations_by_rank)


def _in_collective(ranks: Mapping[int, Observations]) -> str | None:
    group = _process_group(ranks)
    works = {rank: seen.works[group] for rank, seen in sorted(ranks.items()) if group in seen.works}
    numbers = [seen.failed[group] for seen in ranks.values() if group in seen.failed]
    numbers = numbers or [number for seen in ranks.values() for number in seen.timed_out]
    if not numbers:
        return None
    number = min(numbers)
    waits = {
        rank: seen.timed_out[number]
        for rank, seen in sorted(ranks.items())
        # Process groups count alike: this number of another one is another collective.
        if number in seen.timed_out and (not seen.failed or seen.failed.get(group) == number)
    }
    return (
        _different(waits, number)
        or _never_entered(ranks, works, waits, number)
        or _behind(works, waits, number)
        or _silent(ranks, waits, number)
        or f"all ranks entered {_collective(waits, number)}, and it did not end{_after(waits, 'within')}: "
        "the GPUs do not reach each other, or the sizes differ"
    )


def _process_group(ranks: Mapping[int, Observations]) -> str:
    """The process group in which most ranks have seen a failure, else in which most have reported their progress."""
    failed = Counter(group for seen in ranks.values() for group in seen.failed)
    counts = failed or Counter(group for seen in ranks.values() for group in seen.works)
    return max(sorted(counts), key=lambda group: counts[group], default="")


def _different(waits: Mapping[int, TimedOut], number: int) -> str | None:
    operations = dict.fromkeys(each.operation for each in waits.values())
    if len(operations) < 2:
        return None
    by_operation = (
        _ranks(rank for rank, each in waits.items() if each.operation == operation) for operation in operations
    )
    named = ", ".join(f"{those} {operation}" for those, operation in zip(by_operation, operations, strict=True))
    return f"the ranks have entered different collectives as #{number}: {named}"


def _never_entered(
    ranks: Mapping[int, Observations], works: Mapping[int, Works], waits: Mapping[int, TimedOut], number: int
) -> str | None:
    late = [rank for rank, work in works.items() if work.enqueued < number and rank not in waits]
    lowest = min((works[rank].enqueued for rank in late), default=0)
    late = [rank for rank in late if works[rank].enqueued == lowest]
    return f"{_ranks(late)} never entered {_collective(waits, number)}{_waited(ranks, waits, late)}" if late else None


def _behind(works: Mapping[int, Works], waits: Mapping[int, TimedOut], number: int) -> str | None:
    """The ranks that have entered it, but fewer that followed than others have."""
    enqueued = [work.enqueued for work in works.values()]
    if not enqueued or min(enqueued) == max(enqueued):
        return None
    late = [rank for rank, work in works.items() if work.enqueued == min(enqueued)]
    verb, whose = ("is", "its") if len(late) == 1 else ("are", "their")
    text = f"{_ranks(late)} {verb} behind: {whose} last collective is #{min(enqueued)}, others have entered"
    return f"{text} #{max(enqueued)}; {_collective(waits, number)} has timed out{_after(waits, 'after')}"


def _silent(ranks: Mapping[int, Observations], waits: Mapping[int, TimedOut], number: int) -> str | None:
    """The ranks that have not reported that they wait, too."""
    silent = [rank for rank in sorted(ranks) if not (ranks[rank].works or ranks[rank].timed_out)]
    return (
        f"{_ranks(silent)} did not report {_collective(waits, number)}{_waited(ranks, waits, silent)}"
        if silent
        else None
    )


def _at_start(ranks: Mapping[int, Observations]) -> str | None:
    joined = next((seen.joined for _, seen in sorted(ranks.items()) if seen.joined is not None), None)
    if joined is None:
        return None
    return f"only {joined.ranks} of {joined.size} ranks came to the group's store within {joined.waited_s} s"


def _stuck(ranks: Mapping[int, Observations]) -> str | None:
    stuck = {rank: seen.watchdog_stuck_s for rank, seen in sorted(ranks.items()) if seen.watchdog_stuck_s is not None}
    if not stuck:
        return None
    longest_s = max(stuck.values())
    return f"{_ranks(stuck)}: NCCL's watchdog has not moved for {longest_s} s, as a CUDA call or Python's lock holds it"


def _collective(waits: Mapping[int, TimedOut], number: int) -> str:
    """`BROADCAST #79`."""
    return f"{next((each.operation for each in waits.values()), 'collective')} #{number}"


def _waited(ranks: Mapping[int, Observations], waits: Mapping[int, TimedOut], late: Iterable[int]) -> str:
    if not waits:
        return ""
    others = len(set(ranks) - set(late))
    return f"; the {'others have' if others > 1 else 'other has'} waited {_seconds(waits)}"


def _after(waits: Mapping[int, TimedOut], word: str) -> str:
    return f" {word} {_seconds(waits)}" if waits else ""


def _seconds(waits: Mapping[int, TimedOut]) -> str:
    ms = max(each.ms for each in waits.values())
    return f"{ms / 1000:.0f} s" if ms >= 1000 else f"{ms} ms"


def _ranks(ranks: Iterable[int]) -> str:
    """`rank 1`, `ranks 1 and 3`, `ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 others`."""
    names = [str(rank) for rank in ranks]
    if len(names) == 1:
        return f"rank {names[0]}"
    if len(names) > _NAMED:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} others"]
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"
