"""One group on its way from settings to jobs: what its jobs stand for, and whether that makes sense."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gmg_tui.errors import GmgError
from gmg_tui.genesis.placeholders import fill, names_in
from gmg_tui.model import Group, Job, Value
from gmg_tui.sweep import checks, names
from gmg_tui.sweep.settings import Experiment, Settings

_OWN = frozenset({"job", "name", "i", "seed"})
"""Placeholders that differ from job to job whatever its values are."""
_LIMITS = ("gpus", "per_gpu", "retries", "timeout_s", "min_free_mib")
_NONE_AT_ALL = {"timeout_s": math.inf, "min_free_mib": 0.0}
"""What settings have where the model has None."""
_NAMED = 16
"""How many names a line lists."""


class Wish(NamedTuple):
    """A job on its way."""

    name: str
    given: bool
    """Whether the file gives the name; else it may be made unlike others."""
    values: dict[str, Value]


class Part:
    """A group on its way.

    Args:
        name: The preset's name; empty where there is none.
        settings: All that is said of it, by the file, the preset and the command line.
        sets: The values of `--set`.
        several: Whether there are other groups, so that its jobs' names begin with its own.

    Attributes:
        grid: The values that are combined.
        has_grid: Whether combinations make jobs; else only the experiments do.
    """

    def __init__(self, name: str, settings: Settings, sets: Mapping[str, tuple[Value, ...]], *, several: bool) -> None:
        self.name = name
        self.settings = settings
        self.experiments: tuple[Experiment, ...] = settings.experiments or ()
        fixed = {key: values[0] for key, values in sets.items() if len(values) == 1}
        # One value for experiments alone changes them; it adds no job beside them.
        self.has_grid = bool(settings.grid) or len(fixed) < len(sets) or not self.experiments
        self.grid = {**(settings.grid or {}), **sets} if self.has_grid else {}
        self._fixed = fixed
        self._defaults = {**(settings.defaults or {}), **fixed}
        self._prefix = f"{name}-" if several else ""
        self._used = frozenset(name for _, text in self._texts() for name in names_in(text))

    @property
    def size(self) -> int:
        """How many jobs it makes."""
        return math.prod(map(len, self.grid.values())) * self.has_grid + len(self.experiments)

    def given_names(self) -> Iterator[tuple[str, str]]:
        """The names that the file gives to its experiments, each with the place where it does."""
        for number, experiment in enumerate(self.experiments, 1):
            if experiment.name is not None:
                yield f"{self.settings.place('experiments')}[{number}].name", self._prefix + experiment.name

    def jobs(self) -> Iterator[Wish]:
        """Its jobs: the grid's, the last key the fastest, then the experiments; the values that vary first."""
        if self.has_grid:
            varied = [key for key, values in self.grid.items() if len(values) > 1] or list(self.grid)
            for combination in itertools.product(*self.grid.values()):
                values = dict(zip(self.grid, combination, strict=True))
                name = names.of_values({key: values[key] for key in varied}) or self._script_name()
                yield Wish(self._prefix + name, False, self._with_defaults(values))
        for number, experiment in enumerate(self.experiments, 1):
            name = experiment.name or f"experiment-{number}"
            own = {key: self._fixed.get(key, value) for key, value in experiment.values.items()}
            values = self._with_defaults({**own, **self._borrowed(experiment)})
            yield Wish(self._prefix + name, experiment.name is not None, values)

    def _with_defaults(self, values: dict[str, Value]) -> dict[str, Value]:
        return values | {key: value for key, value in self._defaults.items() if key not in values}

    def _borrowed(self, experiment: Experiment) -> dict[str, Value]:
        """The values that an experiment needs and only the grid has: the first of each, for it is a single job."""
        return {
            key: values[0]
            for key, values in self.grid.items()
            if key in self._used and key not in experiment.values and key not in self._defaults
        }

    def borrowings(self) -> Iterator[str]:
        """A line about each experiment that takes values of the grid."""
        for number, experiment in enumerate(self.experiments, 1):
            borrowed = names.of_values(self._borrowed(experiment))
            if borrowed:
                place = self.settings.place("experiments")
                yield f"{place}[{number}] gives none of its own, so it takes the grid's first: {borrowed}"

    def _script_name(self) -> str:
        script = self.settings.script or ""
        stem = script.rpartition(".")[2] if self.settings.module else Path(script).stem
        return names.safe(stem).lstrip(".-=,+") or "job"

    def group(self, *, cpu: bool) -> Group:
        """What the model has of it; on CPU slots no cards."""
        settings = self.settings
        plain = Group(
            name=self.name,
            script=settings.script or "",
            args=settings.args or (),
            module=settings.module or False,
            out_dir=settings.out_dir,
        )
        return changed(plain, settings, cpu=cpu)

    def _texts(self) -> Iterator[tuple[str, str]]:
        """What may hold placeholders, each after the place where it stands."""
        settings = self.settings
        for number, arg in enumerate(settings.args or (), 1):
            yield f"{settings.place('args')}[{number}]", arg
        for key, text in (settings.env or {}).items():
            yield settings.place(f"env.{key}"), text
        if settings.out_dir is not None:
            yield settings.place("out_dir"), settings.out_dir

    def check_placeholders(self) -> None:
        """Raise `GmgError` where a placeholder has no value in one of the jobs."""
        settings = self.settings
        if settings.out_dir is not None and "out_dir" in names_in(settings.out_dir):
            raise GmgError(f"{settings.place('out_dir')}: {{out_dir}} is this folder itself; use {{job}} or {{name}}")
        if self.has_grid:
            self._check_filled({*self._defaults, *self.grid}, "")
        for number, experiment in enumerate(self.experiments, 1):
            whose = f" in experiment {number}" + (f" ({experiment.name})" if experiment.name else "")
            self._check_filled({*self._defaults, *self._borrowed(experiment), *experiment.values}, whose)

    def _check_filled(self, known: set[str], whose: str) -> None:
        for place, text in self._texts():
            for name in names_in(text):
                if name not in known and name not in checks.BUILT_IN:
                    raise GmgError(
                        f"{place}: {{{name}}} has no value{whose}{checks.nearest(name, known)} "
                        f"(there are: {listed((*sorted(known), *checks.BUILT_IN))}; "
                        f"for the braces themselves write {{{{{name}}}}})"
                    )

    @property
    def used(self) -> frozenset[str]:
        """The names that its placeholders have."""
        return self._used

    def valued(self) -> dict[str, None]:
        """The names that its jobs have values for, in the order of the file."""
        tables: tuple[Mapping[str, object], ...] = (
            self.grid,
            self._defaults,
            *(experiment.values for experiment in self.experiments),
        )
        return {name: None for table in tables for name in table}


