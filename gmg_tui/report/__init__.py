"""What a session did, told from its store: a table for the terminal and a page for the browser."""

from __future__ import annotations

from pathlib import Path


def final(folder: Path) -> str:
    """The table that a sweep prints at its end, with its totals, as wide as the terminal; many lines without a last end.

    Args:
        folder: The session's.

    Raises:
        StoreError: The session's store cannot be read.
    """
    # Loaded here: who imports `gmg_tui.report.page` needs no table, and the table's library takes its time.
    from gmg_tui.report import table
    from gmg_tui.report.account import account
    from gmg_tui.session import STORE
    from gmg_tui.store.reader import Stored

    with Stored(folder / STORE) as stored:
        told = account(stored, folder.name)
    sweep = told.session.spec.sweep if told.session is not None else None
    return table.render(told, sweep.best if sweep is not None else None)
