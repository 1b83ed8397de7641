"""The interface of line readers, for Genesis, trainers and users' formats."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gmg_tui.model import Phase

_NUMBER = re.compile(
    r"[+-]?(?:(?:\d{1,3}(?:,\d{3}){1,12}|\d[\d_]{0,40})(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?"
)
"""Commas separate thousands; `5,7` is ambiguous."""
_NOT_FINITE = re.compile(r"([+-]?(?:nan|inf(?:inity)?))(?:\.0*)?", re.IGNORECASE)
"""As Python prints these; Lightning's bars write `nan.0`."""
_MIN_FIGURE = 1e-30
"""Smaller figures, if not 0, overflow in ratios."""
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Figures:
    """The figures in a line, or in a block of progress lines; missing ones are None."""

    rates: Sequence[float] = ()
    """The printed rates, in order: environment steps per second over all environments."""
    steps: float | None = None
    """Environment steps since the start."""
    n_envs: int | None = None
    done: float | None = None
    total: float | None = None
    """The final value of `done`."""
    unit: str = "step"
    metrics: Mapping[str, float] = field(default_factory=dict)
    step: int | None = None
    """The script's step for the metrics, if their line has one."""
    phase: Phase | None = None
    """The phase that begins."""


class LineReader(ABC):
    """Reads whole lines of output. If several readers find a rate, progress or environments, the first reader counts."""

    whole_group: bool = False
    """True if a rank's rates are its whole group's."""
    vague: bool = False
    """True if its progress may measure anything, such as a download."""

    @abstractmethod
    def read(self, block: bytes) -> Iterator[Figures]:
        """Yields the figures in a block of whole lines, in order. Never raises, whatever a script prints."""


_MAX_NAME_CHARS = 200
"""Maximum length of a metric's name: clients get the metrics of all workers each second."""


def figures(numbers: Mapping[str, float], metrics: Mapping[str, float], unit: str = "step") -> Figures:
    """Builds figures from named numbers, without impossible ones (negative, infinite, no environments).

    The values of metrics are kept as they are: a diverged run reports NaN and infinities. Very long names are left out.
    """

    def figure(name: str) -> float | None:
        value = numbers.get(name)
        return value if value is not None and (value == 0 or _MIN_FIGURE <= value < 1e18) else None

    fps, n_envs = figure("fps"), figure("n_envs")
    return Figures(
        rates=(fps,) if fps is not None else (),
        steps=figure("steps"),
        n_envs=int(n_envs) if n_envs is not None and n_envs >= 1 else None,
        done=figure("done"),
        total=figure("total") or None,
        unit=unit,
        metrics={name: value for name, value in metrics.items() if len(name) <= _MAX_NAME_CHARS},
    )


def number(text: str) -> float | None:
    """Returns a number as scripts write it: `1,234.5`, `1_000`, `1e6`, `5.7M`, `12k`, `nan`; None for anything else."""
    text = text.strip()
    if (special := _NOT_FINITE.fullmatch(text)) is not None:
        return float(special[1])
    scale = _SCALES.get(text[-1:])
    digits = text[:-1].rstrip() if scale is not None else text
    if not _NUMBER.fullmatch(digits):
        return None
    return float(digits.replace(",", "").replace("_", "")) * (scale or 1.0)
