"""Finds the number of environments that an earlier tuning recommended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gmg_tui.model import RunSpec
from gmg_tui.model.tuning import FPS
from gmg_tui.session.paths import STORE
from gmg_tui.session.session_record import SessionEntry, listing
from gmg_tui.session.store.database import StoreError
from gmg_tui.session.store.reader import open_store

_MAX_TUNINGS = 20


def program_of(spec: RunSpec) -> tuple[bool, str]:
    """Returns a key for the script of a session."""
    return spec.module, spec.script if spec.module else str(Path(spec.cwd, spec.script))


def tuned_envs(program: tuple[bool, str], gpu: str | None) -> int | None:
    """Returns the number that the newest tuning of a program recommends for a GPU model; None without one."""
    for entry in [*_tunings(program, gpu)][:_MAX_TUNINGS]:
        try:
            with open_store(entry.folder / STORE) as stored:
                snapshot = stored.last_snapshot
        except StoreError:
            continue
        best = snapshot.tuning.answer.recommended if snapshot is not None and snapshot.tuning is not None else None
        if best is not None:
            return best.value
    return None


def _tunings(program: tuple[bool, str], gpu: str | None) -> Iterator[SessionEntry]:
    for entry in listing():
        session, tune = entry.record.session, entry.record.session.spec.tune
        models = {slot.gpu.name if slot.gpu is not None else None for slot in session.slots}
        is_same = program_of(session.spec) == program and models == {gpu}
        if tune is not None and tune.metric == FPS and "env" in tune.variable.lower() and is_same:
            yield entry
