"""Makes a sweep's batches and jobs from its settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from gmg_tui.errors import GmgError, listed, nearest
from gmg_tui.model import Batch, JobRecord, Value
from gmg_tui.placeholders import as_text, fill, names_in
from gmg_tui.sweep import names
from gmg_tui.sweep.settings import BUILT_IN, ExperimentsFile, Settings, stored

MAX_JOBS = 100_000
_DIFFERENT = frozenset({"job", "name", "i", "seed"})
"""Placeholders that differ between any two jobs."""
_WIDTHS = ("ddp", "gpus_per_job")
_LIMITS = ("per_gpu", "retries", "min_free_mib")


class Plan(NamedTuple):
    """A sweep that is ready to run."""

    batches: tuple[Batch, ...]
    jobs: tuple[JobRecord, ...]
    warnings: tuple[str, ...]


def choose(path: str, file: ExperimentsFile, presets: Sequence[str], *, every: bool) -> list[tuple[str, Settings]]:
    """The names and settings of the batches: the chosen presets applied to the file's settings, or these alone.

    Raises:
        GmgError: There is no such preset.
    """
    if presets and every:
        raise GmgError("--preset and --all are mutually exclusive; give one of them")
    if every and not file.preset:
        raise GmgError(f"{path} has no presets; leave out --all")
    for name in presets:
        if name not in file.preset:
            raise GmgError(f"--preset {name}: {path} has no such preset; the presets: {listed(file.preset) or 'none'}")
    chosen = list(file.preset) if every else list(dict.fromkeys(presets))
    return [(name, file.under(file.preset[name])) for name in chosen] or [("", file)]


def make(
    chosen: Sequence[tuple[str, Settings]],
    where: str,
    sets: Mapping[str, tuple[Value, ...]],
    check_script: Callable[[str, bool], None],
    *,
    cpu: bool,
) -> Plan:
    """Make the batches, of which `choose` gives the names and settings, and their jobs.

    Args:
        chosen: Of each batch the name and settings.
        where: The file, for messages.
        sets: The values of `--set`.
        check_script: Raises `GmgError` unless a script, or a module (its second argument), can be run.
        cpu: Whether jobs run on CPU slots, where the file's GPUs do not matter.

    Raises:
        GmgError: The settings do not make a sweep.
    """
    builders = [_Builder(where, name, settings, sets, several=len(chosen) > 1) for name, settings in chosen]
    for builder in builders:
        builder.check(check_script)
    total = sum(builder.size * (builder.settings.repeat or 1) for builder in builders)
    if total > MAX_JOBS:
        raise GmgError(f"{where}: the grid makes {total:,} jobs; give fewer values: a sweep has at most {MAX_JOBS:,}")
    jobs = _jobs(builders)
    _check_out_dirs(builders, jobs)
    used = set[str]().union(*(builder.used for builder in builders))
    valued = dict.fromkeys(name for job in jobs for name in job.values)
    unused = [name for name in valued if name not in used]
    warning = (
        f"{where}: no placeholder uses {listed(unused)}; write {{{next(iter(unused), '')}}} where jobs should get it"
    )
    batches = tuple(builder.batch(cpu=cpu) for builder in builders)
    return Plan(batches, jobs, (warning,) if unused else ())


def changed(batch: Batch, settings: Settings, *, cpu: bool) -> Batch:
    """`batch` with the GPUs (none on CPU slots), limits and variables of `settings`; its jobs do not change."""
    changes = {key: value for key in _LIMITS if (value := getattr(settings, key)) is not None}
    if settings.min_free_mib == 0:
        changes["min_free_mib"] = None
    if settings.timeout is not None:
        changes["timeout_s"] = None if math.isinf(settings.timeout_s) else settings.timeout_s
    gpus = None if cpu else settings.gpus_text or batch.gpus
    env = batch.env | {name: as_text(value) for name, value in settings.env.items()}
    return structs.replace(batch, gpus=gpus, env=env, **changes)


class _Builder:
    """Makes one batch and its jobs from the settings of file, preset and command line, and the values of `--set`."""

    def __init__(
        self, where: str, name: str, settings: Settings, sets: Mapping[str, tuple[Value, ...]], *, several: bool
    ) -> None:
        self.where = where
        self.name = name
        self.settings = settings
        self.experiments = settings.experiment or ()
        fixed = {key: values[0] for key, values in sets.items() if len(values) == 1}
        # Without a grid, a single value of --set changes the experiments and adds no job.
        self.has_grid = bool(settings.grid) or len(fixed) < len(sets) or not self.experiments
        self.grid = {**(settings.grid or {}), **sets} if self.has_grid else {}
        self._fixed = fixed
        self._prefix = f"{name}-" if several else ""
        self.used = frozenset(name for _, text in self._texts() for name in names_in(text))

    @property
    def size(self) -> int:
        """How many jobs it makes, each run once."""
        return math.prod(map(len, self.grid.values())) * self.has_grid + len(self.experiments)

    def drafts(self) -> Iterator[JobRecord]:
        """Its jobs without numbers: the grid's, the last key varying fastest, then the experiments."""
        if self.has_grid:
            varied = [key for key, values in self.grid.items() if len(values) > 1] or list(self.grid)
            for combination in itertools.product(*self.grid.values()):
                values = dict(zip(self.grid, combination, strict=True))
                yield self._draft(names.of_values({key: values[key] for key in varied}) or self._script_name(), values)
        for number, table in enumerate(self.experiments, 1):
            values = {key: self._fixed.get(key, value) for key, value in table.items() if key != "name"}
            yield self._draft(names.safe(as_text(table.get("name", f"experiment-{number}"))), values)

    def _draft(self, name: str, values: dict[str, Value]) -> JobRecord:
        values = {key: stored(value) for key, value in {**values, **self._fixed}.items()} | {
            key: stored(value) for key, value in self.settings.defaults.items() if key not in {*values, *self._fixed}
        }
        ddp, gpus = (self._width(key, values) for key in _WIDTHS)
        return JobRecord(0, self._prefix + name, values=values, gpus=ddp or gpus or 1, world_size=ddp)

    def _width(self, key: str, values: Mapping[str, Value]) -> int | None:
        """How many slots `ddp` or `gpus_per_job` asks for in a job with these values; None where it is not set."""
        width: int | str | None = getattr(self.settings, key)
        if isinstance(width, str):
            value = values.get(width[1:-1])
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
                raise GmgError(f"{self.where}: {key}: {width} is {value}; give it whole numbers from 1 to 1024")
            return value
        return width

    def _script_name(self) -> str:
        script = self.settings.script or ""
        stem = script.rpartition(".")[2] if self.settings.module else Path(script).stem
        return names.safe(stem).lstrip(".-=,+") or "job"

    def batch(self, *, cpu: bool) -> Batch:
        """The batch."""
        settings = self.settings
        args = tuple(map(as_text, settings.args or ()))
        plain = Batch(self.name, settings.script or "", args, module=bool(settings.module), out_dir=settings.out_dir)
        return changed(plain, settings, cpu=cpu)

    def _texts(self) -> Iterator[tuple[str, str]]:
        """The texts that may contain placeholders, each after its key."""
        for number, arg in enumerate(self.settings.args or (), 1):
            yield f"args[{number}]", as_text(arg)
        for key, value in self.settings.env.items():
            yield f"env.{key}", as_text(value)
        for key in ("out_dir", *_WIDTHS):
            if isinstance(text := getattr(self.settings, key), str):
                yield key, text

    def check(self, check_script: Callable[[str, bool], None]) -> None:
        """Raise `GmgError` where its settings contradict each other, or a placeholder has no value in a job."""
        settings = self.settings
        if settings.script is None:
            raise GmgError(f'{self.where}: script is missing; give script = "sim.py" in the file, or --script SCRIPT')
        check_script(settings.script, bool(settings.module))
        if settings.ddp is not None and settings.gpus_per_job not in (None, 1):
            raise GmgError(f"{self.where}: ddp has a process on each GPU, gpus_per_job one for all; leave out one")
        if (settings.per_gpu or 1) > 1 and any(getattr(settings, key) not in (None, 1) for key in _WIDTHS):
            raise GmgError(f"{self.where}: jobs that need several GPUs do not share them; leave out per_gpu")
        if "out_dir" in names_in(settings.out_dir or ""):
            raise GmgError(f"{self.where}: out_dir: {{out_dir}} is the folder itself; use {{job}} or {{name}}")
        defaults = {*settings.defaults, *self._fixed}
        jobs = [(" in the grid", {*defaults, *self.grid})] if self.has_grid else []
        jobs += [(f" in experiment {number}", {*defaults, *table}) for number, table in enumerate(self.experiments, 1)]
        for where, valued in jobs:
            for key, text in self._texts():
                for name in names_in(text):
                    if name not in valued and (name not in BUILT_IN or key in _WIDTHS):
                        raise GmgError(
                            f"{self.where}: {key}: {{{name}}} has no value{where}{nearest(name, [*valued])}; "
                            f"there are: {listed([*sorted(valued), *BUILT_IN])}; literal braces are {{{{{name}}}}}"
                        )


