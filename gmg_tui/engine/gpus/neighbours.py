"""Which GPUs run what another fails with: a failure of one GPU alone is no limit of the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gmg_tui import env_count, placeholders
from gmg_tui.genesis.output.failures import Failure, FailureKind

_MOST = 256
"""Kinds of runs that are remembered at once."""

Run = tuple[object, ...]
"""What two runs must have in common to be comparable."""


def run_of(script: str, args: Sequence[str], env: Mapping[str, str], values: Mapping[str, object], gpu: str) -> Run:
    """The run of a script on a model of GPU, whatever its number of environments.

    `args` and `env` are as written, as the names and seeds of workers do not matter; `values` are those of a job.
    """
    fillable = {name: value for name, value in values.items() if name not in placeholders.JOB_NAMES}
    filled = [placeholders.fill(arg, fillable) for arg in args]
    position = env_count.position(filled)
    if position is not None:
        index, start = position
        filled[index] = filled[index][:start]
    return script, tuple(filled), tuple(sorted(env.items())), gpu


class Neighbours:
    """The GPUs of one kind of run, with the most environments that each has run."""

    def __init__(self) -> None:
        self._most: dict[str, int] = {}

    def runs(self, uuid: str, n_envs: int) -> None:
        """A GPU runs so many environments."""
        self._most[uuid] = max(n_envs, self._most.get(uuid, 0))

    def advice(self, failure: Failure, uuid: str, n_envs: int | None) -> str:
        """What to do about a failure of a GPU with `n_envs` environments: another thing where others run as many or more."""
        if failure.kind not in (FailureKind.MEMORY, FailureKind.DEVICE) or n_envs is None:
            return failure.advice
        others = [most for other, most in self._most.items() if other != uuid and most >= n_envs]
        if not others:
            return failure.advice
        number = "another runs" if len(others) == 1 else f"{len(others)} others run"
        check = "end other programs that use its memory" if failure.kind is FailureKind.MEMORY else failure.advice
        return f"only this GPU fails; {number} {min(others):,} envs: {check}"


class KindsOfRuns:
    """The neighbours of all kinds of runs of a session."""

    def __init__(self) -> None:
        self._known: dict[Run, Neighbours] = {}

    def of(self, run: Run) -> Neighbours:
        """Those of `run`; the ones asked for longest ago are forgotten for new ones."""
        neighbours = self._known.pop(run, None) or Neighbours()
        self._known[run] = neighbours
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return neighbours
