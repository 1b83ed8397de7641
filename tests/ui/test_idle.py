"""The pauses of the tests of the interface."""

from __future__ import annotations

import asyncio
import time

from textual.app import App

STEPS = 30


class Slow(App[None]):
    """Does its work in many small steps, before each of which it waits for its turn on a busy machine."""

    done = 0

    def key_x(self) -> None:
        self.run_worker(self._work())

    async def _work(self) -> None:
        for _ in range(STEPS):
            await asyncio.sleep(0)
            time.sleep(0.03)  # noqa: ASYNC251 - another process has the CPU
            self.done += 1


async def test_a_pause_lasts_until_an_app_that_gets_little_of_the_cpu_has_done_its_work() -> None:
    app = Slow()
    async with app.run_test() as pilot:
        await pilot.press("x")
        assert app.done == STEPS
