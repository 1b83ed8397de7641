"""The part of a worker's life that its charts show: all of it, or a window that is zoomed and moved."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from gmg_tui.model import Attempt, Series
from gmg_tui.ui.drawing.charts import Values
from gmg_tui.ui.drawing.timeline import Mark

_LEAST_S: Final = 30.0
"""The shortest window."""


class Life(NamedTuple):
    """The time that is known of a worker, as Unix times in seconds."""

    start: float
    now: float

    @classmethod
    def of(cls, whole: Series) -> Self:
        """That of a series over the whole life."""
        return cls(whole.end - whole.step_s * len(whole.fps), whole.end)


class Window(NamedTuple):
    """What the charts show of a life."""

    span_s: float | None = None
    """How much; None for all of it."""
    end: float | None = None
    """Unix time of its end; None while it follows what comes."""

    def within(self, life: Life) -> tuple[float, float]:
        """Its start and end, as Unix times in seconds."""
        end = life.now if self.end is None else self.end
        return (life.start if self.span_s is None else end - self.span_s), end

    def zoomed(self, life: Life, factor: float) -> Self:
        """`factor` times as long, around its middle; around its end where that is the present."""
        start, end = self.within(life)
        span_s = max(_LEAST_S, (end - start) * factor)
        if span_s >= life.now - life.start:
            return type(self)()
        return self._placed(life, span_s, None if self.end is None else (start + end + span_s) / 2)

    def moved(self, life: Life, share: float) -> Self:
        """Later by so many times its length (earlier when negative); at the present it follows what comes."""
        start, end = self.within(life)
        return self if self.span_s is None else self._placed(life, self.span_s, end + share * (end - start))

    def _placed(self, life: Life, span_s: float, end: float | None) -> Self:
        if end is None or end >= life.now:
            return type(self)(span_s)
        return type(self)(span_s, max(end, life.start + span_s))


def cut_out(series: Series, start: float, end: float, columns: int) -> Series:
    """The part of a series between two Unix times, with at least `columns` values; None where it has none.

    Where its steps are longer than columns, values are repeated: steps show as steps.
    """
    count = max(1, round((end - start) / series.step_s))
    first = len(series.fps) - round((series.end - start) / series.step_s)
    wanted = max(count, columns)
    places = [first + at * count // wanted for at in range(wanted)]

    def picked(values: Values) -> tuple[float | None, ...]:
        return tuple(values[place] if 0 <= place < len(values) else None for place in places)

    return Series(
        series.slot,
        end,
        (end - start) / wanted,
        picked(series.fps),
        picked(series.gpu_util_pct),
        picked(series.memory_used_mib),
        picked(series.power_w),
        picked(series.sm_pct) if series.sm_pct else (),
    )


def marks(attempts: tuple[Attempt, ...]) -> list[Mark]:
    """Where attempts began: `r2` after a restart, `e3` after an edit of the arguments, `1` for the first."""
    found, before = [], None
    for attempt in attempts:
        if before is None:
            found.append(Mark(attempt.started, f"{attempt.number}", "title"))
        elif before.args != attempt.args:
            found.append(Mark(attempt.started, f"e{attempt.number}", "warn"))
        else:
            found.append(Mark(attempt.started, f"r{attempt.number}", "title"))
        before = attempt
    return found
