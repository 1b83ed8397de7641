"""A session's results: the table and the few lines that are printed when all workers have ended."""

from __future__ import annotations

from pathlib import Path

from gmg_tui import session as sessions
from gmg_tui.model import Queue, Session, Snapshot
from gmg_tui.results import TUNE


def final(session: Session, snapshot: Snapshot) -> list[str]:
    """The report of a plain run, the answer of a tuning, and of a sweep, whose table is its command's, what stopped it."""
    folder = Path(session.spec.folder)
    if snapshot.tuning is not None:
        from gmg_tui.report import text  # it loads Rich, as tables do

        return [*text.answer_lines(snapshot.tuning), f"tuning: {folder / TUNE}", f"logs: {folder / sessions.LOGS}/"]
    if snapshot.queue is not None:
        return [*_stranded(snapshot.queue), f"logs: {folder / sessions.LOGS}/"]
    from gmg_tui import tables  # not before the end: it loads Rich
    from gmg_tui.report import data, text

    return text.render(data.at_end(session, snapshot), None, *tables.output()).splitlines()


def _stranded(queue: Queue) -> list[str]:
    """Why the waiting jobs of a sweep do not start on any GPU, and what to do; nothing where that is not so."""
    if not queue.stranded:
        return []
    return [
        "no job can start: every GPU that the jobs may use is benched",
        *(f"{slot}: {why}" for slot, why in queue.benched.items()),
        "mend them (nvidia-smi, the kernel's log, gmg-tui doctor), or give others with --gpus, and continue the sweep",
    ]


def exit_status(snapshot: Snapshot, *, interrupted: bool) -> int:
    """The command's exit status: 0 finished, 1 failed, 130 stopped or interrupted by the user.

    After an interruption from here, a worker that fails while it is stopped does not count as a failure.
    """
    return 130 if interrupted else {"finished": 0, "failed": 1, "stopped": 130}[snapshot.outcome]
