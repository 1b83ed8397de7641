"""What the engine's start and a table must not wait for, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("modules", "never"),
    [
        ("gmg_tui.store.writer, gmg_tui.results", ("sqlite3", "rich", "textual", "plotly")),
        ("gmg_tui.report, gmg_tui.commands.report", ("textual", "plotly", "asyncio")),
    ],
)
def test_a_part_does_not_load_what_only_another_needs(modules: str, never: tuple[str, ...]) -> None:
    code = f"import sys, {modules}; print('\\n'.join(sys.modules))"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint(never)
