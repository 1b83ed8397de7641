"""GPU memory over the number of environments, as this session has measured it: what fits, after out of memory.

Memory is very nearly a straight line over the number of environments (Genesis, a Franka: fitted on 300 and 3,000, the
line is right for 18,000 within 0.7 %).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import linear_regression

from gmg_tui import units
from gmg_tui.genesis import env_count, placeholders
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.model import MemoryLine

_MOST = 256
"""Kinds of runs that are remembered at once."""

Run = tuple[object, ...]
"""What two runs must have in common for their memory to lie on one line."""


def run_of(script: str, args: Sequence[str], env: Mapping[str, str], values: Mapping[str, object], gpu: str) -> Run:
    """The run of a script on a model of GPU, whatever its number of environments.

    `args` and `env` are as written, as the names and seeds of workers do not matter; `values` are those of a job.
    """
    own = {name: value for name, value in values.items() if name not in placeholders.JOB_NAMES}
    filled = [placeholders.fill(arg, own) for arg in args]
    found = env_count.place(filled)
    if found is not None:
        index, start = found
        filled[index] = filled[index][:start]
    return script, tuple(filled), tuple(sorted(env.items())), gpu


class Footprint:
    """The memory of one kind of run, by its number of environments."""

    def __init__(self) -> None:
        self._mib: dict[int, float] = {}
        """The peak of an attempt's own memory while it ran."""

    def measure(self, n_envs: int, own_mib: float) -> None:
        """Take what an attempt uses that runs with `n_envs` environments."""
        self._mib[n_envs] = max(own_mib, self._mib.get(n_envs, 0.0))

    @property
    def line(self) -> MemoryLine | None:
        """The line through what was measured; None with fewer than two numbers of environments, or if it does not rise."""
        if len(self._mib) < 2:
            return None
        slope, intercept = linear_regression(list(self._mib), list(self._mib.values()))
        return MemoryLine(intercept, slope) if slope > 0 else None

    def explained(self, failure: Failure, n_envs: int | None, free_mib: float | None) -> Failure:
        """`failure`, where it is out of memory with what is known of it in the place of what the library has said.

        Args:
            failure: Why an attempt failed.
            n_envs: Its number of environments.
            free_mib: The memory of its GPU that was free before it began.
        """
        if failure.kind is not FailureKind.MEMORY or n_envs is None:
            return failure
        self._mib.pop(n_envs, None)  # it may have run for a moment
        said = self._known(n_envs, free_mib)
        return failure._replace(reason=f"out of memory: {said}") if said else failure

    def _known(self, n_envs: int, free_mib: float | None) -> str:
        """What `n_envs` environments need, and how many fit; empty where nothing is known."""
        line = self.line
        if line is not None and free_mib is not None:
            needed_mib = line.base_mib + n_envs * line.per_unit_mib
            most = int((free_mib - line.base_mib) / line.per_unit_mib)
            fits = max(_rounded(most), *(number for number in self._mib if number <= most), 0)
            if needed_mib > free_mib:
                rest = f"about {fits:,} fit" if fits else f"{units.mib(free_mib)} were free"
                return f"{n_envs:,} envs need about {units.mib(needed_mib)}; {rest}"
        ran = max((number for number in self._mib if number < n_envs), default=None)
        return f"{n_envs:,} envs do not fit; {ran:,} ran with {units.mib(self._mib[ran])}" if ran is not None else ""


def _rounded(number: int) -> int:
    """`number` rounded down to two digits, as it is an estimate."""
    if number < 100:
        return max(0, number)
    scale: int = 10 ** (len(str(number)) - 2)
    return number // scale * scale


class Footprints:
    """The footprints of all kinds of runs of a session."""

    def __init__(self) -> None:
        self._known: dict[Run, Footprint] = {}

    def of(self, run: Run) -> Footprint:
        """That of `run`; the one asked for longest ago is forgotten for a new one."""
        found = self._known.pop(run, None) or Footprint()
        self._known[run] = found
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return found
