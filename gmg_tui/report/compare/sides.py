"""One session of a comparison, and its rates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from gmg_tui import units
from gmg_tui.errors import GmgError
from gmg_tui.model import FPS, Answer, Best, JobRecord, Tuning
from gmg_tui.model.tried import settled_rate
from gmg_tui.report.compare.settings import Name
from gmg_tui.report.data import ReportData
from gmg_tui.results import tuning
from gmg_tui.session import SUMMARY


class Rate(NamedTuple):
    """The rate of a slot, or of a sweep's job."""

    job: JobRecord
    fps: float | None
    """Settled, and measured for long enough to be compared; None where it is not."""
    unsettled: float | None
    """What is known of it otherwise: a rate of a few seconds, or the number printed last."""
    running_s: float | None = None
    """For how long it ran; None where that is not known."""


class Side(NamedTuple):
    """One session."""

    data: ReportData
    state: str
    settings: Mapping[Name, str | None]
    rates: Mapping[str, Rate]
    """By slot; by the job's name in a sweep, by the value in a tuning, of whose trials it is the mean."""
    total_fps: float | None
    """Of all its slots together, settled; None where they did not run together, as in a sweep, and if not known."""
    answers: tuple[str, ...] = ()
    """What a tuning has found, a sentence for each model of GPU."""

    def key(self, job: JobRecord) -> str:
        """What a job's rate is put under: in a tuning its value, which another may have measured on another slot."""
        return job.name.partition(",")[0] if self.tuned else job.name

    @property
    def name(self) -> str:
        """The session's."""
        return self.data.name

    @property
    def simulated(self) -> bool:
        """Whether its GPUs were."""
        return self.data.session is not None and self.data.session.spec.simulate is not None

    @property
    def queued(self) -> bool:
        """Whether its jobs ran one after another."""
        return self.data.session is not None and self.data.session.spec.sweep is not None

    @property
    def tuned(self) -> bool:
        """Whether its jobs were trials, which are measured for as long as they must be."""
        return self.data.session is not None and self.data.session.spec.tune is not None

    @property
    def known(self) -> dict[str, float]:
        """The rates that can be compared."""
        return {key: rate.fps for key, rate in self.rates.items() if rate.fps is not None}

    @property
    def mean_fps(self) -> float | None:
        """The mean of these; None in a sweep, whose jobs differ."""
        return fmean(self.known.values()) if self.known and not self.queued else None

    @property
    def spread_pct(self) -> float | None:
        """Their standard deviation, per cent of the mean; None with fewer than two, and without a mean."""
        rates = list(self.known.values())
        return stdev(rates) / self.mean_fps * 100 if len(rates) > 1 and self.mean_fps else None


def side(data: ReportData, state: str, folder: Path, settings: Mapping[Name, str | None]) -> Side:
    """A session whose folder this is."""
    made = Side(data, state, settings, {}, None)
    rates = {made.key(job): _rate(data, job) for job in data.jobs}
    if made.tuned:
        rates, made = _pooled(made, [_rate(data, job) for job in data.jobs]), made._replace(answers=_answers(folder))
    made = made._replace(rates=rates)
    total = None
    if not made.queued and made.known:
        # A rank may have told of its whole group: only the session itself knows which do.
        total = _own_total(folder) if any(job.group for job in data.jobs) else sum(made.known.values())
    return made._replace(total_fps=total)


def _rate(data: ReportData, job: JobRecord) -> Rate:
    fps = job.fps
    attempts = data.attempts.get(job.number)
    if fps is None:
        return Rate(job, None, None)
    last = attempts[-1].attempt if attempts else None
    running_s = last.metrics.running_s if last is not None and last.metrics is not None else None
    if fps.settled is None or (last is not None and settled_rate(last) is None):
        return Rate(job, None, fps.best_known, running_s)
    return Rate(job, fps.settled, None, running_s)


def _pooled(made: Side, rates: Sequence[Rate]) -> dict[str, Rate]:
    """Of each value of a tuning the mean of what its trials measured."""
    found = dict[str, list[Rate]]()
    for rate in rates:
        found.setdefault(made.key(rate.job), []).append(rate)
    pooled = {}
    for key, each in found.items():
        known = [rate for rate in each if rate.fps is not None] or each[:1]
        measured = [rate.fps for rate in known if rate.fps is not None]
        pooled[key] = known[0]._replace(fps=fmean(measured) if measured else None, unsettled=None)
    return pooled


def _answers(folder: Path) -> tuple[str, ...]:
    try:
        recorded = tuning.read(folder)
    except GmgError:
        return ()
    return tuple(_answer(answer, recorded.tuning) for answer in recorded.tuning.answers) if recorded is not None else ()


def _answer(answer: Answer, of: Tuning) -> str:
    found = (("fastest", answer.fastest), ("knee", answer.knee), ("largest", answer.largest))
    said = ", ".join(f"{name} {best.value:,}{_reached(best, of)}" for name, best in found if best is not None)
    where = f" on {answer.model}" if len(of.answers) > 1 else ""
    return f"{of.spec.variable}{where}: {said}" if said else f"{of.spec.variable}{where}: nothing was found"


def _reached(best: Best, of: Tuning) -> str:
    if best.rate is None:
        return ""
    return f" ({units.fps(best.rate)} FPS)" if of.spec.metric == FPS else f" ({best.rate:.6g} {of.spec.metric})"


def _own_total(folder: Path) -> float | None:
    try:
        total = json.loads((folder / SUMMARY).read_bytes())["total_fps_settled"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return float(total) if isinstance(total, int | float) else None
