"""The first frame has the headline and all workers on it; it is not a blank that is filled afterwards."""

from __future__ import annotations

import pyte
import pytest
from rich.console import Console

from tests.pseudo_terminal import text_of
from tests.ui import play

SIZE = (120, 36)
ALL = (*(f"gpu{number}" for number in range(8)), "Σ")


async def test_the_first_frame_shows_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = play.record(monkeypatch, Console(width=SIZE[0], color_system="256"))
    async with play.busy().run_test(size=SIZE):
        terminal = pyte.Screen(*SIZE)
        pyte.Stream(terminal).feed(sent[0])
    assert [word for word in ALL if word not in text_of(terminal)] == []
