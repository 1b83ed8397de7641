"""What groups of ranks do, as lines of text: each change once, with its cause, not once for each rank."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gmg_tui import units
from gmg_tui.model import RankGroup, RateOf, Snapshot, WorkerState


class Groups:
    """Tells the changes of groups from one snapshot to the next."""

    def __init__(self) -> None:
        self._before: dict[str, RankGroup] = {}

    def events(self, snapshot: Snapshot, late: Collection[str] = ()) -> Iterator[tuple[str, str]]:
        """A group's name and what has changed; the failures of the groups in `late` wait for the next snapshot."""
        for group in snapshot.groups:
            before = self._before.get(group.id)
            if before is not None and before.job != group.job:
                before = None
            if group.id in late and group.state is WorkerState.FAILED:
                continue
            for text in _changes(before, group):
                yield group.id, text
            self._before[group.id] = group


def _changes(before: RankGroup | None, group: RankGroup) -> Iterator[str]:
    if before is None or (before.state, before.restarts) != (group.state, group.restarts):
        yield _state(group)
    elif group.waits_for and group.waits_for != before.waits_for:
        yield f"waiting for {_ranks(group.waits_for)}"
    if group.fps is not None and (before is None or before.fps is None):
        whose = "rank 0's, for all" if group.rate_of is RateOf.RANK_0 else "the sum of all ranks"
        yield f"{units.fps(group.fps)} FPS ({whose})"
    was_stuck = before is not None and before.stuck is not None
    if group.stuck and not was_stuck:
        yield f"⚠ stuck: {group.stuck}"
    if was_stuck and not group.stuck and not group.state.ended:
        yield "no longer stuck"


def _state(group: RankGroup) -> str:
    reason = f": {group.reason}" if group.reason else ""
    ranks = units.count(len(group.slots), "rank")
    match group.state:
        case WorkerState.STARTING:
            return f"starting {ranks}, attempt {group.restarts + 1}" if group.restarts else f"starting {ranks}"
        case WorkerState.RESTARTING:
            wait = "" if group.restart_in_s is None else f" in {units.span(group.restart_in_s)}"
            return f"restarting{wait}, attempt {group.restarts + 2}{reason}"
        case WorkerState.STOPPING:
            return f"ending {ranks}"
        case WorkerState.WAITING if group.waits_for:
            return f"waiting for {_ranks(group.waits_for)}"
        case _:
            return f"{group.state}{reason}"


def _ranks(ranks: Collection[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
