"""Which attempt the next one is compared with after a change of arguments or environment."""

from __future__ import annotations

from gmg_tui.model import Attempt, AttemptMetrics, WorkerState


def best_to_compare(*attempts: Attempt) -> AttemptMetrics | None:
    """The metrics of the newest of `attempts`, newest first, with a settled rate, else with a printed one.

    What failed, or printed no rate, says nothing of what a change does; None where all are like that.
    """
    sound = [one.metrics for one in attempts if one.state is not WorkerState.FAILED]
    known = [metrics for metrics in sound if metrics is not None and metrics.fps is not None]
    return next((metrics for metrics in known if metrics.settled is not None), known[0] if known else None)
