"""Groups of ranks: a line for each, and a rank's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from gmg_tui import units
from gmg_tui.model import Rank, RankGroup, RateOf, Worker, WorkerState
from gmg_tui.ui.drawing.appearance import SIGNS
from gmg_tui.ui.drawing.row import Row
from gmg_tui.ui.drawing.words import STATE_STYLES

_SHORT_UNITS = {"iteration": "it", "iterations": "it"}
"""Units of a progress that are long and well known, as a group's line has them."""

_Piece: TypeAlias = tuple[str, str, int]
"""A text, its style's name, and its rank: the highest is left out first, rank 0 never, but the last is cut."""


def rank_name(rank: Rank) -> str:
    """A rank's group, its number, and of how many: `g0·1/4`."""
    return f"{rank.id}·{rank.rank}/{rank.world_size}"


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 2`, `ranks 2, 3`, `ranks 2, 3, 4 and 9 more`."""
    most = 4
    numbers = ", ".join(str(rank) for rank in ranks[:most])
    more = f" and {len(ranks) - most} more" if len(ranks) > most else ""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {numbers}{more}"


def together_text(workers: Sequence[Worker]) -> str:
    """The group of a rank, for a question: `group g0, 4 ranks`; of several groups `groups g0 and g1, 8 ranks`.

    Empty where not all workers are ranks.
    """
    sizes = {worker.group.id: worker.group.world_size for worker in workers if worker.group is not None}
    if not sizes or any(worker.group is None for worker in workers):
        return ""
    names = sorted(sizes, key=lambda name: (len(name), name))
    listing = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{'group' if len(names) == 1 else 'groups'} {listing}, {units.count(sum(sizes.values()), 'rank')}"


def in_trouble(group: RankGroup) -> bool:
    """Whether a person may want to do something about it."""
    return group.stuck is not None or group.state in {WorkerState.FAILED, WorkerState.RESTARTING}


def listed_groups(groups: Sequence[RankGroup], selected: str, most: int) -> list[RankGroup]:
    """The `most` groups to draw a line of: that on the slot `selected`, those in trouble, then the first; in their order."""
    if len(groups) <= most:
        return list(groups)
    wanted = sorted(groups, key=lambda group: (selected not in group.slots, not in_trouble(group)))[:most]
    return [group for group in groups if group in wanted]


def group_rows(listed: Sequence[RankGroup], hidden: int, selected: str, width: int, now: float) -> list[Row]:
    """A line for each of the `listed` groups at the Unix time `now`; the last one also has how many are `hidden`."""
    name = max((len(group.id) for group in listed), default=0)
    state = max((len(_state(group)) for group in listed), default=0)
    rows = [
        _line(group, width, widths=(name, state), here=selected in group.slots, end="", now=now) for group in listed
    ]
    if hidden:
        group, end = listed[-1], f"+{units.count(hidden, 'group')}"
        rows[-1] = _line(group, width, widths=(name, state), here=selected in group.slots, end=end, now=now)
    return rows


def _line(group: RankGroup, width: int, *, widths: tuple[int, int], here: bool, end: str, now: float) -> Row:
    line, (name, state) = Row(width), widths
    if end:
        line.end(f" {end} ", "dim")
    line.add(f"{SIGNS.group} ", "selected" if here else "border")
    line.add(f"{group.id:<{name}} ", "strong" if here else "title")
    sign = SIGNS.stuck if group.stuck else SIGNS.states[group.state]
    line.add(f"{sign} {_state(group):<{state}}", "error" if group.stuck else STATE_STYLES.get(group.state, "title"))
    pieces, between = _pieces(group, now), f" {SIGNS.dot} "
    while sum(len(between) + len(text) for text, _, _ in pieces) > line.room and max(rank for _, _, rank in pieces):
        pieces.remove(max(pieces, key=lambda piece: piece[2]))
    for text, style, _ in pieces:
        line.add(between, "dim").add(text, style)
    return line


def _state(group: RankGroup) -> str:
    return f"STUCK {group.state.value}" if group.stuck else group.state.value


def _pieces(group: RankGroup, now: float) -> list[_Piece]:
    """The texts behind a group's state, the most important first."""
    pieces = [*_trouble(group, now), *_speed(group)]
    if group.restarts:
        pieces.append((units.count(group.restarts, "restart"), "text", 5))
    if group.advice and (group.reason or group.stuck):
        pieces.append((group.advice, "text", 6))
    if group.job is not None:
        pieces.append((f"job {group.job}", "dim", 6))
    if not group.state.ended and group.state is not WorkerState.RESTARTING:
        pieces.append((units.span(now - group.state_since), "dim", 7))
    return pieces or [(units.count(len(group.slots), "rank"), "dim", 0)]


def _trouble(group: RankGroup, now: float) -> Iterator[_Piece]:
    """What it waits for, and what is wrong with it."""
    if group.restart_at is not None and group.state is WorkerState.RESTARTING:
        yield f"in {units.span(max(0.0, group.restart_at - now))}", "warn", 0
    if group.stuck:
        yield group.stuck, "error", 0
    if group.waits_for:
        yield f"waiting for {ranks_text(group.waits_for)}", "warn", 0
    if group.reason:
        yield group.reason, "error" if group.state is WorkerState.FAILED else "warn", 0


def _speed(group: RankGroup) -> Iterator[_Piece]:
    """Its rate, how far it is, and who is slower than the others."""
    if group.fps is not None:
        yield f"{units.fps(group.fps)} FPS", "fps", 0
        yield _made_of(group), "dim", 2
    done = group.progress
    if done is not None and not group.state.ended:
        total = f"/{done.total:,.0f}" if done.total else ""
        yield f"{done.done:,.0f}{total} {_SHORT_UNITS.get(done.unit, done.unit)}".rstrip(), "title", 4
        if done.eta_s is not None:
            yield f"{units.span(done.eta_s)} left", "title", 1
    if group.slowest is not None and group.behind_pct is not None:
        yield f"rank {group.slowest} {group.behind_pct:.0f} % behind", "warn", 3


def _made_of(group: RankGroup) -> str:
    """What the group's rate is made of."""
    if group.rate_of is RateOf.RANK_0:
        return "rank 0's, for all"
    return f"{SIGNS.sigma} of {units.count(len(group.slots), 'rank')}"
