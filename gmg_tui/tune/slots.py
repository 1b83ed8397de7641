"""Where trials run, and what is to be started there."""

from __future__ import annotations

from typing import NamedTuple

from gmg_tui.model.tuning import TrialKind


class TuneSlot(NamedTuple):
    """A slot as the search sees it."""

    name: str
    model: str
    """Of its GPU, as NVML names it; `CPU` for a share of the CPU."""
    memory_total_mib: float | None = None
    """None where it is not known, and on the CPU."""


class Plan(NamedTuple):
    """A trial to start now."""

    value: int
    slot: str
    kind: TrialKind
    at_least_s: float = 5.0
    """How long it is measured at least: the second argument of its `Settling`."""


class Want(NamedTuple):
    """A trial that is useful, before it has a slot."""

    value: int
    kind: TrialKind
    slot: str | None = None
    """The only slot on which it is; None for any."""
    rather: tuple[str, ...] = ()
    """Slots that are better than others, the best first."""
