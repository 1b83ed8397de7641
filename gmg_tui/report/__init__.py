"""What a session did, read from its store: a table for the terminal, a page for the browser.

`data` collects and orders, `table` and `page` draw. The commands call it, also while an engine writes the store.
"""

from __future__ import annotations

from pathlib import Path


def final(folder: Path) -> str:
    """The table with its totals that a sweep prints at its end, as wide as the terminal; no line end at the end.

    Raises:
        StoreError: The session's store cannot be read.
    """
    from gmg_tui.report.data import collect
    from gmg_tui.report.table import render
    from gmg_tui.session import STORE
    from gmg_tui.store.reader import open_store

    with open_store(folder / STORE) as stored:
        data = collect(stored, folder.name)
    sweep = data.session.spec.sweep if data.session is not None else None
    return render(data, sweep.best if sweep is not None else None)
