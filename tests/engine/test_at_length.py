"""What only happens after a thousand restarts, or in the moment in which everything ends."""

from __future__ import annotations

import os

import pytest

from gmg_tui.engine.children import Children
from gmg_tui.engine.output.pump import Pump
from gmg_tui.engine.processes.process import Process
from gmg_tui.engine.processes.scans import Scans
from gmg_tui.engine.workers.restart_policy import backoff_s


@pytest.mark.parametrize("restarts", [10, 1023, 1024, 5000])
def test_a_worker_that_has_restarted_a_thousand_times_waits_a_minute_for_the_next(restarts: int) -> None:
    assert 45.0 <= backoff_s(restarts) <= 75.0


async def test_pipes_that_are_at_their_end_when_they_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bytes] = []
    children = Children()
    process = Process(Pump(), children, Scans(), "cpu0", lambda chunk, _: said.append(chunk))
    writing: list[int] = []

    async def start(*_: object, stdout: int, stderr: int, **__: object) -> None:
        writing.extend((os.dup(stdout), os.dup(stderr)))

    monkeypatch.setattr(children, "start", start)
    await process.start(("nothing",), cwd="/", env={})
    for end in writing:
        os.write(end, b"last words\n")
        os.close(end)
    process._close()
    assert said == [b"last words\n"] * 2
