"""One level of a sweep's settings: the file, a preset in it, or the command line."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from gmg_tui.model import Value

_MERGED = ("defaults", "env")
"""Tables whose keys are overridden one by one."""


class Experiment(Struct, frozen=True):
    """A single job in addition to the grid."""

    values: dict[str, Value]
    name: str | None = None
    """None where it is numbered."""


class Settings(Struct, frozen=True, kw_only=True):
    """One level; None where it does not set a key."""

    script: str | None = None
    """The path from the current folder, or a module's name."""
    module: bool | None = None
    args: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    gpus: str | None = None
    per_gpu: int | None = None
    ddp: int | str | None = None
    """How many ranks each job's group has; a text has the name of the value that says so, in braces."""
    gpus_per_job: int | str | None = None
    """How many GPUs each job's one process sees; a text as in `ddp`."""
    min_free_mib: float | None = None
    retries: int | None = None
    repeat: int | None = None
    """How often each job is run."""
    every_gpu: bool | None = None
    """Whether each job is run on every GPU of its batch."""
    timeout_s: float | None = None
    """Infinity for no limit."""
    out_dir: str | None = None
    name: str | None = None
    """The session's."""
    best: str | None = None
    grid: dict[str, tuple[Value, ...]] | None = None
    defaults: dict[str, Value] | None = None
    experiments: tuple[Experiment, ...] | None = None
    places: dict[str, str] = {}
    """Where each field (and each variable, as `env.NAME`) was set: `sweep.toml: preset.quick.args`, `--args`."""

    def under(self, upper: Settings) -> Settings:
        """This level overridden by `upper`.

        The grid and the experiments are replaced as a whole, defaults and variables one by one.
        """
        changes: dict[str, Any] = {
            field: said for field in self.__struct_fields__ if (said := getattr(upper, field)) is not None
        }
        for table in _MERGED:
            changes[table] = {**(getattr(self, table) or {}), **(getattr(upper, table) or {})}
        return structs.replace(self, **{**changes, "places": {**self.places, **upper.places}})

    def place(self, field: str) -> str:
        """Where `field` was set."""
        return self.places.get(field, field)
