"""Makes a sweep's jobs from its settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from gmg_tui.errors import GmgError, listed, nearest
from gmg_tui.model import JobRecord, RunSpec, SweepSpec, Value
from gmg_tui.placeholders import as_text, names_in
from gmg_tui.sweep import names
from gmg_tui.sweep.settings import BUILT_IN, Settings, stored

MAX_JOBS = 100_000


class Plan(NamedTuple):
    """The jobs of a sweep, and what the user should know of them, a line each."""

    jobs: tuple[JobRecord, ...]
    warnings: tuple[str, ...]


def make(
    settings: Settings, where: str, sets: Mapping[str, tuple[Value, ...]], check_script: Callable[[str, bool], None]
) -> Plan:
    """Make the jobs.

    Args:
        settings: Those of file and command line.
        where: The file, for messages.
        sets: The values of `--set`.
        check_script: Raises `GmgError` unless a script, or a module (its second argument), can be run.

    Raises:
        GmgError: The settings do not make a sweep.
    """
    builder = _Builder(where, settings, sets)
    builder.check(check_script)
    if builder.size > MAX_JOBS:
        raise GmgError(
            f"{where}: the grid makes {builder.size:,} jobs; give fewer values: a sweep has at most {MAX_JOBS:,}"
        )
    taken = names.Names()
    jobs = tuple(
        structs.replace(draft, number=number, name=taken.unique(draft.name))
        for number, draft in enumerate(builder.drafts(), 1)
    )
    used = {name for _, text in builder.texts() for name in names_in(text)}
    unused = [name for name in dict.fromkeys(name for job in jobs for name in job.values) if name not in used]
    if not unused:
        return Plan(jobs, ())
    warning = f"{where}: no placeholder uses {listed(unused)}; write {{{unused[0]}}} where jobs should get it"
    return Plan(jobs, (warning,))


def applied(spec: RunSpec, settings: Settings) -> RunSpec:
    """The spec of a sweep, or of one that is resumed, with the GPUs, limits and variables of `settings`."""
    limits: dict[str, Any] = {
        key: value for key in ("per_gpu", "best") if (value := getattr(settings, key)) is not None
    }
    if settings.timeout is not None:
        limits["timeout_s"] = None if math.isinf(settings.timeout_s) else settings.timeout_s
    return structs.replace(
        spec,
        gpus=None if spec.cpu is not None else settings.gpus_text or spec.gpus,
        env=spec.env | {name: as_text(value) for name, value in settings.env.items()},
        sweep=structs.replace(spec.sweep or SweepSpec(), **limits),
    )


class _Builder:
    """Makes the jobs from the settings of file and command line, and the values of `--set`."""

    def __init__(self, where: str, settings: Settings, sets: Mapping[str, tuple[Value, ...]]) -> None:
        self._where = where
        self._settings = settings
        self._experiments = settings.experiment or ()
        fixed = {key: values[0] for key, values in sets.items() if len(values) == 1}
        # Without a grid, a single value of --set changes the experiments and adds no job.
        self._has_grid = bool(settings.grid) or len(fixed) < len(sets) or not self._experiments
        self._grid = {**(settings.grid or {}), **sets} if self._has_grid else {}
        self._fixed = fixed

    @property
    def size(self) -> int:
        """How many jobs it makes."""
        return math.prod(map(len, self._grid.values())) * self._has_grid + len(self._experiments)

    def drafts(self) -> Iterator[JobRecord]:
        """The jobs without numbers: the grid's, the last key varying fastest, then the experiments."""
        if self._has_grid:
            varied = [key for key, values in self._grid.items() if len(values) > 1] or list(self._grid)
            for combination in itertools.product(*self._grid.values()):
                values = dict(zip(self._grid, combination, strict=True))
                yield self._draft(names.of_values({key: values[key] for key in varied}) or self._script_name(), values)
        for number, table in enumerate(self._experiments, 1):
            values = {key: self._fixed.get(key, value) for key, value in table.items() if key != "name"}
            yield self._draft(names.safe(as_text(table.get("name", f"experiment-{number}"))), values)

    def _draft(self, name: str, values: dict[str, Value]) -> JobRecord:
        values = {key: stored(value) for key, value in {**values, **self._fixed}.items()} | {
            key: stored(value) for key, value in self._settings.defaults.items() if key not in {*values, *self._fixed}
        }
        return JobRecord(0, name, values=values, world_size=self._ranks(values))

    def _ranks(self, values: Mapping[str, Value]) -> int | None:
        """How many ranks a job with these values has; None without `ddp`."""
        ranks = self._settings.ddp
        if isinstance(ranks, str):
            value = values.get(ranks[1:-1])
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
                raise GmgError(f"{self._where}: ddp: {ranks} is {value}; give it whole numbers from 1 to 1024")
            return value
        return ranks

    def _script_name(self) -> str:
        script = self._settings.script or ""
        stem = script.rpartition(".")[2] if self._settings.module else Path(script).stem
        return names.safe(stem).lstrip(".-=,+") or "job"

    def texts(self) -> Iterator[tuple[str, str]]:
        """The texts that may contain placeholders, each after its key."""
        for number, arg in enumerate(self._settings.args or (), 1):
            yield f"args[{number}]", as_text(arg)
        for key, value in self._settings.env.items():
            yield f"env.{key}", as_text(value)
        if isinstance(self._settings.ddp, str):
            yield "ddp", self._settings.ddp

    def check(self, check_script: Callable[[str, bool], None]) -> None:
        """Raise `GmgError` where the settings contradict each other, or a placeholder has no value in a job."""
        settings, where = self._settings, self._where
        if settings.script is None:
            raise GmgError(f'{where}: script is missing; give script = "sim.py" in the file, or --script SCRIPT')
        check_script(settings.script, bool(settings.module))
        if (settings.per_gpu or 1) > 1 and settings.ddp not in (None, 1):
            raise GmgError(f"{where}: jobs that need several GPUs do not share them; leave out per_gpu")
        defaults = {*settings.defaults, *self._fixed}
        jobs = [(" in the grid", {*defaults, *self._grid})] if self._has_grid else []
        jobs += [(f" in experiment {number}", {*defaults, *table}) for number, table in enumerate(self._experiments, 1)]
        for job, valued in jobs:
            for key, text in self.texts():
                for name in names_in(text):
                    if name not in valued and (name not in BUILT_IN or key == "ddp"):
                        raise GmgError(
                            f"{where}: {key}: {{{name}}} has no value{job}{nearest(name, [*valued])}; "
                            f"there are: {listed([*sorted(valued), *BUILT_IN])}; literal braces are {{{{{name}}}}}"
                        )
