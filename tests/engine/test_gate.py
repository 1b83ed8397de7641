"""Which worker may start when."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from gmg_tui.engine.attempts import gate
from gmg_tui.engine.attempts.gate import Gate
from gmg_tui.model import Phase, StartMode


class Asked:
    """Workers that have asked a gate, and what each waits for."""

    def __init__(self, way: StartMode, *slots: str) -> None:
        self.gate = Gate(way)
        self.reasons: dict[str, str | None] = {}
        self.waiting: dict[str, asyncio.Task[None]] = {}
        for slot in slots:
            self.ask(slot)

    def ask(self, slot: str) -> None:
        self.reasons[slot] = None
        self.waiting[slot] = asyncio.create_task(self.gate.wait(slot, partial(self.reasons.__setitem__, slot)))

    async def started(self) -> list[str]:
        """The slots whose workers may start."""
        for _ in range(3):
            await asyncio.sleep(0)
        return [slot for slot, task in self.waiting.items() if task.done()]

    async def all_start(self) -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*self.waiting.values())


async def test_in_together_mode_no_worker_waits() -> None:
    assert await Asked(StartMode.TOGETHER, "gpu0", "gpu1").started() == ["gpu0", "gpu1"]


async def test_the_first_worker_to_ask_starts_first_and_opens_the_gate() -> None:
    asked = Asked(StartMode.GATED, "gpu3", "gpu0")
    assert await asked.started() == ["gpu3"]
    assert asked.reasons == {"gpu3": None, "gpu0": "for gpu3 to write the mesh caches"}
    asked.gate.reached("gpu0", Phase.COMPILING)
    asked.gate.reached("gpu3", Phase.IMPORTING)
    assert await asked.started() == ["gpu3"]
    asked.gate.reached("gpu3", Phase.COMPILING)
    asked.ask("gpu1")
    assert await asked.started() == ["gpu3", "gpu0", "gpu1"]


async def test_the_end_of_the_first_worker_opens_the_gate() -> None:
    asked = Asked(StartMode.GATED, "gpu0", "gpu1", "gpu2")
    await asked.started()
    asked.gate.ended("gpu0")
    await asked.all_start()


async def test_the_next_worker_leads_when_the_user_stops_the_first() -> None:
    asked = Asked(StartMode.GATED, "gpu0", "gpu1", "gpu2")
    await asked.started()
    asked.gate.left("gpu0")
    assert await asked.started() == ["gpu0", "gpu1"]
    assert asked.reasons["gpu2"] == "for gpu1 to write the mesh caches"
    asked.gate.left("gpu1")
    asked.ask("gpu0")
    assert await asked.started() == ["gpu1", "gpu2"]
    assert asked.reasons["gpu0"] == "for gpu2 to write the mesh caches"


@pytest.mark.parametrize(
    ("limit", "phase", "uses_genesis"),
    [("TIMEOUT_S", None, True), ("LONGEST_S", Phase.BUILDING, True), ("PLAIN_S", None, False)],
)
async def test_the_wait_for_the_first_worker_depends_on_its_phase(
    monkeypatch: pytest.MonkeyPatch, limit: str, phase: Phase | None, uses_genesis: bool
) -> None:
    monkeypatch.setattr(gate, "CHECK_S", 0.01)
    for name in ("TIMEOUT_S", "LONGEST_S", "PLAIN_S"):
        monkeypatch.setattr(gate, name, 0.1 if name == limit else 1e6)
    asked = Asked(StartMode.GATED, "gpu0", "gpu1")
    await asked.started()
    asked.gate.began("gpu0", lambda: uses_genesis)
    if phase is not None:
        asked.gate.reached("gpu0", phase)
    await asked.all_start()


async def test_in_staggered_mode_a_slot_waits_only_for_its_first_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "STAGGER_S", 0.01)
    asked = Asked(StartMode.STAGGERED, "gpu0", "gpu1")
    await asked.all_start()
    assert asked.reasons == {"gpu0": None, "gpu1": "staggered: starts 0 s after gpu0"}
    asked.ask("gpu1")
    await asked.started()
    await asked.all_start()
    assert asked.reasons["gpu1"] is None, "its next job starts at once"
