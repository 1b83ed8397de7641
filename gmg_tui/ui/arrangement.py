"""Which slots are drawn, and in which order: sorting, filtering, and who is in trouble. This module knows no Textual."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from gmg_tui.model import GpuSample, Slot, Worker, WorkerState

CALM_S = 5.0
"""Shortest time between two sortings that nobody asked for, and after the selection was moved, seconds."""
_MOVES = 0.03
"""How far a figure must be from the one that placed its slot, as a part of it, before the slot moves."""


class Order(StrEnum):
    """What the slots are sorted by. The value is what the screen and the remembered settings call it."""

    SLOT = "slot"
    STATE = "state"
    FPS = "FPS"
    ENVS = "envs"
    UTILISATION = "GPU %"
    MEMORY = "VRAM"
    TEMPERATURE = "°C"
    POWER = "W"
    GROUP = "group"

    @property
    def falls(self) -> bool:
        """Whether the largest is first, unless it is reversed."""
        return self not in {Order.SLOT, Order.STATE, Order.GROUP}


class Placed(NamedTuple):
    """A slot with what is known of it."""

    slot: Slot
    worker: Worker
    sample: GpuSample | None


_FIGURES: Mapping[Order, Callable[[Placed], float | None]] = {
    Order.STATE: lambda one: severity(one.worker, one.sample),
    Order.FPS: lambda one: one.worker.rate,
    Order.ENVS: lambda one: one.worker.n_envs,
    Order.UTILISATION: lambda one: one.sample.gpu_util_pct if one.sample else one.worker.cpu_pct,
    Order.MEMORY: lambda one: one.sample.memory_used_mib if one.sample else one.worker.memory_rss_mib,
    Order.TEMPERATURE: lambda one: one.sample.temperature_c if one.sample else None,
    Order.POWER: lambda one: one.sample.power_w if one.sample else None,
}
_CALM_STATES = (
    WorkerState.RESTARTING,
    WorkerState.STOPPING,
    WorkerState.WAITING,
    WorkerState.STARTING,
    WorkerState.BUILDING,
    WorkerState.COMPILING,
    WorkerState.RUNNING,
    WorkerState.STOPPED,
    WorkerState.FINISHED,
)
"""The states without trouble, those to look at first before the others."""
_TROUBLES = 5
_NAMES = frozenset({"slot", "node"})
"""Fields of a filter that are names."""


def severity(worker: Worker, sample: GpuSample | None) -> int:
    """How urgent it is to look at a worker: the smaller the more; below `_TROUBLES` it is in trouble."""
    if worker.state is WorkerState.FAILED:
        return 0
    if worker.stuck or worker.lost_since is not None:
        return 1
    if sample is not None and (sample.lost or sample.error or _broken(sample)):
        return 2
    if worker.warnings and not worker.state.ended:
        return 3
    if not worker.state.ended and (worker.below_median_pct is not None or _throttled(sample)):
        return 4
    return _TROUBLES + _CALM_STATES.index(worker.state)


def _broken(sample: GpuSample) -> bool:
    """Whether what the GPU computes may be wrong."""
    return sample.health is not None and sample.health.fatal is not None


def _throttled(sample: GpuSample | None) -> bool:
    """Whether the GPU is held back by more than its power cap, at which GPUs under full load are for hours."""
    return sample is not None and any(reason != "power cap" for reason in sample.throttle or ())


def in_trouble(worker: Worker, sample: GpuSample | None) -> bool:
    """Whether a worker has failed, is lost, stuck, slow or warned of, or its GPU is lost, broken or throttled by its heat."""
    return severity(worker, sample) < _TROUBLES


class Filter:
    """Which slots are shown: those that hold all of its words, in any case.

    A word is looked for in the slot's name, the state, the job, the group and the reason; as `state:failed` in one of
    them only. `slot:` and `node:` take a whole name, or a pattern such as `n1/*`.
    """

    def __init__(self, text: str = "") -> None:
        self.text = " ".join(text.split())
        self._words = self.text.casefold().split()

    def __bool__(self) -> bool:
        return bool(self._words)

    def holds(self, one: Placed) -> bool:
        """Whether the slot is shown."""
        if not self._words:
            return True
        fields = {name: text.casefold() for name, text in _fields(one).items()}
        everything = "\n".join(fields.values())
        return all(_found(word, fields, everything) for word in self._words)


def _found(word: str, fields: Mapping[str, str], everything: str) -> bool:
    name, colon, sought = word.partition(":")
    if not colon or name not in fields:
        return word in everything
    if name in _NAMES:
        return not sought or fnmatchcase(fields[name], sought)
    return sought in fields[name]


def _fields(one: Placed) -> dict[str, str]:
    slot, worker, sample = one
    state = [worker.state_word, worker.state.value, "stuck" if worker.stuck else ""]
    reason = [worker.reason, worker.advice, worker.stuck, worker.stopping, *worker.warnings]
    if worker.below_median_pct is not None:
        reason.append("slow, below the median")
    if sample is not None:
        reason += ["GPU lost" if sample.lost else "", sample.error]
        reason += [f"throttled: {', '.join(sample.throttle)}"] if sample.throttle else []
    return {
        "slot": slot.name,
        "node": slot.node,
        "state": " ".join(state),
        "job": "" if worker.job is None else f"#{worker.job} {worker.job_name}",
        "group": "" if worker.group is None else f"{worker.group.id} rank {worker.group.rank}",
        "gpu": "CPU" if slot.gpu is None else slot.gpu.name,
        "reason": " ".join(filter(None, reason)),
    }


class Arrangement:
    """The order and the filter of the slots, which change on request, and otherwise at a calm pace.

    Attributes:
        order: What the slots are sorted by.
        reverse: Whether they are sorted the other way round.
        filter: Which of them are shown.
    """

    def __init__(self) -> None:
        self.order = Order.SLOT
        self.reverse = False
        self.filter = Filter()
        self._places: dict[str, float] = {}
        """The figure by which each slot has its place."""
        self._sorted: tuple[str, ...] = ()
        self._since = float("-inf")

    @property
    def falls(self) -> bool:
        """Whether the largest is first."""
        return self.order.falls is not self.reverse

    @property
    def plain(self) -> bool:
        """Whether all slots are shown in their own order."""
        return not self.filter and self.order is Order.SLOT and not self.reverse

    def sort_by(self, order: Order, *, reverse: bool = False) -> None:
        """Sort by `order` from now on."""
        self.order, self.reverse = order, reverse
        self._places.clear()
        self._sorted = ()

    def rest(self, time: float) -> None:
        """Leave all in its place for a while, because the selection was moved; `time` is the snapshot's."""
        self._since = max(self._since, time)

    def due(self, time: float) -> bool:
        """Whether it may be arranged anew without having been asked to."""
        return not self.plain and not 0 <= time - self._since < CALM_S

    def arrange(self, slots: Sequence[Placed], time: float, kept: Iterable[str] = ()) -> tuple[str, ...]:
        """The names of those of `slots` that are shown, sorted; `kept` are shown in any case."""
        self._since = time
        held = set(kept)
        shown = [one for one in slots if one.slot.name in held or self.filter.holds(one)] if self.filter else slots
        if self.order is Order.SLOT:
            names = tuple(one.slot.name for one in shown)
            return names[::-1] if self.reverse else names
        return self._sort(slots, {one.slot.name for one in shown})

    def _sort(self, slots: Sequence[Placed], shown: set[str]) -> tuple[str, ...]:
        if self.order is Order.GROUP:
            keys = {one.slot.name: _group_key(one, falls=self.falls) for one in slots}
        else:
            keys = {one.slot.name: self._key(one) for one in slots}
        before = {name: place for place, name in enumerate(self._sorted)}
        # Those that are alike stay as they were; a slot that was not there comes behind them.
        base = sorted(keys, key=lambda name: before.get(name, len(before)))
        self._sorted = tuple(sorted(base, key=keys.__getitem__))
        return tuple(name for name in self._sorted if name in shown)

    def _key(self, one: Placed) -> tuple[bool, float, int]:
        """What is not known is last, whichever way it is sorted."""
        name, figure = one.slot.name, _FIGURES[self.order](one)
        if figure is None:
            self._places.pop(name, None)
            return True, 0.0, 0
        placed = self._places.get(name)
        if placed is None or self.order is Order.STATE or abs(figure - placed) > _MOVES * abs(placed):
            self._places[name] = placed = figure
        return False, -placed if self.falls else placed, 0


def _group_key(one: Placed, *, falls: bool) -> tuple[bool, float, int]:
    """Groups by their number, each with its ranks in their order; slots without a group are last."""
    rank = one.worker.group
    if rank is None:
        return True, 0.0, 0
    digits = "".join(filter(str.isdigit, rank.id))
    number = float(digits or 0)
    return False, -number if falls else number, rank.rank
