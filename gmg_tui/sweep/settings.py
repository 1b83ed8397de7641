"""What one level of a sweep's settings says: the file, a preset in it, or the command line."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from gmg_tui.model import Value

_MERGED = ("defaults", "env")
"""Tables of which the upper level replaces single keys."""


class Experiment(Struct, frozen=True):
    """A single job beside the grid."""

    values: dict[str, Value]
    name: str | None = None
    """None: it is numbered."""


class Settings(Struct, frozen=True, kw_only=True):
    """One level; None is what it does not say."""

    script: str | None = None
    """As it can be opened from the current folder."""
    module: bool | None = None
    args: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    gpus: str | None = None
    per_gpu: int | None = None
    min_free_mib: float | None = None
    retries: int | None = None
    timeout_s: float | None = None
    """Infinity: for ever."""
    out_dir: str | None = None
    name: str | None = None
    """Of the session."""
    best: str | None = None
    grid: dict[str, tuple[Value, ...]] | None = None
    defaults: dict[str, Value] | None = None
    experiments: tuple[Experiment, ...] | None = None
    places: dict[str, str] = {}
    """Where each of these (and each variable, as `env.NAME`) was said: `sweep.toml: preset.quick.args`, `--args`."""

    def under(self, upper: Settings) -> Settings:
        """This level with what `upper` says instead.

        Plain keys, the grid and the experiments are replaced as wholes, defaults and variables one by one.
        """
        changes: dict[str, Any] = {
            field: said for field in self.__struct_fields__ if (said := getattr(upper, field)) is not None
        }
        for table in _MERGED:
            changes[table] = {**(getattr(self, table) or {}), **(getattr(upper, table) or {})}
        return structs.replace(self, **{**changes, "places": {**self.places, **upper.places}})

    def place(self, field: str) -> str:
        """Where `field` was said."""
        return self.places.get(field, field)
