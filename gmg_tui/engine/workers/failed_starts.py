"""Checkpoints that a script could not load."""

from gmg_tui.model import Attempt, Checkpoint
from gmg_tui.scripts.checkpoints import before_nan, without
from gmg_tui.scripts.genesis.output.failures import Failure


class FailedStarts:
    """Leaves out a checkpoint that one worker's script failed to load twice in the same way."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None
        """The checkpoint with which the last attempt failed because of its contents, and how; None if it did not."""

    def usable_after(self, last: Attempt, failure: Failure | None) -> tuple[tuple[Checkpoint, ...], str | None]:
        """Returns the checkpoints to continue from after the attempt `last`, and why one is left out; None if none is."""
        usable, path, before, self._last = before_nan(last), last.continued_from, self._last, None
        if path is None or failure is None or not failure.of_contents or last.has_worked(last.ended or 0.0):
            return usable, None
        self._last = path, failure.reason
        others = without(usable, path) if self._last == before else usable
        return others, f"{path} was left out: {failure.reason}, twice" if others != usable else None
