"""Loops of known pace as Genesis would print them, and as an engine would read that."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from gmg_tui.genesis.output.rate import RateWindow, Smoothing
from gmg_tui.genesis.output.stretches import WINDOW_S, Settled

Printed = Iterator[tuple[float, float]]
"""When each number was printed, in seconds, and the number."""
_WARM_UP_S = 2.0
"""The first step compiles."""


def uneven(seed: int, durations: Iterable[float], *, spread: float = 0.03) -> list[float]:
    """The durations of steps, each a little off."""
    chance = random.Random(seed)
    return [max(1e-6, duration * chance.gauss(1.0, spread)) for duration in durations]


def periods(steps: Sequence[float], stalls: Sequence[float] = ()) -> Iterator[tuple[float, float]]:
    """The end of each step, and how long the step before took from its start to this one's; a stall follows its step."""
    start, previous = 0.0, None
    for number, step in enumerate([_WARM_UP_S, *steps]):
        if previous is not None:
            yield start + step, start - previous
        previous = start
        start += step + (stalls[number - 1] if 0 < number <= len(stalls) else 0.0)


def learning(
    seed: int, count: int, step: float, stalls: Sequence[float], *, spread: float, total_s: float
) -> tuple[list[float], list[float]]:
    """Steps and stalls of a loop for some seconds: `count` steps and a stall, again and again, each a little off.

    The stalls are `stalls` in turn.
    """
    length_s = count * step + sum(stalls) / len(stalls)
    rounds = math.ceil(total_s / length_s)
    steps = uneven(seed, [step] * (count * rounds), spread=spread)
    ends = uneven(seed + 1, [stalls[number % len(stalls)] for number in range(rounds)], spread=spread)
    return steps, [stall for end in ends for stall in [0.0] * (count - 1) + [end]]


def lately(steps: Sequence[float], stalls: Sequence[float], until_s: float) -> float:
    """Steps by time of the last whole periods that ended at `until_s`, and make ten seconds."""
    ends: list[tuple[float, int]] = []
    now = _WARM_UP_S
    for number, (step, stall) in enumerate(zip(steps, stalls, strict=True), 1):
        now += step + stall
        if stall and now <= until_s:
            ends.append((now, number))
    last_s, last = ends[-1]
    begin_s, begin = next(end for end in reversed(ends) if last_s - end[0] >= WINDOW_S)
    return (last - begin) / (last_s - begin_s)


def rates(steps: Sequence[float], stalls: Sequence[float] = (), n_envs: int = 1) -> Printed:
    """What 1.4.5 prints (`Scene.step`): an average of rates, whenever steps have taken 0.05 s."""
    average, count, passed = None, 0, 0.0
    for end, period in periods(steps, stalls):
        count, passed = count + 1, passed + period
        if passed >= 0.05:
            sample = count / passed
            average = sample if average is None else 0.95 * average + 0.05 * sample
            count, passed = 0, 0.0
            yield end, round(average * n_envs, 2)


def seconds(steps: Sequence[float], stalls: Sequence[float] = (), n_envs: int = 1) -> Printed:
    """What 0.3.3 prints (`FPSTracker`): an average of seconds, at each step."""
    average = None
    for end, period in periods(steps, stalls):
        average = period if average is None else 0.95 * average + 0.05 * period
        yield end, round(n_envs / average, 2)


def following(steps: Sequence[float], stalls: Sequence[float] = (), n_envs: int = 1) -> Printed:
    """What 0.4.5 prints (`FPSTracker`): an average of the seconds between lines, which begins anew at each outlier."""
    average, count, passed = None, 0, 0.0
    for end, period in periods(steps, stalls):
        count, passed = count + 1, passed + period
        if passed < 0.05:
            continue
        if average is None or passed > 1.5 * average or 1.5 * passed < average:
            average = passed
        average = 0.95 * average + 0.05 * passed
        yield end, round(n_envs * count / average, 2)
        count, passed = 0, 0.0


KINDS: dict[Smoothing, Callable[[Sequence[float], Sequence[float], int], Printed]] = {
    Smoothing.RATES: rates,
    Smoothing.SECONDS: seconds,
    Smoothing.NONE: following,
}


def read(
    printed: Printed,
    kind: Smoothing = Smoothing.RATES,
    n_envs: int = 1,
    *,
    every_s: float = 0.1,
    bunch: int = 1,
    phase: float = 1 / 3,
) -> Iterator[tuple[float, Settled | None]]:
    """Read lines in rounds of `every_s`, held back until there are `bunch`: the time of each block, and the rate then.

    The first round is after the share `phase` of that time, the last one with the last line: the script has ended.
    """
    window = RateWindow(kind, n_envs)
    held: list[float] = []
    moment, due = 0.0, every_s * phase
    for moment, number in printed:
        while moment > due:
            if len(held) >= bunch:
                window.add(held, due)
                yield due, window.settled()
                held = []
            due += every_s
        held.append(number)
    if held:
        window.add(held, moment)
    yield moment, window.settled()
