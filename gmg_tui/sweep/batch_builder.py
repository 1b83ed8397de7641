"""Builds one batch and its jobs from settings, and checks their placeholders and folders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gmg_tui.errors import GmgError
from gmg_tui.genesis.placeholders import fill, names_in
from gmg_tui.model import Batch, Job, Value
from gmg_tui.sweep import checks, names
from gmg_tui.sweep.settings import Experiment, Settings

_OWN = frozenset({"job", "name", "i", "seed"})
"""Placeholders that differ between any two jobs."""
_LIMITS = ("gpus", "per_gpu", "retries", "timeout_s", "min_free_mib")
_NONE_AT_ALL = {"timeout_s": math.inf, "min_free_mib": 0.0}
"""Settings that the model stores as None."""
_WIDTHS = ("ddp", "gpus_per_job")
_NAMED = 16
"""How many names a message lists."""


class JobDraft(NamedTuple):
    """A job before its name is made unique."""

    name: str
    given: bool
    """Whether the file gives the name; only others may be changed."""
    values: dict[str, Value]
    gpus: int = 1
    """How many slots it takes at once."""
    world_size: int | None = None
    """How many ranks it has; None where it is one process."""


class BatchBuilder:
    """Makes a batch and its jobs.

    Its name is the preset's, or empty; its settings are those of file, preset and command line, with the values of
    `--set`. Where there are several batches, the names of its jobs need its own as a prefix.

    Attributes:
        grid: The values that are combined.
        has_grid: Whether combinations make jobs; else only the experiments do.
        used: The names of its placeholders.
    """

    def __init__(self, name: str, settings: Settings, sets: Mapping[str, tuple[Value, ...]], *, several: bool) -> None:
        self.name = name
        self.settings = settings
        self.experiments: tuple[Experiment, ...] = settings.experiments or ()
        fixed = {key: values[0] for key, values in sets.items() if len(values) == 1}
        # Without a grid, a single value changes the experiments and adds no job.
        self.has_grid = bool(settings.grid) or len(fixed) < len(sets) or not self.experiments
        self.grid = {**(settings.grid or {}), **sets} if self.has_grid else {}
        self._fixed = fixed
        self._defaults = {**(settings.defaults or {}), **fixed}
        self._prefix = f"{name}-" if several else ""
        self.used = frozenset(name for _, text in self._texts() for name in names_in(text))

    @property
    def size(self) -> int:
        """How many jobs it makes."""
        return math.prod(map(len, self.grid.values())) * self.has_grid + len(self.experiments)

    def given_names(self) -> Iterator[tuple[str, str]]:
        """The names that the file gives to its experiments, each after its place in the file."""
        for number, experiment in enumerate(self.experiments, 1):
            if experiment.name is not None:
                yield f"{self.settings.place('experiments')}[{number}].name", self._prefix + experiment.name

    def jobs(self) -> Iterator[JobDraft]:
        """Its jobs: the grid's, the last key varying fastest, then the experiments; the values that vary first."""
        if self.has_grid:
            varied = [key for key, values in self.grid.items() if len(values) > 1] or list(self.grid)
            for combination in itertools.product(*self.grid.values()):
                values = dict(zip(self.grid, combination, strict=True))
                name = names.of_values({key: values[key] for key in varied}) or self._script_name()
                yield self._draft(self._prefix + name, False, self._with_defaults(values))
        for number, experiment in enumerate(self.experiments, 1):
            name = experiment.name or f"experiment-{number}"
            own = {key: self._fixed.get(key, value) for key, value in experiment.values.items()}
            values = self._with_defaults({**own, **self._borrowed(experiment)})
            yield self._draft(self._prefix + name, experiment.name is not None, values)

    def _draft(self, name: str, given: bool, values: dict[str, Value]) -> JobDraft:
        ddp, gpus = (self._number(field, values) for field in _WIDTHS)
        return JobDraft(name, given, values, ddp or gpus or 1, ddp)

    def _number(self, field: str, values: Mapping[str, Value]) -> int | None:
        """How many slots `ddp` or `gpus_per_job` asks for in a job with these values; None where it is not set."""
        said: int | str | None = getattr(self.settings, field)
        if not isinstance(said, str):
            return said
        place = f"{self.settings.place(field)}: {said}"
        if said[1:-1] not in values:
            raise GmgError(f"{place} is not known before the job starts; name a value of the file")
        found = checks.width(place, values[said[1:-1]])
        return found if isinstance(found, int) else checks.wrong(place, found, "its value must be a whole number")

    def _with_defaults(self, values: dict[str, Value]) -> dict[str, Value]:
        return values | {key: value for key, value in self._defaults.items() if key not in values}

    def _borrowed(self, experiment: Experiment) -> dict[str, Value]:
        """The values that an experiment uses and only the grid has: the first of each."""
        return {
            key: values[0]
            for key, values in self.grid.items()
            if key in self.used and key not in experiment.values and key not in self._defaults
        }

    def borrowings(self) -> Iterator[str]:
        """A line about each experiment that takes values from the grid."""
        for number, experiment in enumerate(self.experiments, 1):
            borrowed = names.of_values(self._borrowed(experiment))
            if borrowed:
                place = self.settings.place("experiments")
                yield f"{place}[{number}] lacks values and takes the grid's first: {borrowed}"

    def _script_name(self) -> str:
        script = self.settings.script or ""
        stem = script.rpartition(".")[2] if self.settings.module else Path(script).stem
        return names.safe(stem).lstrip(".-=,+") or "job"

    def batch(self, *, cpu: bool) -> Batch:
        """The batch; without GPUs on CPU slots."""
        settings = self.settings
        script, args, module = settings.script or "", settings.args or (), settings.module or False
        plain = Batch(name=self.name, script=script, args=args, module=module, out_dir=settings.out_dir)
        return changed(plain, settings, cpu=cpu)

    def _texts(self) -> Iterator[tuple[str, str]]:
        """The texts that may contain placeholders, each after the place where it was set."""
        settings = self.settings
        for number, arg in enumerate(settings.args or (), 1):
            yield f"{settings.place('args')}[{number}]", arg
        for key, text in (settings.env or {}).items():
            yield settings.place(f"env.{key}"), text
        if settings.out_dir is not None:
            yield settings.place("out_dir"), settings.out_dir
        for field in _WIDTHS:
            if isinstance(text := getattr(settings, field), str):
                yield settings.place(field), text

    def check_widths(self) -> None:
        """Raise `GmgError` where jobs that need several slots at once are asked for what they cannot have."""
        settings = self.settings
        wide = [field for field in _WIDTHS if getattr(settings, field) not in (None, 1)]
        if not wide and settings.ddp is None:
            return
        place = settings.place("ddp" if settings.ddp is not None else wide[0])
        if len(wide) > 1 or (settings.ddp is not None and "gpus_per_job" in wide):
            other = settings.place("gpus_per_job")
            raise GmgError(f"{place} has a process on each GPU, {other} one for all of them; leave out one of the two")
        if (settings.per_gpu or 1) > 1:
            raise GmgError(
                f"{place}: jobs that need whole GPUs do not share them; leave out {settings.place('per_gpu')}"
            )
        if settings.every_gpu:
            raise GmgError(f"{place}: a job on several GPUs has no single one; leave out {settings.place('every_gpu')}")

    def check_placeholders(self) -> None:
        """Raise `GmgError` where a placeholder has no value in one of the jobs."""
        settings = self.settings
        if settings.out_dir is not None and "out_dir" in names_in(settings.out_dir):
            raise GmgError(f"{settings.place('out_dir')}: {{out_dir}} is the folder itself; use {{job}} or {{name}}")
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
                        f"(available: {listed((*sorted(known), *checks.BUILT_IN))}; "
                        f"for literal braces write {{{{{name}}}}})"
                    )

    def valued(self) -> dict[str, None]:
        """The names that its jobs have values for, in file order."""
        experiments = (experiment.values for experiment in self.experiments)
        return dict.fromkeys(itertools.chain(self.grid, self._defaults, *experiments))


