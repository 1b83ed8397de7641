"""The searches of all models, side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gmg_tui.model.tuning import Trial, TrialState, TuneSpec, Tuning
from gmg_tui.tune.search import Search
from gmg_tui.tune.slots import Plan, TuneSlot


def _no_command(value: int) -> Sequence[str]:
    return ()


class Searches:
    """One search for each model, that of the most slots first; a single one with `same`."""

    def __init__(self, spec: TuneSpec, slots: Sequence[TuneSlot], trials: Iterable[Trial] = ()) -> None:
        self.spec = spec
        groups: dict[str, list[TuneSlot]] = {}
        for slot in slots:
            groups.setdefault("" if spec.same else slot.model, []).append(slot)
        known = list(trials)
        self._searches: list[Search] = []
        self._of: dict[str, Search] = {}
        """By slot."""
        for group in sorted(groups.values(), key=len, reverse=True):
            names = {slot.name for slot in group}
            search = Search(spec, group, [trial for trial in known if trial.slot in names])
            self._searches.append(search)
            self._of |= dict.fromkeys(names, search)

    def plan(self, free: Collection[str], now_s: float, free_mib: Mapping[str, float] | None = None) -> list[Plan]:
        """The trials to start now on these free slots; none to wait."""
        return [plan for search in self._searches for plan in search.plan(free, now_s, free_mib)]

    def take(self, trial: Trial) -> None:
        """A trial has ended; one on a slot that is not of this tuning is left out."""
        search = self._of.get(trial.slot)
        if search is not None:
            search.take(trial)

    def stop(self, why: str) -> None:
        """Nothing more is planned."""
        for search in self._searches:
            search.stop(why)

    @property
    def ended(self) -> bool:
        """Whether all have ended."""
        return all(search.ended for search in self._searches)

    @property
    def step(self) -> str:
        """That of the first one that goes on, or else of the first."""
        going = [search for search in self._searches if not search.ended]
        return next((search.step for search in going or self._searches), "no slot")

    def eta_s(self, running: Mapping[str, float], now_s: float) -> float | None:
        """Seconds to the end of the last one; None while one cannot tell."""
        each = [
            search.eta_s({slot: since_s for slot, since_s in running.items() if self._of.get(slot) is search}, now_s)
            for search in self._searches
        ]
        known = [eta_s for eta_s in each if eta_s is not None]
        return max(known, default=None) if len(known) == len(each) else None

    def tuning(
        self,
        trials: Sequence[Trial],
        now_s: float,
        started_s: Mapping[str, float],
        command: Callable[[int], Sequence[str]] = _no_command,
    ) -> Tuning:
        """All of it at this moment.

        `trials` are those of the engine, with what runs; `started_s` says when that began, by slot; `command` gives the
        plain run's command line for a value.
        """
        answers = tuple(search.answer() for search in self._searches)
        fastest = next((answer.fastest for answer in answers if answer.fastest is not None), None)
        running = {trial.slot for trial in trials if trial.state is TrialState.RUNNING}
        since_s = {slot: at_s for slot, at_s in started_s.items() if slot in running}
        return Tuning(
            spec=self.spec,
            step=self.step,
            trials=tuple(trials),
            answers=answers,
            eta_s=self.eta_s(since_s, now_s),
            ended=self.ended,
            command=tuple(command(fastest.value)) if fastest is not None else (),
        )
