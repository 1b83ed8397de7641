"""Counts over a whole session, from its store: they hold however late somebody begins to ask."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from sqlite3 import Error

from msgspec import Struct

from gmg_tui.model import WorkerState
from gmg_tui.store import schema
from gmg_tui.store.records import StoreError

_RESTARTS = "SELECT slot, sum(number > 1) FROM attempts GROUP BY slot"
_FAILURES = "SELECT slot, reason, count(*) FROM attempts WHERE state = ? GROUP BY slot, reason"
_WAITS = "SELECT count(*), sum(started - ?) FROM jobs WHERE started >= ?"


class Totals(Struct, frozen=True):
    """What has been counted in a session so far."""

    restarts: Mapping[str, int] = {}
    """By slot: attempts that were not the first of their job."""
    failures: Mapping[tuple[str, str], int] = {}
    """By slot and reason: attempts that failed."""
    begun: int = 0
    """Jobs whose first attempt has started since the engine did."""
    waited_s: float = 0.0
    """How long these had waited for it, all together."""


def read_totals(path: Path, since: float) -> Totals:
    """The totals of the store at `path`; `since` is when its engine started, Unix seconds.

    Raises:
        StoreError: There is no store, it cannot be read, or a later version made it.
    """
    try:
        with closing(schema.open_for_reading(path)) as db:
            begun, waited_s = db.execute(_WAITS, (since, since)).fetchone()
            return Totals(
                dict(db.execute(_RESTARTS).fetchall()),
                {(slot, why or ""): count for slot, why, count in db.execute(_FAILURES, (WorkerState.FAILED.value,))},
                begun,
                waited_s or 0.0,
            )
    except Error as error:
        raise StoreError(f"{path}: the store cannot be read: {error}") from error