def changed(batch: Batch, settings: Settings, *, cpu: bool) -> Batch:
    """`batch` with the GPUs (none on CPU slots), limits and variables of `settings`; its jobs do not change."""
    said = {field: value for field in _LIMITS if (value := getattr(settings, field)) is not None}
    none_at_all = {field: None for field, value in said.items() if value == _NONE_AT_ALL.get(field)}
    if cpu:
        none_at_all["gpus"] = None
    return structs.replace(batch, env={**batch.env, **(settings.env or {})}, **{**said, **none_at_all})


def check_out_dirs(builders: Sequence[BatchBuilder], jobs: Sequence[Job]) -> None:
    """Raise `GmgError` where two jobs would share a folder: each would find the other's `result.json` in it."""
    owners: dict[str, Job] = {}
    for job in jobs:
        settings = builders[job.batch].settings
        if settings.out_dir is None or not _OWN.isdisjoint(names_in(settings.out_dir)):
            continue
        other = owners.setdefault(fill(settings.out_dir, job.values), job)
        if other is not job:
            raise GmgError(
                f"{settings.place('out_dir')} is the same folder for {other.name} and {job.name}; "
                "put {name} or {job} into it"
            )


def listed(words: Sequence[str] | Mapping[str, object]) -> str:
    """The first of `words`, and the number of the others."""
    shown = list(words)
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return ", ".join(shown[:_NAMED]) + more
