"""Thins a store's metrics as they age, to means and maxima over longer steps."""

from __future__ import annotations

import sqlite3
from typing import Final

from gmg_tui.session.store.database import MetricsRow

_STEPS: Final = ((3600.0, 10), (86_400.0, 60))
"""Ages, each with the step of older metrics, seconds."""
MAX_ROWS = 5000
"""Limit of rows that one call reads for each step."""
_MAXIMA: Final = ("memory_used_mib", "temperature_c")
"""Metrics reduced to their maximum; all others are averaged."""
METRICS: Final = ("fps", "gpu_util_pct", "memory_used_mib", "power_w", "temperature_c", "sm_pct")


def combined(metric: str) -> str:
    """Returns the SQL expression that combines a metric of several rows."""
    if metric in _MAXIMA:
        return f"max({metric})"
    return f"sum({metric} * 1.0 * seconds) / sum(({metric} IS NOT NULL) * seconds)"


_COLUMNS = {
    **{name: name for name in MetricsRow._fields},
    "time": "min(time)",
    **{metric: combined(metric) for metric in METRICS},
    "seconds": "sum(seconds)",
}
# Rows that lack a metric are combined separately, so that `seconds` is the weight of all metrics in a row.
_JOINED = f"""
SELECT min(rowid), {", ".join(_COLUMNS.values())} FROM metrics WHERE rowid > ? AND rowid <= ?
GROUP BY slot, job, state, CAST(time / ? AS INTEGER), {", ".join(f"{metric} IS NULL" for metric in METRICS)}
"""  # noqa: S608 - texts of this module
_LAST = """
SELECT max(number) FROM (SELECT rowid AS number, time FROM metrics WHERE rowid > ? ORDER BY rowid LIMIT ?) WHERE time < ?
"""
_PUT = f"INSERT INTO metrics (rowid, {', '.join(_COLUMNS)}) VALUES ({', '.join('?' * (len(_COLUMNS) + 1))})"  # noqa: S608


def thin(db: sqlite3.Connection) -> bool:
    """Thins metrics by their age relative to the newest, keeping their order. Returns True if another call is needed.

    Raises `sqlite3.Error`.
    """
    newest = db.execute("SELECT time FROM metrics ORDER BY rowid DESC LIMIT 1").fetchone()
    full = [_thin(db, step_s, newest[0] - age_s) for age_s, step_s in _STEPS] if newest is not None else []
    return any(full)


def _thin(db: sqlite3.Connection, step_s: int, before: float) -> bool:
    key = f"thinned to {step_s} s"
    db.execute("BEGIN IMMEDIATE")
    try:
        done = db.execute("SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?", (key,)).fetchone()
        first = done[0] if done is not None else 0
        (last,) = db.execute(_LAST, (first, MAX_ROWS, before // step_s * step_s)).fetchone()
        read = 0
        if last is not None:
            rows = db.execute(_JOINED, (first, last, step_s)).fetchall()
            read = db.execute("DELETE FROM metrics WHERE rowid > ? AND rowid <= ?", (first, last)).rowcount
            db.executemany(_PUT, rows)
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(last)))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return read >= MAX_ROWS
