"""A metric of one attempt over time and over the script's steps."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Self

from msgspec import Struct, structs

from gmg_tui.model.states import Moment

_MINIMISED = re.compile(
    r"loss|error|cost|perplexity|regret|(?<![a-z])(?:r?mse|mae|nll|kl|fid|ppl|wer)(?![a-z])", re.IGNORECASE
)
"""Words in the names of metrics to minimise."""
_LISTED_FIRST = ("reward", "return", "success", "loss")
"""Words in the names of metrics to list first."""
_VITAL_METRICS = re.compile(r"loss|reward|return|grad|value|kl|action|obs", re.IGNORECASE)
"""Names of metrics whose NaN means that training is broken; others may be NaN for lack of data."""
_HARMLESS_METRICS = re.compile(r"explained_var", re.IGNORECASE)
"""Names of metrics that are NaN in Stable-Baselines3 whenever all returns are equal."""
_EVALUATION_METRICS = re.compile(r"(?<![a-z])(?:val(?![a-z])|test)|valid|eval|best|lowest", re.IGNORECASE)
"""Names of metrics that may be NaN before and between evaluations."""
_SCALED_METRICS = re.compile(r"grad|norm|scale", re.IGNORECASE)
"""Names of metrics that are infinite now and then in mixed precision: the step is skipped, and the loss scaled down."""


class Point(NamedTuple):
    """A value of a metric."""

    time: Moment
    step: int | None
    """The script's step, such as its iteration; None if it reports none."""
    value: float


class BrokenMetric(NamedTuple):
    """A metric that is NaN or infinite."""

    value: float
    finite: float | None
    """Its last finite value, if any."""
    at: str
    """The progress at `since`, such as `iteration 212`; empty if unknown."""
    since: Moment = 0.0


def is_training_loss(name: str) -> bool:
    """True for the name of a loss that is computed from the weights in each step of the training."""
    return "loss" in name.lower() and _EVALUATION_METRICS.search(name) is None


def serious(broken: Mapping[str, BrokenMetric]) -> list[tuple[str, BrokenMetric]]:
    """Returns the metrics, with their names, that tell of a broken training, losses first: others may lack data.

    These are losses of the training, and vital metrics that were finite before.
    """
    found = [(name, metric) for name, metric in broken.items() if _is_serious(name, metric)]
    return sorted(found, key=lambda pair: not is_training_loss(pair[0]))


def _is_serious(name: str, broken: BrokenMetric) -> bool:
    if _HARMLESS_METRICS.search(name) is not None or _EVALUATION_METRICS.search(name) is not None:
        return False
    if broken.finite is None:
        return math.isnan(broken.value) and is_training_loss(name)
    is_overflow = math.isinf(broken.value) and _SCALED_METRICS.search(name) is not None
    return _VITAL_METRICS.search(name) is not None and not is_overflow


class Curve(Struct, frozen=True, omit_defaults=True):
    """A metric of one attempt, evenly thinned as it grows except for the newest point. All tuples have equal length."""

    times: tuple[Moment, ...]
    steps: tuple[int | None, ...]
    """See `Point.step`."""
    values: tuple[float | None, ...]
    """None for NaN and infinity, which JSON lacks; in the store as reported."""
    count: int = 0
    """Number of values that the script has reported."""
    lowest: Point | None = None
    """The lowest finite value reported; its first occurrence."""
    highest: Point | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.times) == len(self.steps) == len(self.values):
            raise ValueError("times, steps and values must not be empty, and must have equal lengths")

    @property
    def points(self) -> Iterator[Point]:
        """The points, with NaN for None."""
        for time, step, value in zip(self.times, self.steps, self.values, strict=True):
            yield Point(time, step, math.nan if value is None else value)

    @property
    def last(self) -> float:
        """The newest value, NaN for None."""
        return math.nan if self.values[-1] is None else self.values[-1]

    def best(self, name: str) -> Point | None:
        """Returns the best point of the metric called `name`: the highest, or for a loss or error the lowest."""
        return best_of(name, (self.lowest, self.highest))

    def thinned(self, count: int) -> Self:
        """Returns the curve with at most `count` points, including the newest."""
        kept = thinning_slice(len(self.times), count)
        return structs.replace(self, times=self.times[kept], steps=self.steps[kept], values=self.values[kept])


def thinning_slice(size: int, count: int) -> slice:
    """Returns a slice for `size` items that selects at most `count`, including the last; all if `count` is 0."""
    stride = -(-size // count) if count else 1
    return slice(max(0, size - 1) % max(1, stride), None, max(1, stride))


def rank(name: str) -> int:
    """Returns the position of a metric in lists, 0 for the most interesting ones."""
    return next((index for index, word in enumerate(_LISTED_FIRST) if word in name.lower()), len(_LISTED_FIRST))


def best_of(name: str, points: Iterable[Point | None]) -> Point | None:
    """Returns the first point with the highest value, or for a loss or error the lowest; None if there are no points."""
    sign = 1 if _MINIMISED.search(name) is None else -1
    return max((point for point in points if point is not None), key=lambda point: sign * point.value, default=None)
