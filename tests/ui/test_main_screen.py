"""How the main screen shares out its rows."""

from __future__ import annotations

import pyte
import pytest
from rich.console import Console

from tests.pseudo_terminal import text_of
from tests.ui import play


async def test_the_first_frame_shows_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not a blank that is filled afterwards."""
    size = (120, 36)
    sent = play.record(monkeypatch, Console(width=size[0], color_system="256"))
    async with play.busy().run_test(size=size):
        terminal = pyte.Screen(*size)
        pyte.Stream(terminal).feed(sent[0])
    assert [word for word in (*map("gpu{}".format, range(8)), "Σ") if word not in text_of(terminal)] == []