def _jobs(builders: Sequence[_Builder]) -> tuple[JobRecord, ...]:
    taken = names.Names()
    jobs: list[JobRecord] = []
    for batch, builder in enumerate(builders):
        drafts = [structs.replace(draft, name=taken.unique(draft.name)) for draft in builder.drafts()]
        repeat = builder.settings.repeat or 1
        # All run once before any runs again: a sweep that is stopped has run all of them equally often.
        for run, draft in itertools.product(range(1, repeat + 1), drafts):
            name = taken.unique(draft.name, f"-r{run}") if repeat > 1 else draft.name
            jobs.append(structs.replace(draft, number=len(jobs) + 1, name=name, batch=batch))
    return tuple(jobs)


def _check_out_dirs(builders: Sequence[_Builder], jobs: Sequence[JobRecord]) -> None:
    """Raise `GmgError` where two jobs would share a folder: each would find the other's `result.json` in it."""
    owners: dict[str, JobRecord] = {}
    for job in jobs:
        out_dir = builders[job.batch].settings.out_dir
        if out_dir is None or not _DIFFERENT.isdisjoint(names_in(out_dir)):
            continue
        other = owners.setdefault(fill(out_dir, job.values), job)
        if other is not job:
            raise GmgError(
                f"{builders[0].where}: out_dir is the same folder for {other.name} and {job.name}; "
                "put {name} or {job} into it"
            )