def changed(group: Group, settings: Settings, *, cpu: bool) -> Group:
    """`group` with the cards, limits and variables that `settings` says instead; what its jobs are stays.

    Args:
        group: The group.
        settings: What else is said.
        cpu: Whether the jobs run on CPU slots, so that cards do not matter.
    """
    said = {field: value for field in _LIMITS if (value := getattr(settings, field)) is not None}
    none_at_all = {field: None for field, value in said.items() if value == _NONE_AT_ALL.get(field)}
    if cpu:
        none_at_all["gpus"] = None
    return structs.replace(group, env={**group.env, **(settings.env or {})}, **{**said, **none_at_all})


def check_out_dirs(parts: Sequence[Part], jobs: Sequence[Job]) -> None:
    """Raise `GmgError` where two jobs would have one folder: each would find the other's `result.json` in it."""
    owners: dict[str, Job] = {}
    for job in jobs:
        settings = parts[job.group].settings
        if settings.out_dir is None or not _OWN.isdisjoint(names_in(settings.out_dir)):
            continue
        other = owners.setdefault(fill(settings.out_dir, job.values), job)
        if other is not job:
            raise GmgError(
                f"{settings.place('out_dir')} is the same folder for {other.name} and {job.name}; "
                "put {name} or {job} into it"
            )


def listed(words: Sequence[str] | Mapping[str, object]) -> str:
    """The first of `words`, and how many more there are."""
    shown = list(words)
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return ", ".join(shown[:_NAMED]) + more
