"""What GPUs differ by on the same arguments: which are slow, and whether a ranking of jobs leans on them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from gmg_tui import units
from gmg_tui.model import JobRecord, WorkerState
from gmg_tui.model.tried import SLOW_PCT, arguments_of, away_from_median, settled_rate
from gmg_tui.report.data import Order, ReportData, ordered
from gmg_tui.report.health import events
from gmg_tui.results.summary import cells, columns

_SPEEDS = frozenset({"fps_settled", "fps_last", "fps_mean", "elapsed_s"})
"""Columns that depend on how fast a GPU is."""
_MOST = 20
_ALIKE_PCT = 10.0
"""GPUs of one model may differ by so much; a greater lead does not come from them."""


def slow(data: ReportData) -> list[str]:
    """A line about each GPU that is slower than those of its model with the same arguments, over all of these."""
    away = away_from_median(_groups(data))
    return [f"{slot}: {units.percent(pct)} of the median" for slot, pct in sorted(away.items()) if pct < -SLOW_PCT]


def lines(data: ReportData, order: Order) -> list[str]:
    """All that is to be known of the GPUs, a line each: whether the ranking leans on them, and which are slow."""
    warned = warning(data, order)
    return [*([warned] if warned is not None else []), *slow(data), *health(data)]


def health(data: ReportData) -> list[str]:
    """What has happened to the GPUs' health, each with its time: Xids, errors of the memory; the latest `_MOST`."""
    found = [*events(data)]
    left = [f"{units.count(len(found) - _MOST, 'earlier event')} of GPUs' health"] if len(found) > _MOST else []
    times = (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time)) for event in found[-_MOST:])
    texts = (f"{event.slot}, {event.text}" if event.slot else event.text for event in found[-_MOST:])
    return [*left, *(f"{moment} {text}" for moment, text in zip(times, texts, strict=True))]


def _models(data: ReportData) -> dict[str, str]:
    """The GPU's model of each slot that is on one."""
    slots = data.session.slots if data.session is not None else ()
    return {slot.name: slot.gpu.name for slot in slots if slot.gpu is not None}


def _groups(data: ReportData) -> list[dict[str, float]]:
    """For each set of arguments and each model of GPU, the mean settled rates by slot."""
    models = _models(data)
    rates: dict[object, dict[str, list[float]]] = {}
    for attempts in data.attempts.values():
        for one in attempts:
            rate = settled_rate(one.attempt)
            if rate is not None and one.slot in models:
                group = rates.setdefault((models[one.slot], arguments_of(one.attempt)), {})
                group.setdefault(one.slot, []).append(rate)
    return [{slot: fmean(each) for slot, each in group.items()} for group in rates.values()]


class _Ranked(NamedTuple):
    """What is ranked: a job, or the runs of one combination."""

    name: str
    value: float
    slots: frozenset[str]


def warning(data: ReportData, order: Order) -> str | None:
    """That a ranking may be one of the GPUs rather than of what ran on them, in one sentence; None where it is not.

    That is so where two neighbours of the ranking ran on different GPUs, and differ by less than these do on the same
    arguments or, where that is not known, than GPUs may.
    """
    models = _models(data)
    if order.column not in _SPEEDS or not models:
        return None
    ranking = _ranking(data.jobs, order, models.keys())
    groups = _groups(data)
    away = away_from_median(groups, least=2)
    for better, worse in pairwise(ranking):
        slots = better.slots | worse.slots
        if better.slots == worse.slots:
            continue
        lead_pct = abs(better.value - worse.value) / max(abs(better.value), abs(worse.value), 1e-9) * 100
        said = f"{better.name} and {worse.name} differ by {lead_pct:.1f} % and ran on different GPUs"
        if _compared(slots, groups):
            between_pct = max(away[slot] for slot in slots) - min(away[slot] for slot in slots)
            if lead_pct < between_pct:
                return f"{said}, which differ by {between_pct:.1f} % on the same arguments: every_gpu runs each on all"
        elif lead_pct < _ALIKE_PCT or len({models[slot] for slot in slots}) > 1:
            return f"{said}; how much these differ is not known: every_gpu runs each on all"
    return None


def _compared(slots: frozenset[str], groups: list[dict[str, float]]) -> bool:
    """Whether all these slots have run the same arguments, directly or by way of others."""
    reached = set(sorted(slots)[:1])
    left = [group.keys() for group in groups if len(group) > 1]
    while near := [group for group in left if not reached.isdisjoint(group)]:
        left = [group for group in left if reached.isdisjoint(group)]
        reached.update(*near)
    return slots <= reached


def _ranking(jobs: list[JobRecord], order: Order, on_gpus: Iterable[str]) -> list[_Ranked]:
    """What is ranked, in its order: the runs of a combination by their mean, any other job by itself."""
    wanted = columns(jobs)
    place = wanted.header.index(order.column or "")
    values: dict[tuple[int, str], list[float]] = {}
    slots: dict[tuple[int, str], set[str]] = {}
    known = set(on_gpus)
    for job in ordered(jobs, order):
        value = cells(job, wanted)[place]
        if job.state is WorkerState.FINISHED and job.slot in known and isinstance(value, int | float):
            key = (job.batch, job.combination or job.name)
            values.setdefault(key, []).append(value)
            slots.setdefault(key, set()).add(job.slot or "")
    ranked = [_Ranked(name, fmean(each), frozenset(slots[group, name])) for (group, name), each in values.items()]
    return sorted(ranked, key=lambda one: one.value, reverse=not order.smallest_first)
